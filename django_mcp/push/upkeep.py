"""What a site looks after every two seconds: who may still listen, and what the tables say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django_mcp.auth.access import permissions_changed
from django_mcp.auth.grants import Function, GrantWatch
from django_mcp.auth.principal import Principal
from django_mcp.auth.recheck import find_withdrawn, recheck
from django_mcp.process import Warner
from django_mcp.push.stream_rows import has_rows, sign_off, write_rows
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.server.delivery.audience import find_matches
from django_mcp.server.streams.stream import LISTS, Change, Ending, PushStream, StreamKind

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.exchange.visibility import Offer
    from django_mcp.server.services.services import ServerHub, Services

__all__ = ["look_after", "offer_lists"]

_trouble = Warner()
_grants = GrantWatch()
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def look_after(hub: ServerHub) -> set[PushStream]:
    """Look after everything that is open in this process; return who was told of other lists."""
    told: set[PushStream] = set()
    # Of two at once, the one that began with older knowledge could have the last word.
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        is_idle = not (hub.is_busy or hub.calls or has_rows())
        judge = partial(_judge_permissions, told=told)
        busy_steps = (_end_lost_principals, judge, write_rows)
        for step in (sign_off,) if is_idle else busy_steps:
            try:
                await step(hub)
            except Exception as error:  # noqa: BLE001 - tried again in two seconds
                _trouble.warn("Could not look after open streams: %r", error)
    return told


async def _end_lost_principals(hub: ServerHub) -> None:
    """End what streams and runs for those whose credentials do not hold any more."""
    streams = [each for each in hub.streams.values() if isinstance(each.principal, Principal)]
    calls = list(hub.calls)
    tasks = [(ctx, ctx.run) for ctx in calls if ctx.run is not None and ctx.run.is_detached]
    runs = {ctx for ctx, _run in tasks}
    # A listener's call ends with its stream, and says so.
    listening = {each.exchange for each in streams}
    calls = [ctx for ctx in calls if ctx not in runs and ctx.exchange not in listening]
    # One user may have several credentials, of which one ends: each request has its own principal.
    principals = {each.principal for each in streams} | {ctx.exchange.principal for ctx in calls}
    ended = await recheck(principals)
    for stream in streams:
        if stream.principal in ended:
            stream.end(Ending.PRINCIPAL)
    for ctx in calls:
        if ctx.exchange.principal in ended:
            ctx.cancel()
    withdrawn = await find_withdrawn({ctx.exchange.principal for ctx in runs})
    for ctx, run in tasks:
        if ctx.exchange.principal in withdrawn:
            run.stop()


async def _judge_permissions(hub: ServerHub, told: set[PushStream]) -> None:
    """Judge those anew whose permissions changed, and add who was told of other lists to `told`.

    Calls end of tools that are gone for their callers, and streams of resources.
    """
    begun: dict[Principal, list[PushStream | Call]] = {}
    functions: dict[Principal, set[Function]] = {}
    reading = {name: _find_reading(server) for name, server in hub.servers.items()}
    open_here: list[tuple[PushStream | Call, Collection[Function] | None]] = [
        *((each, _asked_of_stream(hub, each, reading)) for each in hub.streams.values()),
        *((each, _asked_of_call(hub, each)) for each in hub.calls),
    ]
    for each, asked in open_here:
        if asked is not None and _is_judged(each.exchange):
            principal = _principal_of(each)
            begun.setdefault(principal, []).append(each)
            functions.setdefault(principal, set()).update(asked)
    changed = await _grants.find_changed(functions)
    if not changed:
        return
    permissions_changed({each.user.pk for each in changed})
    for principal, grants in changed.items():
        try:
            for each in begun[principal]:
                if not isinstance(each, PushStream):
                    await _stop_if_lost(hub, each)
                elif await _judge_stream(hub, each):
                    told.add(each)
        except Exception as error:  # noqa: BLE001 - judged again in two seconds, and the others now
            _trouble.warn("Could not judge what somebody has open: %r", error)
        else:
            _grants.settle(principal, grants)


def _principal_of(each: PushStream | Call) -> Any:
    return each.principal if isinstance(each, PushStream) else each.exchange.principal


def _find_reading(server: Services) -> frozenset[Function]:
    """Return the functions among what resources of a server ask for."""
    rules = server.derived.requirements.rules.items()
    kinds = (ResourceEntry, TemplateEntry)
    return frozenset(
        rule
        for entry, asked in rules
        if isinstance(entry, kinds)
        for rule in asked
        if callable(rule)
    )


def _asked_of_stream(
    hub: ServerHub, stream: PushStream, reading: Mapping[str, frozenset[Function]]
) -> Collection[Function] | None:
    """Return which functions decide about a stream's resources; None: nothing decides about it.

    Not for the lists alone: there may be thousands of streams with nothing else.
    """
    server = hub.servers.get(stream.server_name)
    if server is None or not server.derived.requirements.rules:
        return None
    return reading.get(server.name, ()) if stream.uris else ()


def _asked_of_call(hub: ServerHub, call: Call) -> Collection[Function] | None:
    """Return which functions decide about a call; None: nothing does."""
    server = hub.servers.get(call.options.name)
    if server is None or call.entry is None:
        return None
    rules = server.derived.requirements.rules.get(call.entry)
    return None if rules is None else [rule for rule in rules if callable(rule)]


def _is_judged(exchange: Exchange | None) -> bool:
    # Whose rows are in a tenant's own tables is judged when something is to be told.
    if exchange is None or exchange.is_of_tenant:
        return False
    return isinstance(exchange.principal, Principal)


async def _stop_if_lost(hub: ServerHub, call: Call) -> None:
    """Stop a call of what its principal may not use any more."""
    server = hub.servers.get(call.options.name)
    if server is None or call.entry is None:
        return
    offer = await server.refresh_offer(call.exchange)
    if offer.includes(call.entry):
        return
    if call.run is not None and call.run.is_detached:
        call.run.stop()
    else:
        call.cancel()


async def _judge_stream(hub: ServerHub, stream: PushStream) -> bool:
    """End a stream that lost a resource, or tell it of other lists; return whether it was told."""
    server, exchange = hub.servers.get(stream.server_name), stream.exchange
    if server is None or exchange is None:
        return False
    before, offer = stream.rights, await server.refresh_offer(exchange)
    if before is not None:
        before = before.under(server.derived.requirements)
    lost = _find_lost(server, stream.uris, before, offer)
    if lost:
        await _take_away(hub, server, stream, lost)
    stream.rights = offer
    if before is None or before.granted == offer.granted or not stream.is_active:
        return False
    offer_lists(hub, stream)
    return True


def _find_lost(
    server: Services, uris: Collection[str], before: Offer | None, now: Offer
) -> list[str]:
    """Return the resources that were there for somebody and are not any more.

    Nobody can tell what was never there for them from what there is not. Of whom nothing is known
    from before, all was: a session has subscribed to nothing that it could not see.
    """
    lost = []
    for uri in uris:
        entries = [entry for entry, _variables in find_matches(server.registry, uri)]
        had = before is None or any(map(before.includes, entries))
        if entries and had and not any(map(now.includes, entries)):
            lost.append(uri)
    return lost


async def _take_away(hub: ServerHub, server: Services, stream: PushStream, lost: list[str]) -> None:
    if stream.kind is StreamKind.STDIO:
        # A pipe has one stream for good.
        hub.set_uris(stream, stream.uris.difference(lost))
        return
    if stream.session is not None:
        # Else the next stream of the session would end as well.
        for uri in lost:
            await server.sessions.unsubscribe(stream.session, uri)
    stream.end(Ending.PRINCIPAL)


def offer_lists(hub: ServerHub, stream: PushStream) -> None:
    """Notify a client to read its lists again, where they depend on the principal."""
    server = hub.servers.get(stream.server_name)
    if server is None or not server.derived.requirements.rules:
        return
    for name in LISTS:
        if name in stream.lists and name in server.derived.features:
            stream.tell(Change(server=server.name, list=name))
