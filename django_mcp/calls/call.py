"""RecordedCall: the compact record of one call, as it is queued, and the scale of durations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.server.server import BaseServer

if TYPE_CHECKING:
    from django_mcp.calls.traces import Trace

STEPS_PER_DOUBLING = 4
"""Steps of the scale of durations: neighbours are 19 % apart."""


ERRORS = ("failed", "refused", "timeout", "fault")
"""The outcomes that the charts, the catalogue and the list of errors count as errors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """How a call failed.

    Attributes:
        kind: a value of `FailureKind`, or the code of the error that refused the call.
        error: the qualified class of the exception; empty without one.
        place: the innermost function of the site that the exception passed; empty without one.
        trace: more of the exception, as much as is recorded.
    """

    kind: str
    error: str = ""
    place: str = ""
    trace: Trace | None = None


@dataclass(kw_only=True, slots=True)
class RecordedCall:
    """One tool call, resource read or prompt request.

    Attributes:
        server: the server that was called.
        started_at: seconds since the epoch.
        duration_s: until the response was ready.
        method: such as `"tools/call"`.
        name: the name of the entry; cut short if it is unknown. Of an unknown URI only the scheme.
        session: public key of its session; empty without one.
        error: class of the exception that it failed with; else empty.
        is_known: whether an entry has this name; else it counts as unknown in the charts.
        outcome: a value of `CallRecord.Outcome`.
        reference: the reference of an internal error in the log; else empty.
        user_id: primary key of the Django user, or None.
        principal: key of the principal; empty if anonymous.
        revision: the protocol revision.
        client_name, client_version: from the client's `clientInfo`, cut short.
        coerced: the arguments that were read otherwise than they were sent; `?`: unknown ones were dropped.
        faulty: the arguments that were refused, by their place in the schema.
        varied: the arguments that the same caller had sent otherwise, or not at all, within a minute before.
        result_chars: how many characters a model reads of the result; 0 if no tool gave one.
        result_bytes: the size of the result as JSON; 0 without one.
        is_cut: whether rows of the result were left out, since it was too large.
        queue_s: how long it waited for a thread; None: its handler did not begin.
        handler_s: how long its handler ran, in all rounds.
        database_s: how long the queries of its handler took; None: `RECORD_QUERIES` did not choose the call.
        queries: how many there were.
        fingerprint: the key of the `ErrorGroup` that it is a case of; empty if it did not fail.
        failed: how it failed; else None.
        arguments: as JSON: the type of each value, or the values if the tool allows recording them.
    """

    server: BaseServer
    started_at: float
    duration_s: float
    method: str
    name: str
    outcome: str
    reference: str
    user_id: Any
    principal: str
    revision: str
    client_name: str
    client_version: str
    arguments: str
    session: str = ""
    error: str = ""
    coerced: str = ""
    faulty: str = ""
    varied: str = ""
    is_known: bool = True
    result_chars: int = 0
    result_bytes: int = 0
    is_cut: bool = False
    queue_s: float | None = None
    handler_s: float | None = None
    database_s: float | None = None
    queries: int | None = None
    fingerprint: str = ""
    failed: Failed | None = None


class Sent(NamedTuple):
    """The arguments of a call as they were sent, until they are compared with those of the call before.

    Attributes:
        properties: those that the tool has, by name.
        arguments: as JSON.
    """

    properties: Mapping[str, Any]
    arguments: bytes


def step_of(duration_ms: float) -> int:
    """Return the step of a duration on the scale for percentiles."""
    return max(0, math.ceil(math.log2(max(duration_ms, 0.01) * 100) * STEPS_PER_DOUBLING))


def upper_ms(step: int) -> float:
    """Return the longest duration of a step."""
    return float(2 ** (step / STEPS_PER_DOUBLING) / 100)
