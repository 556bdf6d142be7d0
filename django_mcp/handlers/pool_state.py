"""PoolState: what the threads of a pool do, for readiness, the log and operators."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PoolState"]

EXHAUSTED_AFTER_S = 5.0
"""When work has waited for so long while no thread came free, the pool counts as exhausted. Our own limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolState:
    """What the threads of a pool do now.

    Attributes:
        max_threads: how many there may be.
        waiting: pieces of work without a thread.
        short_s: for how long work has waited while no thread came free; None: it does not.
        running: what the threads do and for how many seconds, the longest first.
    """

    max_threads: int
    waiting: int
    short_s: float | None
    running: list[tuple[str, float]]

    @property
    def is_exhausted(self) -> bool:
        """Whether the threads are held by work that does not end."""
        return self.short_s is not None and self.short_s >= EXHAUSTED_AFTER_S
