"""Record calls: note each on the event loop, in microseconds, and write them in batches from a thread."""

from __future__ import annotations

import random
import re
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any

from django_mcp.calls.call import ERRORS, Failed, RecordedCall, Sent
from django_mcp.calls.places import find_places
from django_mcp.conf import settings
from django_mcp.execution.background import QUEUE_FULL, BackgroundWriter, send_signal
from django_mcp.execution.tables import Pruner
from django_mcp.process import PerProcess, at_end
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import encode
from django_mcp.protocol.sanitize import clean, clean_if_text, name_and_version
from django_mcp.registry.entries import PromptEntry, TemplateEntry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call, FailureKind
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.digests import digest_of
from django_mcp.server.server import BaseServer
from django_mcp.signals import tool_called

MAX_QUEUED = 10_000
BATCH = 1000
FLUSH_EVERY_S = 1.0

PERIOD_S = 60.0
ANONYMOUS_CALLERS = 10
"""Anonymous callers together may have as many calls recorded as so many callers."""

UNKNOWN_WEIGHT = 10
"""A call of an unknown name counts as so many, since a client can invent any number of names."""

PRUNE_EVERY_S = 300.0
"""How often each process that records calls deletes old ones."""

TOO_MANY = (
    "some callers make more than DJANGO_MCP['RECORDED_CALLS_PER_MINUTE']; they are counted only"
)


class _Written(Enum):
    """What is written of a call."""

    NOTHING = 0
    COUNT = 1
    RECORD = 2


_Item = tuple[RecordedCall, _Written, bool, Sent | None]
"""A call, what is to be written of it, whether it is to be sent to receivers, and what a record compares."""


class _Shares:
    """Decides for how many calls of each caller in a minute this process writes a record."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until_s = 0.0
        self._used: dict[str | tuple[str | None], int] = {}
        self._used_anonymously = 0

    def take(self, principal: str, address: str | None, weight: int) -> bool:
        """Count a call; return whether it is to be recorded.

        Args:
            principal: the key of the principal, or its user, whose clients count together; empty: anonymous.
        """
        now_s, used, limit = self._clock(), self._used, settings.RECORDED_CALLS_PER_MINUTE
        if now_s >= self._until_s:
            self._until_s = now_s + PERIOD_S
            self._used_anonymously = 0
            used.clear()
        # No key of a principal is equal to an address in a tuple.
        key = principal or (address,)
        own = used.get(key, 0) + weight
        if own > limit:
            return False
        if not principal:
            together = self._used_anonymously + weight
            if together > limit * ANONYMOUS_CALLERS:
                return False
            self._used_anonymously = together
        used[key] = own
        return True


class _Writer(BackgroundWriter[list[_Item]]):
    def __init__(self) -> None:
        super().__init__("django-mcp-calls", "Calls")
        self._queue: deque[_Item] = deque()
        self._shares = _Shares()
        self._pruner = Pruner(PRUNE_EVERY_S, first_s=PRUNE_EVERY_S)

    def put(
        self,
        call: RecordedCall,
        address: str | None,
        *,
        is_kept: bool,
        is_signalled: bool,
        sent: Sent | None = None,
    ) -> None:
        """Queue a call, unless the queue is full.

        Args:
            address: that of an anonymous caller.
            is_kept: it is to be recorded, if its caller has not had too many recorded.
            is_signalled: it is to be sent to receivers.
            sent: its arguments, which are compared with those of the call before if it is recorded.
        """
        kept, queue = _Written.RECORD if is_kept else _Written.NOTHING, self._queue
        queued = len(queue)
        weight = 1 if call.is_known else UNKNOWN_WEIGHT
        who = call.principal if call.user_id is None else f"user {call.user_id}"
        if is_kept and not self._shares.take(who, address, weight):
            kept, sent = _Written.COUNT, None
            self._drop(1, TOO_MANY)
        # Who makes too many calls may not take the room of the others.
        is_spare = kept is _Written.COUNT and not is_signalled
        if queued >= (MAX_QUEUED // 2 if is_spare else MAX_QUEUED):
            if not is_spare:
                self._drop(1, QUEUE_FULL)
            return
        queue.append((call, kept, is_signalled, sent))
        # Not by the length of the queue, which the thread may have emptied since it was read.
        if not self._is_filled.is_set():
            self._wake()
        if queued >= BATCH:
            self._is_due.set()

    def _take(self) -> list[_Item]:
        queue = self._queue
        return [queue.popleft() for _ in range(min(len(queue), BATCH))]

    def _store(self, batch: list[_Item]) -> None:
        calls = [call for call, kept, _, _ in batch if kept is _Written.RECORD]
        counted = [call for call, kept, _, _ in batch if kept is _Written.COUNT]
        compared = [(call, sent) for call, _, _, sent in batch if sent is not None]
        try:
            if calls or counted:
                # Loads `django.db`, which importing a server must not.
                from django_mcp.calls.rows import find_prunes, insert

                insert(calls, counted, compared)
                self._pruner.prune_if_due(*find_prunes())
        except Exception as error:  # noqa: BLE001 - the top of this thread's loop
            self._drop(len(calls), error)
        for call, _, is_signalled, _ in batch:
            if is_signalled:
                send_signal(tool_called, call.server, call=call)

    def _gather(self) -> None:
        self._is_filled.wait()
        self._is_due.wait(FLUSH_EVERY_S)


_writer = PerProcess(_Writer, settings=("DJANGO_MCP", "DATABASES"), close=_Writer.stop)


def flush_calls() -> None:
    """Write the calls that are queued in this process now, from this thread.

    It is for the end of a process, and for tests with `SYNC_THREADS` 0, which have no writer thread;
    otherwise the thread does it every second.
    """
    _writer.get().flush()


def forget_calls() -> None:
    """Drop the calls that are queued in this process: those of one test are not for the next."""
    if _writer.current is not None:
        _writer.current.forget()


at_end(flush_calls)


MAX_KEPT_BODY_BYTES = 16 * 1024
"""Arguments in a larger message are not recorded, even if the tool allows it."""

MAX_COMPARED_BODY_BYTES = 4096
"""Arguments in a larger message are not compared with those of the call before."""

MAX_ARGUMENTS = 20
MAX_ARGUMENTS_LENGTH = 4000

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,39}:")

_OUTCOMES = {FailureKind.TIMEOUT: "timeout", FailureKind.FAULT: "fault"}


def record_call(
    server: BaseServer, call: Call, answer: bytes | Refusal | None, duration_s: float
) -> None:
    """Queue the record of a server's call; see `Observer`."""
    rate = settings.RECORD_CALLS
    is_recorded = rate >= 1 or (rate > 0 and random.random() < rate)  # noqa: S311
    # A tool also runs when somebody reads the whole result of an earlier call.
    is_of_tool = call.method == "tools/call" or isinstance(call.entry, ToolEntry)
    is_signalled = bool(tool_called.receivers) and is_of_tool
    if is_recorded or is_signalled:
        noted = _note(server, call, answer, duration_s)
        writer = _writer.current or _writer.get()
        writer.put(
            noted,
            call.exchange.caller.address,
            is_kept=is_recorded,
            is_signalled=is_signalled,
            sent=_find_sent(call, noted) if is_recorded else None,
        )


def _note(
    server: BaseServer, call: Call, answer: bytes | Refusal | None, duration_s: float
) -> RecordedCall:
    principal, failure = call.exchange.caller.principal, call.failure
    user = getattr(principal, "user", principal)
    name, is_known = _name(server.registry, call)
    client_name, client_version = name_and_version(call.connection.client_info)
    handled_s, queue_s, handler_s = call.handled_s, None, None
    if handled_s:
        # A wait that goes on has become longer since the run was timed, of which it is a part.
        queue_s = min(call.exchange.channel.find_waited_s(), handled_s)
        handler_s = handled_s - queue_s
    times = call.query_times
    if times is not None and not times.is_sampled:
        times = None
    outcome = _outcome(call, answer)
    failed, fingerprint = None, ""
    if outcome in ERRORS:
        failed = _find_failed(call, answer)
        same = (server.name, call.method, name if is_known else "", outcome)
        fingerprint = _digest_error(*same, failed.kind, failed.error, failed.place)
    return RecordedCall(
        server=server,
        started_at=time.time() - duration_s,
        duration_s=duration_s,
        method=call.method,
        name=name,
        is_known=is_known,
        outcome=outcome,
        reference=(failure.reference if failure is not None else None) or "",
        user_id=getattr(user, "pk", None),
        principal=clean_if_text(key_of(principal), 128),
        revision=call.rules.name,
        client_name=client_name,
        client_version=client_version,
        arguments=_arguments(call),
        result_chars=call.result_chars,
        result_bytes=len(answer) if isinstance(answer, bytes) else 0,
        is_cut=call.is_cut,
        queue_s=queue_s,
        handler_s=handler_s,
        database_s=None if times is None else times.seconds,
        queries=None if times is None else times.count,
        session=getattr(call.connection, "key", ""),
        error=clean(failure.error, 100) if failure is not None else "",
        coerced=clean(", ".join(call.coerced), 200) if call.coerced else "",
        faulty=find_places(call) if failure is not None and failure.problems else "",
        fingerprint=fingerprint,
        failed=failed,
    )


@lru_cache(maxsize=1000)
def _digest_error(*parts: str) -> str:
    """Return the key of an `ErrorGroup`, of which a client chooses no part; kept, since it takes 2 us."""
    return digest_of("\0".join(parts))[:32]


def _find_failed(call: Call, answer: bytes | Refusal | None) -> Failed:
    """Return how a call failed, of which nothing is a name or a value of the client's."""
    failure = call.failure
    if failure is None:
        return Failed(kind=str(answer.code) if isinstance(answer, Refusal) else "")
    kind, trace = failure.kind, failure.trace
    # Arguments are refused in one way, wherever they are checked; what took too long is no place of the site.
    if trace is None or kind is FailureKind.ARGUMENTS:
        return Failed(kind=kind.value)
    if kind is FailureKind.TIMEOUT:
        return Failed(kind=kind.value, error=trace.error)
    return Failed(kind=kind.value, error=trace.error, place=trace.place, trace=trace)


def _outcome(call: Call, answer: bytes | Refusal | None) -> str:
    if answer is None:
        return "cancelled"
    if call.failure is not None:
        return _OUTCOMES.get(call.failure.kind, "failed")
    if isinstance(answer, Refusal):
        return "refused"
    return "asked" if call.has_asked else "done"


def _name(registry: Registry, call: Call) -> tuple[str, bool]:
    """Return the name to record, and whether an entry has it.

    Of an unknown URI, that is the name of an entry that is hidden or disabled, or else the scheme, since
    the rest of it is arguments.
    """
    if call.entry is not None:
        return clean(call.entry.name, 200), True
    if call.method != "resources/read":
        # An unknown name is text from the client.
        name = clean_if_text(call.params.get("name"), 200)
        kind = "prompts" if call.method == "prompts/get" else "tools"
        return name, name in registry.registered[kind]
    uri = call.params.get("uri")
    if type(uri) is not str:
        return "", False
    entry = registry.registered["resources"].get(uri)
    if entry is not None:
        return clean(entry.name, 200), True
    for template in registry.registered["templates"].values():
        if isinstance(template, TemplateEntry) and template.template.match(uri) is not None:
            return clean(template.name, 200), True
    scheme = _SCHEME.match(uri)
    return "" if scheme is None else scheme[0], False


def _arguments(call: Call) -> str:
    given, entry = call.params.get("arguments"), call.entry
    if type(given) is not dict or not given or entry is None:
        return ""
    is_recorded = isinstance(entry, ToolEntry) and entry.record_arguments
    if is_recorded and len(call.exchange.body) <= MAX_KEPT_BODY_BYTES:
        return clean(encode(given).decode(), MAX_ARGUMENTS_LENGTH)
    # Only names that the author chose: a client's own can be as sensitive as values.
    known: list[str] = []
    if isinstance(entry, ToolEntry):
        properties = entry.input_schema.get("properties")
        known = list(properties) if isinstance(properties, dict) else []
    elif isinstance(entry, PromptEntry):
        known = list(entry.argument_names)
    kinds = {name: _kind(given[name]) for name in known[:MAX_ARGUMENTS] if name in given}
    if len(kinds) < len(given):
        kinds["…"] = str(len(given) - len(kinds))
    return clean(encode(kinds).decode(), MAX_ARGUMENTS_LENGTH)


def _find_sent(call: Call, noted: RecordedCall) -> Sent | None:
    """Return the arguments to compare with those of the call before by the same caller; None: there is no such caller."""
    given, entry = call.params.get("arguments"), call.entry
    is_caller_known = noted.session or noted.principal or noted.user_id is not None
    if type(given) is not dict or not isinstance(entry, ToolEntry) or not is_caller_known:
        return None
    if call.is_large or len(call.exchange.body) > MAX_COMPARED_BODY_BYTES:
        return None
    # The handler may still change what the client sent.
    sent = encode(given)
    if len(sent) > MAX_COMPARED_BODY_BYTES:
        return None
    properties = entry.input_schema.get("properties")
    return Sent(properties if isinstance(properties, dict) else {}, sent)


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def _kind(value: Any) -> str:
    if type(value) is list:
        return f"array of {len(value)}"
    return "null" if value is None else _KINDS.get(type(value), "number")
