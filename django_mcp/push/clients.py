"""Reach the clients of all processes, from synchronous code too: a view, a command, a queue's worker.

The streams and sessions of other processes are read from the database, two seconds late at most.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import async_to_sync

from django_mcp.conf import settings
from django_mcp.execution.threads import run_in_pool
from django_mcp.push.process_hub import process_hub
from django_mcp.server.asking.clients import SessionHandle, StreamHandle
from django_mcp.server.delivery.notify import announce
from django_mcp.server.server import MCPServer
from django_mcp.server.services.services import ServerHub
from django_mcp.server.streams.stream import Change

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the synchronous twin of a method."""

    @wraps(method)
    def twin(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, so that it may be overridden.
        found: Callable[P, Coroutine[Any, Any, T]] = getattr(server, method.__name__)
        return async_to_sync(found)(*args, **kwargs)

    return twin


class SiteClientMethods(MCPServer):
    """A server whose clients can be reached from anywhere on the site, through the hub of the process.

    The methods that concern other processes raise `RuntimeError` where an event loop runs: await
    their twins there. They write on connections of their own, so that other processes see it at
    once. In a transaction that has written to the same rows, or to SQLite at all, they would wait
    for the transaction and fail after five seconds: call them after the commit
    (`transaction.on_commit`).
    """

    def _make_hub(self) -> ServerHub:
        """Return the hub that all servers of the process share."""
        return process_hub()

    def _publish(self, change: Change, using: str | None = None) -> int | None:
        """Publish a change here and in every other process; after the commit, if there is one.

        Inside of a transaction it returns None; a rollback discards the change.
        """
        # Loads the machinery of models, which importing a server must not.
        from django.db import transaction

        if transaction.get_connection(using).in_atomic_block:
            transaction.on_commit(partial(announce, self.hub, change), using=using, robust=True)
            return None
        return announce(self.hub, change)

    open_streams = _blocking(MCPServer.aopen_streams)
    connected_sessions = _blocking(MCPServer.aconnected_sessions)
    is_subscribed = _blocking(MCPServer.ais_subscribed)
    close_stream = _blocking(MCPServer.aclose_stream)
    close_session = _blocking(MCPServer.aclose_session)
    close_sessions = _blocking(MCPServer.aclose_sessions)
    ping_client = _blocking(MCPServer.aping_client)
    cancel_request = _blocking(MCPServer.acancel_request)

    async def _find_elsewhere(self) -> list[tuple[StreamHandle, SessionHandle | None]]:
        if settings.SESSION_STORE != "model":
            return []
        # Loads models, which importing a server must not.
        from django_mcp.push.stream_rows import read_streams

        return await run_in_pool(lambda: read_streams(self.name))
