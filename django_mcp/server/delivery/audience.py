"""Which streams receive a notification.

The update of a resource goes to streams whose principal could read the resource now. Other
notifications are subject to conditions on the client.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.messages import Request
from django_mcp.protocol.revisions import find_revision
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import Requirements
from django_mcp.server.services.services import Services
from django_mcp.server.streams.stream import ELICITATION_COMPLETE, Change, PushStream, StreamKind

logger = logging.getLogger("django_mcp")

Readable: TypeAlias = ResourceEntry | TemplateEntry

MayRead: TypeAlias = Callable[[Call, str], Awaitable[bool]]
"""Returns whether a principal could read a resource, with all checks but without its handler."""


def find_matches(registry: Registry, uri: str) -> Iterator[tuple[Readable, Mapping[str, Any]]]:
    """Yield the entries that match a URI, in the order of the look-up, with its variables."""
    resource = registry.resources.get(uri)
    if resource is not None:
        yield resource, {}
    for template in registry.templates.values():
        variables = template.match(uri)
        if variables is not None:
            yield template, variables


class Audience:
    """Decides which streams receive the notifications of a server; see `StreamPolicy.may_receive`.

    Args:
        may_read: checks the principal of a call.
    """

    def __init__(self, server: Services, may_read: MayRead) -> None:
        self._server = server
        self._may_read = may_read
        # Streams and URIs whose read check runs, and whether a change came since it began.
        self._checks: dict[tuple[PushStream, str], bool] = {}

    def find_condition(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return a function that returns whether a stream receives a change; None: each does.

        If a query or a check is needed, the function returns False, and the stream is notified
        after the check.
        """
        if change.uri is not None:
            return self._find_read_condition(change.uri)
        if change.method == ELICITATION_COMPLETE:
            return _has_url_elicitation
        return None if change.level is None else self._find_level_condition(change.level)

    def _find_level_condition(self, level: str) -> Callable[[PushStream], bool]:
        """Return whether a client wants log messages of a level, and has not had too many.

        A message that is allowed counts.
        """
        options, rank = self._server.options, LOG_LEVELS[level]

        def is_wanted(stream: PushStream) -> bool:
            exchange = stream.exchange
            connection = stream.session or (exchange.connection if exchange is not None else None)
            if connection is None:
                return rank >= LOG_LEVELS[options.log_level]
            threshold = connection.log_level or options.log_level
            return rank >= LOG_LEVELS[threshold] and connection.may_log(options.log_rate)

        return is_wanted

    def _find_read_condition(self, uri: str) -> Callable[[PushStream], bool] | None:
        server = self._server
        requirements = server.derived.requirements
        entries = [entry for entry, _variables in find_matches(server.registry, uri)]
        if _is_open_to_all(requirements, entries):
            return None

        def may_read(stream: PushStream) -> bool:
            exchange = stream.exchange
            if exchange is None or not entries:
                return False
            visible = server.access.find_visible(exchange, requirements)
            if visible is not None:
                found = next(filter(visible.includes, entries), None)
                if found is None or not _has_conditions(requirements, found):
                    return found is not None
            self._check_later(stream, uri)
            return False

        return may_read

    def _check_later(self, stream: PushStream, uri: str) -> None:
        key = (stream, uri)
        is_running = key in self._checks
        self._checks[key] = True
        if not is_running:
            self._server.hub.spawn(self._check(stream, uri), stream.context)

    async def _check(self, stream: PushStream, uri: str) -> None:
        key = (stream, uri)
        try:
            # Changes that come before a check begins share it.
            while self._checks[key]:
                self._checks[key] = False
                if stream.exchange is None or not stream.is_open:
                    continue
                try:
                    await self._notify_if_readable(stream, stream.exchange, uri)
                except Exception:
                    logger.exception("Read check for an update notification failed")
        finally:
            del self._checks[key]

    async def _notify_if_readable(self, stream: PushStream, exchange: Exchange, uri: str) -> None:
        server = self._server
        call = _make_call(server, stream, exchange, uri)
        await server.refresh_visible(call.exchange)
        if await self._may_read(call, uri):
            stream.notify(Change(server=server.name, uri=uri))


def _is_open_to_all(requirements: Requirements, entries: list[Readable]) -> bool:
    """Return whether the first entry that a principal sees has no further conditions."""
    for entry in entries:
        if _has_conditions(requirements, entry):
            return False
        if entry not in requirements.rules:
            return True
    return False


def _has_conditions(requirements: Requirements, entry: Readable) -> bool:
    return entry in requirements.scopes or entry.handler.check is not None


def _has_url_elicitation(stream: PushStream) -> bool:
    """Return whether the client of a stream can be asked to visit a page, by its revision."""
    revision = find_revision(stream.revision_name)
    return revision is not None and "url" in revision.asks


def _make_call(server: Services, stream: PushStream, given: Exchange, uri: str) -> Call:
    """Return the call by which a stream's principal would read a resource."""
    exchange = copy.copy(given)
    # These belong to the request that opened the stream.
    exchange.sink = exchange.event_stream = exchange.timers = exchange.shield = None
    exchange.can_stream = False
    connection = exchange.connection
    if connection is None or stream.kind is StreamKind.LISTEN:
        connection = ConnectionState(
            find_revision(stream.revision_name), client_info=stream.client_info
        )
    message = Request(id=stream.id, method="resources/read", params={"uri": uri})
    return server.make_call(exchange, message, connection)
