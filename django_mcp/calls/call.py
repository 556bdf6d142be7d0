"""RecordedCall: what is kept of one call, short enough for a queue of thousands of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["STEPS_PER_DOUBLING", "RecordedCall", "step_of", "upper_ms"]

STEPS_PER_DOUBLING = 4
"""Of the scale that durations are counted on: neighbours are 19 % apart."""


@dataclass(kw_only=True, slots=True)
class RecordedCall:
    """One tool called, resource read or prompt filled in.

    Attributes:
        server: who answered.
        started_at: seconds since the epoch.
        duration_s: until the answer was ready.
        method: such as `"tools/call"`.
        name: what was called; cut short when there is nothing of that name, and of a URI at which
            there is nothing the scheme.
        outcome: a value of `CallRecord.Outcome`.
        reference: by which the log has an internal error; else empty.
        user_id: primary key of the Django user, or None.
        principal: key of the principal; empty for nobody.
        revision: the protocol revision in effect.
        client_name, client_version: what the client says it is, cut short.
        arguments: as JSON: the kind of each value, or the values if the tool lets them be kept.
    """

    server: MCPServer
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


def step_of(duration_ms: float) -> int:
    """Return where a duration lies on the scale that percentiles are counted on."""
    return max(0, math.ceil(math.log2(max(duration_ms, 0.01) * 100) * STEPS_PER_DOUBLING))


def upper_ms(step: int) -> float:
    """Return the longest duration of a step."""
    return float(2 ** (step / STEPS_PER_DOUBLING) / 100)
