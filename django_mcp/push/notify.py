"""Tell clients of what was committed: inside of a transaction, notices wait for its end."""

from __future__ import annotations

from functools import partial

from django_mcp.push.process_hub import process_hub
from django_mcp.server.delivery.notify import aannounce, announce
from django_mcp.server.server import MCPServer
from django_mcp.server.services.services import ServerHub
from django_mcp.server.streams.stream import Change

__all__ = ["Publishes"]


class Publishes(MCPServer):
    """A server whose notices go out after the commit, through the hub of the process."""

    def make_hub(self) -> ServerHub:
        """Return the hub that all servers of the process share."""
        return process_hub()

    def publish(self, change: Change, *, using: str | None = None) -> int | None:
        """Publish a change here and in every other process; after the commit, if there is one.

        Inside of a transaction nothing is known yet, so None is returned, and nothing is published
        when that is rolled back.
        """
        # Loads the machinery of models, which importing a server must not.
        from django.db import transaction

        if transaction.get_connection(using).in_atomic_block:
            transaction.on_commit(partial(announce, self.hub, change), using=using, robust=True)
            return None
        return announce(self.hub, change)

    async def apublish(self, change: Change, *, using: str | None = None) -> int | None:
        """Do as `publish` does, on an event loop. Django has no transactions there."""
        return await aannounce(self.hub, change)
