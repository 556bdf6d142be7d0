"""The stores for a server's sessions, created on first use, since they load models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.conf import settings
from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.server import MCPServer

__all__ = ["KeepsSessions"]

_NAMES = ("sessions", "answers", "events")


class KeepsSessions(MCPServer):
    """A server whose `sessions`, `answers` and `events` are what `SESSION_STORE` says.

    Values assigned to these attributes take precedence.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._made: dict[str, Any] = {}
        # The core's stores are those of "memory".
        self._plain = {each: vars(self).pop(each) for each in _NAMES}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _NAMES:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            made = self._plain
            if settings.SESSION_STORE == "model":
                # Loads models, which importing a server must not.
                from django_mcp.sessions.stores import make_stores

                made = make_stores(self)
            self._made = made
            vars(self).update({each: made[each] for each in _NAMES if each not in vars(self)})
            return vars(self)[name]

    def forget_stores(self) -> None:
        """Recreate the stores on their next use."""
        for name, store in self._made.items():
            if vars(self).get(name) is store:
                del vars(self)[name]

    async def is_subscribed_elsewhere(self, uri: str) -> bool:
        """See `Reaching.is_subscribed_elsewhere`."""
        if settings.SESSION_STORE != "model":
            return False
        from django_mcp.sessions.rows import is_any_subscribed

        return await run_in_pool(lambda: is_any_subscribed(self.name, uri))
