"""Notify clients of changes, from anywhere in the process, and decide which streams receive it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeAlias

from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.messages import Request
from django_mcp.protocol.revisions import find_revision
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.registry.problems import find_near
from django_mcp.registry.registry import ListKind, Registry
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.session_keys import check_session_key
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.exchange.visibility import NO_REQUIREMENTS, Requirements
from django_mcp.server.services import ServerHub, Services
from django_mcp.server.streams.stream import (
    ELICITATION_COMPLETE,
    LISTS,
    Change,
    PushStream,
    StreamKind,
)

P = ParamSpec("P")

MAX_PARAMS_BYTES = 32 * 1024
"""Maximum size of a notification's params, which travel between processes."""

WAIT_S = 1.0
"""How long a thread waits for the number of streams that receive its notification."""

MayRead: TypeAlias = Callable[[Any, str], Awaitable[bool]]
"""Returns whether the principal of a call could read a resource; its handler is not run."""


class ChangePolicy:
    """Decides which streams of a server receive a change."""

    def __init__(self, server: Services, may_read: MayRead) -> None:
        self._server = server
        self._may_read = may_read
        self._checks: dict[tuple[PushStream, str], bool] = {}
        """Streams and URIs whose read check runs, and whether a change came since it began."""

    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """See `Services.may_receive`: a principal must be able to read the resource now.

        If a query or a check is needed, the function returns False, and the stream is notified
        after the check.
        """
        if change.uri is not None:
            return self._find_read_condition(change.uri)
        if change.method == ELICITATION_COMPLETE:
            return _has_url_elicitation
        return None if change.level is None else self._find_level_condition(change.level)

    def _find_level_condition(self, level: str) -> Callable[[PushStream], bool]:
        """Return a function that returns whether a stream's client wants log messages of a level.

        It returns False as well if the client has had too many. A message that it allows counts.
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
        """Return a function that returns whether a stream may be notified of a resource now; None: each may."""
        requirements = self._server.derived.requirements
        entries = [entry for entry, _variables in find_matches(self._server.registry, uri)]
        is_open = _is_open(requirements, entries)

        def is_due_now(stream: PushStream) -> bool:
            exchange = stream.exchange
            if exchange is None or not entries:
                return False
            if is_open and self._is_unrestricted(exchange):
                return True
            visible = self._server.find_visible(exchange, requirements)
            if visible is not None:
                entry = next((entry for entry in entries if visible.includes(entry, uri)), None)
                if entry is None and (
                    visible.allowed is None
                    or not any(visible.permits(each, uri) for each in entries)
                ):
                    return False
                if entry is not None and not _has_conditions(requirements, entry):
                    return True
            # Only a check in a task can tell. It notifies the stream itself.
            is_running = (stream, uri) in self._checks
            self._checks[stream, uri] = True
            if not is_running:
                self._server.hub.spawn(self._check(stream, exchange, uri), stream.context)
            return False

        return is_due_now

    def _is_unrestricted(self, exchange: Exchange) -> bool:
        """Return whether the credentials are for everything that their user may see, and the client wants all of it."""
        visible = self._server.find_visible(exchange, NO_REQUIREMENTS)
        is_whole = visible is not None and visible.allowed is None
        return is_whole and exchange.caller.narrowing is None

    async def _check(self, stream: PushStream, exchange: Exchange, uri: str) -> None:
        key = (stream, uri)
        try:
            # Changes that come before a check begins share it.
            while self._checks[key] and stream.is_open:
                self._checks[key] = False
                try:
                    call = _make_call(self._server, stream, exchange, uri)
                    await self._server.refresh_visible(call.exchange)
                    if await self._may_read(call, uri) and uri in stream.uris:
                        # Another stream of the session may have become the active one meanwhile.
                        active = self._server.hub.find_active(stream.session_key or "") or stream
                        active.notify(Change(server=self._server.name, uri=uri))
                except Exception:
                    logger.exception("Read check for an update notification failed")
        finally:
            del self._checks[key]


class NotifyMethods(ABC):
    """The part of a server that notifies clients of changes.

    Each method has an asynchronous twin with the prefix `a`. Both return how many streams of this
    process will be sent the notification, or None if that is not known: it is sent later, or from
    another event loop. Streams of other processes are not counted, nor are those whose right to read
    the resource is checked first. `using` names the database whose transaction a synchronous method
    waits for, on sites with databases. The asynchronous twins never wait for one, and ignore it.
    """

    @property
    @abstractmethod
    def engine(self) -> Services:
        """What the package's own code uses of the server; it may change in any version."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of this server, for clients and other processes."""

    def notify_list_changed(self, kind: ListKind, *, using: str | None = None) -> int | None:
        """Notify clients to read a list again; return how many streams are notified.

        Args:
            kind: `tools`, `prompts` or `resources`.
            using: see `NotifyMethods`.
        """
        return self._publish(self._list_change(kind), using)

    async def anotify_list_changed(self, kind: ListKind, *, using: str | None = None) -> int | None:
        """Do as `notify_list_changed` does, from asynchronous code."""
        return await self._apublish(self._list_change(kind))

    def _list_change(self, kind: ListKind) -> Change:
        if kind not in LISTS:
            raise ValueError(f"There is no list of {kind!r}: use one of {', '.join(LISTS)}.")
        return Change(server=self.name, list=kind)

    def notify_resource_updated(self, uri: str, *, using: str | None = None) -> int | None:
        """Notify subscribers of a resource who may read it to read it again.

        Args:
            uri: exactly as clients subscribe to it.
            using: see `NotifyMethods`.
        """
        return self._publish(self._resource_change(uri), using)

    async def anotify_resource_updated(self, uri: str, *, using: str | None = None) -> int | None:
        """Do as `notify_resource_updated` does, from asynchronous code."""
        return await self._apublish(self._resource_change(uri))

    def _resource_change(self, uri: str) -> Change:
        change = Change(server=self.name, uri=uri)
        is_known = any(True for _ in find_matches(self.engine.registry, uri))
        if not is_known and len(_unknown) < _MAX_UNKNOWN and (self.name, uri) not in _unknown:
            _unknown.add((self.name, uri))
            logger.warning(
                "No resource or template of the server %r has the URI %.200s, so a notification that it was "
                "updated reaches nobody",
                self.name,
                uri,
            )
        return change

    def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Send a notification of any method to each session, on one of its streams.

        Args:
            method: `notifications/` and a name, as a rule.
            params: a JSON object.
            session: the public key of the only session that receives it; None: all sessions.
            using: see `NotifyMethods`.

        Raises:
            ValueError: the params are larger than `MAX_PARAMS_BYTES`, or have no form in JSON, or `session` cannot
                be the key of a session.
        """
        check_session_key(session)
        return self._publish(self._notification(method, params, session), using)

    async def anotify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Do as `notify` does, from asynchronous code."""
        check_session_key(session)
        return await self._apublish(self._notification(method, params, session))

    def _notification(
        self, method: str, params: JSONObject | None, session: str | None, level: str | None = None
    ) -> Change:
        _report_odd_method(self.name, method)
        # Checked now, so that the caller gets the error.
        if params is not None and len(encode(params)) > MAX_PARAMS_BYTES:
            raise ValueError(f"The params of {method} are larger than {MAX_PARAMS_BYTES} bytes.")
        return Change(server=self.name, method=method, params=params, session=session, level=level)

    def notify_elicitation_complete(
        self, session: Any, elicitation_id: str, *, using: str | None = None
    ) -> int | None:
        """Notify a client that the user has done what they were asked to do on a page.

        Only clients whose revision has such questions are notified and counted.

        Args:
            session: the public key of its session, or a context of a request in it.
            elicitation_id: the id of the question.
            using: see `NotifyMethods`.

        Raises:
            ValueError: the id is empty, or the context is of no session.

        Source: 2025-11-25 client/elicitation "Completion Notifications".
        """
        return self._publish(self._completion(session, elicitation_id), using)

    async def anotify_elicitation_complete(
        self, session: Any, elicitation_id: str, *, using: str | None = None
    ) -> int | None:
        """Do as `notify_elicitation_complete` does, from asynchronous code."""
        return await self._apublish(self._completion(session, elicitation_id))

    def _completion(self, session: Any, elicitation_id: str) -> Change:
        if type(elicitation_id) is not str or not elicitation_id:
            raise ValueError("elicitation_id is empty: give the id that the client was asked with.")
        key = session
        call = getattr(session, "_call", None)
        if call is None:
            check_session_key(session)
        else:
            connection = call.connection
            key = connection.stream_id or getattr(connection, "key", None)
            if key is None:
                raise ValueError("There is no session here whose client could be notified.")
        return self._notification(ELICITATION_COMPLETE, {"elicitationId": elicitation_id}, key)

    def notify_log(
        self,
        level: str,
        data: Any,
        *,
        logger: str | None = None,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Send a log message to one session, or to all, whose log level admits it.

        It counts towards each session's rate of log messages, as those of handlers do (`LOG_RATE`).

        Raises:
            ValueError: an unknown level, or too much data; see `notify`.
        """
        return self._publish(self._log_message(level, data, logger, session), using)

    async def anotify_log(
        self,
        level: str,
        data: Any,
        *,
        logger: str | None = None,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Do as `notify_log` does, from asynchronous code."""
        return await self._apublish(self._log_message(level, data, logger, session))

    def _log_message(
        self, level: str, data: Any, logger: str | None, session: str | None
    ) -> Change:
        if level not in LOG_LEVELS:
            raise ValueError(f"Unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}.")
        check_session_key(session)
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        return self._notification("notifications/message", params, session, level)

    def _publish(self, change: Change, using: str | None = None) -> int | None:
        return announce(self.engine.hub, change)

    async def _apublish(self, change: Change) -> int | None:
        hub: ServerHub = self.engine.hub
        if hub.is_running:
            return await hub.run(_announce, hub, change)
        await hub.send(change)
        return None if hub.bus.is_shared else 0


def announce(hub: ServerHub, change: Change) -> int | None:
    """Publish a change from any thread; return how many streams it reaches here, None if unknown."""
    loop = hub.loop
    if loop is None or not loop.is_running():
        hub.bus.send_now(change.to_wire())
        return None if hub.bus.is_shared else 0
    running = find_running_loop()
    if running is loop:
        return hub.announce(change)
    future = asyncio.run_coroutine_threadsafe(_announce(hub, change), loop)
    if running is not None:
        # Waiting would block that loop.
        return None
    try:
        return future.result(WAIT_S)
    except TimeoutError:
        return None


async def _announce(hub: ServerHub, change: Change) -> int:
    reached = hub.announce(change)
    # Else a burst of changes would leave no time for writing to the streams.
    await asyncio.sleep(0)
    return reached


_PREFIX = "notifications/"
_OF_PROTOCOL = (
    "cancelled", "elicitation/complete", "message", "progress", "prompts/list_changed", "resources/list_changed",
    "resources/updated", "tasks/status", "tools/list_changed",
)  # fmt: skip
"""What follows the prefix in the notifications of the protocol that servers send."""


def _report_odd_method(server: str, method: object) -> None:
    """Log a notification, once, that clients do not understand as one, or that is one of the protocol's misspelled."""
    if not isinstance(method, str) or not method:
        return  # refused elsewhere
    name = method.removeprefix(_PREFIX)
    if name == method:
        near = find_near(name, _OF_PROTOCOL, cutoff=0.9)
        advice = f" Write {_PREFIX}{near[0] if near else name!s:.100}."
    else:
        near = [] if name in _OF_PROTOCOL else find_near(name, _OF_PROTOCOL, cutoff=0.9)
        advice = f" Did you mean {_PREFIX}{near[0]}?" if near else ""
    if advice and len(_unknown) < _MAX_UNKNOWN and (server, method) not in _unknown:
        _unknown.add((server, method))
        logger.warning(
            "Clients may ignore the notification %.100r of the server %r.%s", method, server, advice
        )


Readable: TypeAlias = ResourceEntry | TemplateEntry


_unknown: set[tuple[str, str]] = set()
"""The URIs of no resource that were logged, with their servers."""

_MAX_UNKNOWN = 100


def find_matches(registry: Registry, uri: str) -> Iterator[tuple[Readable, Mapping[str, Any]]]:
    """Yield the entries that match a URI, in the order of the look-up, with its variables."""
    resource = registry.resources.get(uri)
    if resource is not None:
        yield resource, {}
    for entry in registry.templates.values():
        variables = entry.template.match(uri)
        if variables is not None:
            yield entry, variables


def _has_conditions(requirements: Requirements, entry: Readable) -> bool:
    return entry in requirements.scopes or entry.handler.check is not None


def _is_open(requirements: Requirements, entries: Iterable[Readable]) -> bool:
    """Return whether every principal whose credentials are not restricted may read one of the entries."""
    for entry in entries:
        if _has_conditions(requirements, entry):
            return False
        if entry not in requirements.rules:
            return True
    return False


def _has_url_elicitation(stream: PushStream) -> bool:
    """Return whether the client of a stream can be asked to visit a page, by its revision."""
    revision = find_revision(stream.revision_name)
    return revision is not None and "url" in revision.asks


def _make_call(server: Services, stream: PushStream, given: Exchange, uri: str) -> Any:
    """Return the call by which a stream's principal would read a resource."""
    # The channel belongs to the request that opened the stream.
    exchange = Exchange(headers=given.headers, caller=given.caller, connection=given.connection)
    connection = exchange.connection
    if connection is None or stream.kind is StreamKind.LISTEN:
        connection = ConnectionState(
            find_revision(stream.revision_name), client_info=stream.client_info
        )
    message = Request(id=stream.id, method="resources/read", params={"uri": uri})
    return server.make_call(exchange, message, connection)
