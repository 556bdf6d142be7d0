"""Metrics: histograms of operations and sessions by the conventions for MCP, and others of this package."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Observation

from django_mcp.execution.pool import PoolState
from django_mcp.execution.threads import find_pool_states
from django_mcp.process import PerProcess, reset_on
from django_mcp.push.process_hub import process_hub
from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.streams.stream import PushStream, StreamKind
from django_mcp.telemetry.attributes import SCOPE, Attributes, find_common
from django_mcp.telemetry.later import Later
from django_mcp.telemetry.operation import Observer, Operation
from django_mcp.telemetry.spans import finishing

SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The buckets of durations. Source: the conventions for MCP."""

BYTES = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216)

SIZED = frozenset({"tools/call", "resources/read", "prompts/get"})

SERVER = "django_mcp.server.name"

_running: dict[tuple[str, bool], set[Operation]] = {}
"""The operations that run in this process, by their server and whether they are runs of tasks."""

_kinds: set[tuple[str, str]] = set()
"""The servers and kinds of streams that there were, whose number may be 0 now."""

reset_on(_running.clear, fork=True)


class _Measured(NamedTuple):
    """A value for an instrument, which the thread passes on."""

    record: Callable[..., None]
    value: float
    attributes: Attributes
    context: Context | None = None


def _pass_on(measured: _Measured | Operation) -> None:
    if isinstance(measured, Operation):
        _pass_on_operation(measured)
    else:
        measured.record(measured.value, measured.attributes, measured.context)


def _pass_on_operation(operation: Operation) -> None:
    made, attributes, span, context = instruments(), find_common(operation), operation.span, None
    if span is not None and span.get_span_context().trace_flags.sampled:
        # Of which an exemplar names the trace.
        context = trace.set_span_in_context(span, Context())
    duration = made.task_s if operation.is_task else made.operation_s
    duration(operation.duration_s, attributes, context)
    if operation.method in SIZED and operation.outcome == "done":
        made.result_bytes(operation.size, _of_result(attributes), context)


recording: PerProcess[Later[_Measured | Operation]] = PerProcess(
    lambda: Later("django-mcp-metrics", _pass_on, metrics.get_meter_provider)
)
"""Passes values on: the SDK takes 7 us for each."""


class Instruments:
    """The instruments of this process."""

    def __init__(self) -> None:
        meter = metrics.get_meter(*SCOPE)

        def seconds(name: str, description: str) -> Any:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=SECONDS
            ).record

        self.operation_s = seconds(
            "mcp.server.operation.duration", "How long messages took until their response"
        )
        self.session_s = seconds("mcp.server.session.duration", "How long sessions lasted")
        self.stream_s = seconds("django_mcp.stream.duration", "How long streams were open")
        self.task_s = seconds("django_mcp.task.duration", "How long runs of tasks took")
        self.result_bytes = meter.create_histogram(
            "django_mcp.result.size",
            "By",
            "The size of responses",
            explicit_bucket_boundaries_advisory=BYTES,
        ).record
        self.refusals = meter.create_counter(
            "django_mcp.refusals", "{request}", "Requests refused with a status of 400 or more"
        ).add
        self.sign_ins = meter.create_counter(
            "django_mcp.sign_ins", "{request}", "Requests by what became of their credentials"
        ).add

        def gauge(
            name: str, unit: str, description: str, find: Callable[[], Iterable[Observation]]
        ) -> None:
            def observe(_options: CallbackOptions) -> Iterable[Observation]:
                return find()

            meter.create_observable_up_down_counter(name, [observe], unit, description)

        gauge("django_mcp.calls.running", "{call}", "Calls that run", lambda: _count(is_task=False))
        gauge("django_mcp.tasks.running", "{task}", "Tasks that run", lambda: _count(is_task=True))
        gauge("django_mcp.streams.open", "{stream}", "Open streams", _count_streams)
        gauge(
            "django_mcp.calls.queued",
            "{call}",
            "Calls that wait for a thread",
            lambda: _read_pools(lambda state: state.waiting),
        )
        gauge(
            "django_mcp.pool.busy",
            "{thread}",
            "Threads that run a handler",
            lambda: _read_pools(lambda state: len(state.running)),
        )
        gauge(
            "django_mcp.pool.limit",
            "{thread}",
            "The threads that there may be",
            lambda: _read_pools(lambda state: state.max_threads),
        )
        meter.create_observable_counter(
            "django_mcp.telemetry.dropped",
            [lambda _options: _count_dropped()],
            "{item}",
            "Spans and values that were dropped, since an exporter blocked",
        )


instruments: Callable[[], Instruments] = cache(Instruments)
"""Returns the instruments of this process, which are made once, since observed ones cannot be taken back."""


def _count(*, is_task: bool) -> Iterator[Observation]:
    for (server, is_of_task), operations in list(_running.items()):
        if is_of_task is is_task:
            yield Observation(len(operations), {SERVER: server})


def _count_streams() -> Iterator[Observation]:
    streams = list(process_hub().streams.values())
    counts = Counter((stream.server_name, stream.kind.value) for stream in streams)
    _kinds.update(counts)
    for server, kind in list(_kinds):
        attributes = {SERVER: server, "django_mcp.stream.kind": kind}
        yield Observation(counts[server, kind], attributes)


_POOLS = {"SYNC_THREADS": "handlers", "TASK_THREADS": "tasks"}


def _read_pools(read: Callable[[PoolState], int]) -> Iterator[Observation]:
    for setting, state in find_pool_states().items():
        yield Observation(read(state), {"django_mcp.pool.name": _POOLS[setting]})


def _count_dropped() -> Iterator[Observation]:
    for signal, queue in (("spans", finishing.current), ("metrics", recording.current)):
        if queue is not None:
            yield Observation(queue.dropped, {"django_mcp.signal": signal})


class Metrics(Observer):
    """Measures operations, and counts what else servers do."""

    def __init__(self) -> None:
        self._instruments = instruments()

    def begin(self, operation: Operation) -> None:
        """See `Observer.begin`."""
        key = operation.server, operation.is_task
        running = _running.get(key)
        if running is None:
            running = _running.setdefault(key, set())
        running.add(operation)

    def opened(self, operation: Operation) -> None:
        """See `Observer.opened`: a stream is counted as such."""
        _running[operation.server, operation.is_task].discard(operation)

    def end(self, operation: Operation) -> None:
        """See `Observer.end`."""
        _running[operation.server, operation.is_task].discard(operation)
        operation.settle()
        (recording.current or recording.get()).put(operation)

    def session_closed(self, session: Session) -> None:
        """See `Observer.session_closed`."""
        if session.opened_s:
            revision = None if session.revision is None else session.revision.name
            lasted_s = max(0.0, time.time() - session.opened_s)
            self._end_session(session.server_name, revision, lasted_s, "tcp")

    def stream_closed(self, stream: PushStream) -> None:
        """See `Observer.stream_closed`. The session of a pipe is its stream."""
        lasted_s = max(0.0, time.time() - stream.opened_at)
        attributes: Attributes = {
            SERVER: stream.server_name,
            "django_mcp.stream.kind": stream.kind.value,
        }
        self._put(self._instruments.stream_s, lasted_s, attributes)
        if stream.kind is StreamKind.STDIO:
            self._end_session(stream.server_name, stream.revision_name, lasted_s, "pipe")

    def signed_in(self, server: str, outcome: str) -> None:
        """See `Observer.signed_in`."""
        self._put(self._instruments.sign_ins, 1, {SERVER: server, "django_mcp.outcome": outcome})

    def refused(self, server: str, reply: Reply) -> None:
        """See `Observer.refused`."""
        attributes: Attributes = {SERVER: server, "http.response.status_code": reply.status}
        if reply.refusal is not None:
            attributes["rpc.response.status_code"] = str(reply.refusal.code)
        self._put(self._instruments.refusals, 1, attributes)

    def _end_session(
        self, server: str, revision: str | None, lasted_s: float, transport: str
    ) -> None:
        attributes: Attributes = {SERVER: server, "network.transport": transport}
        if transport == "tcp":
            attributes["network.protocol.name"] = "http"
        if revision:
            attributes["mcp.protocol.version"] = revision
        self._put(self._instruments.session_s, lasted_s, attributes)

    def _put(self, record: Callable[..., None], value: float, attributes: Attributes) -> None:
        (recording.current or recording.get()).put(_Measured(record, value, attributes))


def _of_result(attributes: Attributes) -> Attributes:
    names = (SERVER, "mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name")
    return {name: attributes[name] for name in names if name in attributes}
