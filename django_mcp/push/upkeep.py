"""What a site looks after every two seconds: who may still listen, and what the tables say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.auth.principal import Principal
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
    if not (hub.is_busy or hub.calls or has_rows()):
        return
    for step in (_end_lost_principals, write_rows):
        try:
            await step(hub)
        except Exception as error:  # noqa: BLE001 - tried again in two seconds
            _trouble.warn("Could not look after open streams: %r", error)


async def _end_lost_principals(hub: Hub) -> None:
    """End what streams and runs for those whose credentials do not hold any more."""
    streams = [each for each in hub.streams.values() if isinstance(each.principal, Principal)]
    calls = [
        *hub.calls,
        *(ctx for each in hub.sessions.values() for ctx in each.in_flight.values()),
    ]
    # One user may have several credentials, of which one ends: each request has its own principal.
    principals = {each.principal for each in streams} | {ctx.principal for ctx in calls}
    ended = await recheck(principals) if principals else set()
    if not ended:
        return
    for stream in streams:
        if stream.principal in ended:
            stream.end(Ending.PRINCIPAL)
    for ctx in calls:
        if ctx.principal in ended:
            ctx.cancel()
