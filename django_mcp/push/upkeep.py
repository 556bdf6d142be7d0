"""What a site looks after every two seconds: who may still listen, and what the tables say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django_mcp.auth.recheck import recheck
from django_mcp.push.bus import Warner
from django_mcp.push.rows import has_rows, write_rows
from django_mcp.server.push import Ending

if TYPE_CHECKING:
    from django_mcp.server.hub import Hub

__all__ = ["look_after"]

_trouble = Warner()


async def look_after(hub: Hub) -> None:
    """Look after everything that is open in this process."""
    if not hub.is_busy and not has_rows():
        return
    for step in (_end_lost_principals, write_rows):
        try:
            await step(hub)
        except Exception as error:  # noqa: BLE001 - tried again in two seconds
            _trouble.warn("Could not look after open streams: %r", error)


async def _end_lost_principals(hub: Hub) -> None:
    """End what streams and runs for those whose credentials do not hold any more."""
    found: dict[str, Any] = {}
    for principal in _principals(hub):
        key = getattr(principal, "key", None)
        if key is not None:
            found[key] = principal
    ended = await recheck(found.values()) if found else set()
    if not ended:
        return
    for stream in list(hub.streams.values()):
        if getattr(stream.principal, "key", None) in ended:
            stream.end(Ending.PRINCIPAL)
    for session in list(hub.sessions.values()):
        for ctx in list(session.in_flight.values()):
            if getattr(ctx.principal, "key", None) in ended:
                ctx.cancel()


def _principals(hub: Hub) -> Iterable[Any]:
    for stream in hub.streams.values():
        yield stream.principal
    for session in list(hub.sessions.values()):
        for ctx in session.in_flight.values():
            yield ctx.principal
