"""RecordedCall: the compact record of one call, as it is queued, and the scale of durations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from django_mcp.server.server import BaseServer

STEPS_PER_DOUBLING = 4
"""Steps of the scale of durations: neighbours are 19 % apart."""


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
        result_chars: how many characters a model reads of the result; 0 if no tool gave one.
        result_bytes: the size of the result as JSON; 0 without one.
        queue_s: how long it waited for a thread; None: its handler did not begin.
        handler_s: how long its handler ran, in all rounds.
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
    is_known: bool = True
    result_chars: int = 0
    result_bytes: int = 0
    queue_s: float | None = None
    handler_s: float | None = None


def step_of(duration_ms: float) -> int:
    """Return the step of a duration on the scale for percentiles."""
    return max(0, math.ceil(math.log2(max(duration_ms, 0.01) * 100) * STEPS_PER_DOUBLING))


def upper_ms(step: int) -> float:
    """Return the longest duration of a step."""
    return float(2 ** (step / STEPS_PER_DOUBLING) / 100)
