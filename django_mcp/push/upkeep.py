"""What a site looks after every two seconds: who may still listen, and what the tables say of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django_mcp.auth.access import permissions_changed
from django_mcp.auth.grants import GrantWatch
from django_mcp.auth.principal import Principal
from django_mcp.auth.recheck import find_withdrawn, recheck
from django_mcp.push.bus import Warner
from django_mcp.push.rows import has_rows, sign_off, write_rows
from django_mcp.server.hearing import find_matches
from django_mcp.server.push import Ending, PushStream, StreamKind

if TYPE_CHECKING:
    from django_mcp.server.context import Context
    from django_mcp.server.exchange import Exchange
    from django_mcp.server.hub import Hub

__all__ = ["look_after"]

_trouble = Warner()
_grants = GrantWatch()
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def look_after(hub: Hub) -> None:
    """Look after everything that is open in this process."""
    # Of two at once, the one that began with older knowledge could have the last word.
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        is_idle = not (hub.is_busy or hub.calls or has_rows())
        busy_steps = (_end_lost_principals, _end_lost_permissions, write_rows)
        for step in (sign_off,) if is_idle else busy_steps:
            try:
                await step(hub)
            except Exception as error:  # noqa: BLE001 - tried again in two seconds
                _trouble.warn("Could not look after open streams: %r", error)


async def _end_lost_principals(hub: Hub) -> None:
    """End what streams and runs for those whose credentials do not hold any more."""
    streams = [each for each in hub.streams.values() if isinstance(each.principal, Principal)]
    calls = _calls_of(hub)
    tasks = [(ctx, ctx.run) for ctx in calls if ctx.run is not None and ctx.run.is_detached]
    runs = {ctx for ctx, _run in tasks}
    calls = [ctx for ctx in calls if ctx not in runs]
    # One user may have several credentials, of which one ends: each request has its own principal.
    principals = {each.principal for each in streams} | {ctx.principal for ctx in calls}
    ended = await recheck(principals)
    for stream in streams:
        if stream.principal in ended:
            stream.end(Ending.PRINCIPAL)
    for ctx in calls:
        if ctx.principal in ended:
            ctx.cancel()
    withdrawn = await find_withdrawn({ctx.principal for ctx in runs})
    for ctx, run in tasks:
        if ctx.principal in withdrawn:
            run.stop()


def _calls_of(hub: Hub) -> list[Context[Any]]:
    in_sessions = (ctx for each in hub.sessions.values() for ctx in each.in_flight.values())
    return [*hub.calls, *in_sessions]


async def _end_lost_permissions(hub: Hub) -> None:
    """End what was begun with a permission that is gone: calls of tools, and streams of resources."""
    begun: dict[Principal, list[PushStream | Context[Any]]] = {}
    things: list[PushStream | Context[Any]] = [*hub.streams.values(), *_calls_of(hub)]
    for each in things:
        is_concerned = each.uris if isinstance(each, PushStream) else _is_guarded(each)
        if is_concerned and _is_judged(each.exchange):
            begun.setdefault(each.principal, []).append(each)
    changed = await _grants.find_changed(begun)
    if not changed:
        return
    permissions_changed({each.user.pk for each in changed})
    for principal, grants in changed.items():
        try:
            for each in begun[principal]:
                if isinstance(each, PushStream):
                    await _end_if_lost(hub, each)
                else:
                    await _stop_if_lost(each)
        except Exception as error:  # noqa: BLE001 - judged again in two seconds, and the others now
            _trouble.warn("Could not judge what somebody has open: %r", error)
        else:
            _grants.settle(principal, grants)


def _is_judged(exchange: Exchange | None) -> bool:
    # Whose rows are in a tenant's own tables is judged when something is to be told.
    if exchange is None or exchange.is_of_tenant:
        return False
    return isinstance(exchange.principal, Principal)


def _is_guarded(ctx: Context[Any]) -> bool:
    return ctx.entry is not None and ctx.entry in ctx.server.derived.requirements.rules


async def _stop_if_lost(ctx: Context[Any]) -> None:
    """Stop a call of what its principal may not use any more."""
    offer = await ctx.server.refresh_offer(ctx.exchange)
    if ctx.entry is None or offer.includes(ctx.entry):
        return
    if ctx.run is not None and ctx.run.is_detached:
        ctx.run.stop()
    else:
        ctx.cancel()


async def _end_if_lost(hub: Hub, stream: PushStream) -> None:
    """End a stream that would hear of what its principal may not see any more."""
    server, exchange = hub.servers.get(stream.server_name), stream.exchange
    if server is None or exchange is None or not server.derived.requirements.rules:
        return
    offer = await server.refresh_offer(exchange)
    found = {
        uri: [entry for entry, _variables in find_matches(server.registry, uri)]
        for uri in stream.uris
    }
    lost = [
        uri for uri, entries in found.items() if entries and not any(map(offer.includes, entries))
    ]
    if not lost:
        return
    if stream.kind is StreamKind.STDIO:
        # A pipe has one stream for good.
        hub.set_uris(stream, stream.uris.difference(lost))
        return
    if stream.session is not None:
        # Else the next stream of the session would end as well.
        for uri in lost:
            await server.sessions.unsubscribe(stream.session, uri)
    stream.end(Ending.PRINCIPAL)
