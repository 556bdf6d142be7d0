"""Which streams receive the update of a resource: those whose principal could read it now."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mcp.protocol.messages import Request
from django_mcp.protocol.revisions import find_revision
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.streams.stream import Change, PushStream, StreamKind

if TYPE_CHECKING:
    from django_mcp.registry.registry import Registry
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.exchange.visibility import Requirements
    from django_mcp.server.services.services import Services

__all__ = ["Readable", "find_matches", "may_receive"]

logger = logging.getLogger("django_mcp")

Readable: TypeAlias = ResourceEntry | TemplateEntry

MayRead: TypeAlias = "Callable[[Call, str], Awaitable[bool]]"
"""Tells whether a principal could read a resource, with all checks but without its handler."""

_due: set[tuple[PushStream, str]] = set()
"""Pairs of stream and URI that wait for a read check; changes that come until then share one check."""

_judging: dict[tuple[PushStream, str], asyncio.Task[None]] = {}


def find_matches(registry: Registry, uri: str) -> Iterator[tuple[Readable, Mapping[str, Any]]]:
    """Yield the entries that match a URI, in the order of the look-up, with its variables."""
    resource = registry.resources.get(uri)
    if resource is not None:
        yield resource, {}
    for template in registry.templates.values():
        variables = template.match(uri)
        if variables is not None:
            yield template, variables


def may_receive(
    server: Services, change: Change, may_read: MayRead
) -> Callable[[PushStream], bool] | None:
    """Return a function that tells whether a stream's principal could read the changed resource now.

    None means that everybody could. Where a query or a check is needed, the function returns False;
    the stream is notified after the check, and is not counted.
    """
    requirements, uri = server.derived.requirements, change.uri or ""
    entries = [entry for entry, _variables in find_matches(server.registry, uri)]
    if _is_open_to_all(requirements, entries):
        return None

    def judge(stream: PushStream) -> bool:
        exchange = stream.exchange
        if exchange is None or not entries:
            return False
        offer = server.access.find_offer(exchange, requirements)
        if offer is not None:
            found = next(filter(offer.includes, entries), None)
            if found is None or not _asks_more(requirements, found):
                return found is not None
        _tell_later(server, stream, uri, may_read)
        return False

    return judge


def _is_open_to_all(requirements: Requirements, entries: list[Readable]) -> bool:
    """Return whether the first entry that a principal sees has no further conditions."""
    for entry in entries:
        if _asks_more(requirements, entry):
            return False
        if entry not in requirements.rules:
            return True
    return False


def _asks_more(requirements: Requirements, entry: Readable) -> bool:
    return entry in requirements.scopes or entry.handler.check is not None


def _tell_later(server: Services, stream: PushStream, uri: str, may_read: MayRead) -> None:
    key = (stream, uri)
    _due.add(key)
    if key not in _judging:
        _judging[key] = asyncio.get_running_loop().create_task(
            _tell_in_turn(server, stream, uri, may_read), context=stream.context
        )


async def _tell_in_turn(server: Services, stream: PushStream, uri: str, may_read: MayRead) -> None:
    key = (stream, uri)
    try:
        while key in _due:
            _due.discard(key)
            if stream.exchange is None or not stream.is_open:
                continue
            try:
                await _tell_if_readable(server, stream, stream.exchange, uri, may_read)
            except Exception:
                logger.exception("Read check for an update notification failed")
    finally:
        del _judging[key]


async def _tell_if_readable(
    server: Services, stream: PushStream, exchange: Exchange, uri: str, may_read: MayRead
) -> None:
    call = _make_call(server, stream, exchange, uri)
    await server.refresh_offer(call.exchange)
    if await may_read(call, uri):
        stream.tell(Change(server=server.name, uri=uri))


def _make_call(server: Services, stream: PushStream, given: Exchange, uri: str) -> Call:
    """Return the call by which a stream's principal would read a resource."""
    exchange = copy.copy(given)
    # What belongs to the request that opened the stream is none of this one's.
    exchange.sink = exchange.timers = exchange.shield = None
    exchange.can_stream = False
    connection = exchange.connection
    if connection is None or stream.kind is StreamKind.LISTEN:
        connection = ConnectionState(
            find_revision(stream.revision_name), client_info=stream.client_info
        )
    message = Request(id=stream.id, method="resources/read", params={"uri": uri})
    return server.make_call(exchange, message, connection)
