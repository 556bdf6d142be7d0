"""Counts of recorded calls: which are errors, and percentiles of their durations."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from django_mcp.calls.call import ERRORS as FAILURES
from django_mcp.calls.call import upper_ms
from django_mcp.models.calls import CallRecord

_Outcome = CallRecord.Outcome
ERRORS = tuple(map(_Outcome, FAILURES))
"""The outcomes that count as errors everywhere."""


class Tally:
    """Counts of calls, errors among them, and steps of their durations."""

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.at: Counter[int] = Counter()
        self._steps: defaultdict[int, int] = defaultdict(int)

    def add(self, slot: int, outcome: str, steps: Mapping[int, int]) -> None:
        """Count calls of a span of time, with the same outcome, by the steps of their durations."""
        count, own = sum(steps.values()), self._steps
        self.calls += count
        self.at[slot] += count
        for step, calls in steps.items():
            own[step] += calls
        if outcome in ERRORS:
            self.errors += count

    def merge(self, other: Tally) -> None:
        """Add the calls of another one."""
        self.calls += other.calls
        self.errors += other.errors
        for step, calls in other._steps.items():
            self._steps[step] += calls

    def percentile_ms(self, share: float) -> float | None:
        """Return a duration that this share of the calls did not exceed; None without calls."""
        left = math.ceil(share * self.calls)
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return round(upper_ms(step), 2)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the counts and percentiles, as the charts take them."""
        return {
            "calls": self.calls,
            "errors": self.errors,
            "p50": self.percentile_ms(0.50),
            "p95": self.percentile_ms(0.95),
            "p99": self.percentile_ms(0.99),
        }
