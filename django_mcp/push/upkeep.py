"""Checks on each tick of the hub (`TICK_S`): who may keep what is open, and whether the tables show it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp.auth.access import permissions_changed
from django_mcp.auth.permissions import Function, GrantWatch
from django_mcp.auth.principal import Principal
from django_mcp.auth.recheck import recheck
from django_mcp.conf import settings
from django_mcp.execution.outages import Warner
from django_mcp.execution.threads import caller_address
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.server.delivery.notify import find_matches
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.visibility import VisibleEntries
from django_mcp.server.services import ServerHub, Services
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists

_trouble = Warner()
_grants = GrantWatch()
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def check_all(hub: ServerHub) -> set[PushStream]:
    """Check everything that is open in this process; return the streams notified of other lists."""
    notified: set[PushStream] = set()
    # The hub may have started with a request, and its ticks have that context.
    caller_address.set(None)
    check = partial(_check_permissions, notified=notified)
    steps: tuple[Callable[[ServerHub], Awaitable[Any]], ...] = (_end_lost_principals, check)
    # One at a time, so that older results cannot overwrite newer ones.
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        if settings.SESSION_STORE == "model":
            # Loads models, which a site with sessions in memory may not have.
            from django_mcp.push.stream_rows import sign_off, stream_rows, take_over

            rows = stream_rows.get()
            is_idle = not (hub.is_busy or hub.calls or rows.are_any)
            steps = (sign_off,) if is_idle else (*steps, rows.write, take_over)
        for step in steps:
            try:
                await step(hub)
            except Exception as error:  # noqa: BLE001 - tried again on the next tick
                _trouble.warn("Could not look after open streams: %r", error)
    return notified


async def _end_lost_principals(hub: ServerHub) -> None:
    """End the streams, calls and tasks of principals whose credentials are no longer valid."""
    streams = [each for each in hub.streams.values() if isinstance(each.principal, Principal)]
    calls = list(hub.calls)
    tasks = [(call, call.run) for call in calls if call.run is not None]
    runs = {call for call, _run in tasks}
    # The call of a listening stream ends with its stream, and is answered then.
    listening = {each.exchange for each in streams}
    calls = [call for call in calls if call not in runs and call.exchange not in listening]
    # By principal and not by user, since a user may have several credentials.
    principals = {each.principal for each in streams} | {call.exchange.principal for call in calls}
    ended = await recheck(principals)
    for stream in streams:
        if stream.principal in ended:
            stream.end(Ending.PRINCIPAL)
    for call in calls:
        if call.exchange.principal in ended:
            call.cancel()
    withdrawn = await recheck({call.exchange.principal for call in runs}, for_tasks=True)
    for call, run in tasks:
        if call.exchange.principal in withdrawn:
            run.stop()


async def _check_permissions(hub: ServerHub, notified: set[PushStream]) -> None:
    """Close what principals whose permissions changed may not use, and notify them of other lists."""
    begun: dict[Principal, list[PushStream | Call]] = {}
    functions: dict[Principal, set[Function]] = {}
    reading = {name: _find_reading(server) for name, server in hub.servers.items()}
    for each in (*hub.streams.values(), *hub.calls):
        found = _find_functions(hub, each, reading)
        if found is not None:
            principal = each.principal if isinstance(each, PushStream) else each.exchange.principal
            begun.setdefault(principal, []).append(each)
            functions.setdefault(principal, set()).update(found)
    changed = await _grants.find_changed(functions)
    if not changed:
        return
    permissions_changed({each.user.pk for each in changed})
    for principal, grants in changed.items():
        try:
            for each in begun[principal]:
                if not isinstance(each, PushStream):
                    await _stop_if_lost(hub, each)
                elif await _check_stream(hub, each):
                    notified.add(each)
        except Exception as error:  # noqa: BLE001 - tried again on the next tick
            _trouble.warn("Could not check the permissions of a principal: %r", error)
        else:
            _grants.settle(principal, grants)


def _find_reading(server: Services) -> frozenset[Function]:
    rules = server.derived.requirements.rules.items()
    found = (asked for entry, asked in rules if isinstance(entry, ResourceEntry | TemplateEntry))
    return frozenset(filter(callable, chain.from_iterable(found)))


def _find_functions(
    hub: ServerHub, each: PushStream | Call, reading: Mapping[str, Collection[Function]]
) -> Collection[Function] | None:
    """Return the permission functions for a stream's resources, or for what is called.

    None: no permissions have to be checked. Those for lists never count: there may be thousands of
    streams that subscribed to nothing else. A principal in a tenant's own tables is checked before each
    notification instead.
    """
    exchange = each.exchange
    server = hub.servers.get(
        each.server_name if isinstance(each, PushStream) else each.options.name
    )
    if server is None or exchange is None or exchange.is_of_tenant:
        return None
    rules = server.derived.requirements.rules
    if not rules or not isinstance(exchange.principal, Principal):
        return None
    if isinstance(each, PushStream):
        return reading.get(server.name, ()) if each.uris else ()
    asked = rules.get(each.entry) if each.entry is not None else None
    return None if asked is None else list(filter(callable, asked))


async def _stop_if_lost(hub: ServerHub, call: Call) -> None:
    """Stop a call of an entry that its principal may not use any more."""
    server = hub.servers.get(call.options.name)
    if server is None or call.entry is None:
        return
    visible = await server.refresh_visible(call.exchange)
    if visible.includes(call.entry):
        return
    if call.run is not None:
        call.run.stop()
    else:
        call.cancel()


async def _check_stream(hub: ServerHub, stream: PushStream) -> bool:
    """End a stream that lost a resource, or notify it of other lists; return whether it was notified."""
    server, exchange = hub.servers.get(stream.server_name), stream.exchange
    if server is None or exchange is None:
        return False
    before, visible = stream.rights, await server.refresh_visible(exchange)
    if before is not None:
        before = before.under(server.derived.requirements)
    lost = _find_lost(server, stream.uris, before, visible)
    if lost and stream.kind is StreamKind.STDIO and exchange.connection is not None:
        # A pipe has one stream for good.
        hub.set_subscriptions(exchange.connection, stream.uris.difference(lost))
    elif lost:
        if stream.session is not None:
            # Otherwise the next stream of the session would end as well.
            for uri in lost:
                await server.ports.sessions.unsubscribe(stream.session, uri)
        stream.end(Ending.PRINCIPAL)
    stream.rights = visible
    if before is None or before.granted == visible.granted or not stream.is_active:
        return False
    offer_lists(hub, stream)
    return True


def _find_lost(
    server: Services, uris: Collection[str], before: VisibleEntries | None, now: VisibleEntries
) -> list[str]:
    """Return the resources that a principal could see before and cannot see any more.

    Without a `before`, it could see all: a session can only subscribe to what it sees.
    """
    lost = []
    for uri in uris:
        entries = [entry for entry, _variables in find_matches(server.registry, uri)]
        # What restricted credentials name does not change while they are valid.
        had = before is None or any(map(before.permits, entries))
        if entries and had and not any(map(now.permits, entries)):
            lost.append(uri)
    return lost


def offer_lists(hub: ServerHub, stream: PushStream) -> None:
    """Notify a client to read its lists again, where they depend on the principal."""
    server = hub.servers.get(stream.server_name)
    if server is not None and server.derived.requirements.rules:
        notify_lists(server.derived.features, stream)
