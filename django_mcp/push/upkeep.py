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
from django_mcp.server.exchange.call import Call
from django_mcp.server.extension import Extension
from django_mcp.server.services import ServerHub, Services
from django_mcp.server.streams.stream import Ending, PushStream
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
    streams = [stream for stream in hub.streams.values() if isinstance(stream.principal, Principal)]
    calls = list(hub.calls)
    tasks = [(call, call.detached_run) for call in calls if call.detached_run is not None]
    runs = {call for call, _run in tasks}
    # The call of a listening stream ends with its stream, and is answered then.
    listening = {stream.exchange for stream in streams}
    calls = [call for call in calls if call not in runs and call.exchange not in listening]
    # By principal and not by user, since a user may have several credentials.
    principals = {stream.principal for stream in streams} | {
        call.exchange.caller.principal for call in calls
    }
    ended = await recheck(principals)
    for stream in streams:
        if stream.principal in ended:
            stream.end(Ending.PRINCIPAL)
    for call in calls:
        if call.exchange.caller.principal in ended:
            call.cancel()
    withdrawn = await recheck({call.exchange.caller.principal for call in runs}, for_tasks=True)
    for call, run in tasks:
        if call.exchange.caller.principal in withdrawn:
            run.stop()


async def _check_permissions(hub: ServerHub, notified: set[PushStream]) -> None:
    """Stop what principals whose permissions changed may not use, and notify them of other lists.

    Their streams stay open. Whether they may read a resource is checked before each notification.
    """
    begun: dict[Principal, list[PushStream | Call]] = {}
    functions: dict[Principal, set[Function]] = {}
    reading = {name: _find_reading(server) for name, server in hub.servers.items()}
    for holder in (*hub.streams.values(), *hub.calls):
        rule_functions = _find_functions(hub, holder, reading)
        if rule_functions is not None:
            principal = (
                holder.principal
                if isinstance(holder, PushStream)
                else holder.exchange.caller.principal
            )
            begun.setdefault(principal, []).append(holder)
            functions.setdefault(principal, set()).update(rule_functions)
    changed = await _grants.find_changed(functions)
    if not changed:
        return
    permissions_changed({principal.user.pk for principal in changed})
    for principal, grants in changed.items():
        try:
            for item in begun[principal]:
                if not isinstance(item, PushStream):
                    await _stop_if_lost(hub, item)
                elif await _check_stream(hub, item):
                    notified.add(item)
        except Exception as error:  # noqa: BLE001 - tried again on the next tick
            _trouble.warn("Could not check the permissions of a principal: %r", error)
        else:
            _grants.settle(principal, grants)


def _find_reading(server: Services) -> frozenset[Function]:
    rules = server.derived.requirements.rules.items()
    resource_rules = (
        asked for entry, asked in rules if isinstance(entry, ResourceEntry | TemplateEntry)
    )
    return frozenset(filter(callable, chain.from_iterable(resource_rules)))


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
    if server is None or exchange is None or exchange.caller.is_of_tenant:
        return None
    rules = server.derived.requirements.rules
    if not rules or not isinstance(exchange.caller.principal, Principal):
        return None
    if isinstance(each, PushStream):
        extensions = _extensions_of(server, each).values()
        of_keys = chain.from_iterable(rules.get(one, ()) for one in extensions)
        return {*(reading.get(server.name, ()) if each.uris else ()), *filter(callable, of_keys)}
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
    if call.detached_run is not None:
        call.detached_run.stop()
    else:
        call.cancel()


async def _check_stream(hub: ServerHub, stream: PushStream) -> bool:
    """Notify a stream of other lists, and return whether that was needed; run its extensions' watches, or stop them."""
    server, exchange = hub.servers.get(stream.server_name), stream.exchange
    if server is None or exchange is None:
        return False
    before, visible = stream.rights, await server.refresh_visible(exchange)
    if before is not None:
        before = before.under(server.derived.requirements)
    stream.rights = visible
    for key, extension in _extensions_of(server, stream).items():
        if visible.permits(extension):
            stream.start_watch(key)
        else:
            stream.stop_watch(key)
    if before is None or before.granted == visible.granted or not stream.is_active:
        return False
    offer_lists(hub, stream)
    return True


def _extensions_of(server: Services, stream: PushStream) -> dict[str, Extension]:
    """Return the extensions to which a stream listens, by its keys."""
    known = server.derived.listen_keys
    return {key: known[key] for key in stream.watches if key in known}


def offer_lists(hub: ServerHub, stream: PushStream) -> None:
    """Notify a client to read its lists again, where they depend on the principal."""
    server = hub.servers.get(stream.server_name)
    if server is not None and server.derived.requirements.rules:
        notify_lists(server.derived.features, stream)
