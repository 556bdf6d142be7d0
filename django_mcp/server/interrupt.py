"""Small tools on the event loop: a timer that a quick call does not pay for, interrupts, a shield.

Calls run in the task of their request. Most end without having waited for anything, and a task or
a timer for each would cost more than the rest of their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Interrupt", "Shield", "TaskTimers", "Timer"]


class Interrupt:
    """Cancel the running task for a reason of ours, told apart from a cancellation from outside.

    Use:
        interrupt = Interrupt()          # in the task
        try:
            ... await ...                # while something else calls interrupt.fire()
        except asyncio.CancelledError:
            if not interrupt.is_ours():
                raise
    """

    __slots__ = ("_task", "has_fired")

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        # Who knows the running task says so: asking for it is the dearest part of this.
        self._task = task if task is not None else asyncio.current_task()
        self.has_fired = False

    def fire(self) -> None:
        """Cancel the task, once."""
        if not self.has_fired and self._task is not None:
            self.has_fired = True
            self._task.cancel()

    def is_ours(self) -> bool:
        """Tell whether a cancellation came from `fire` alone, and take it back if it did."""
        if not self.has_fired or self._task is None:
            return False
        self.has_fired = False
        return self._task.uncancel() == 0


class Shield:
    """Hold a cancellation back while somebody is inside; it comes when they leave.

    Use:
        async with shield:
            ... await ...  # not interrupted by `cancel`
    """

    __slots__ = ("_depth", "_held")

    def __init__(self) -> None:
        self._depth = 0
        self._held: Callable[[], object] | None = None

    @property
    def is_up(self) -> bool:
        """Whether somebody is inside."""
        return self._depth > 0

    def cancel(self, cancel: Callable[[], object]) -> None:
        """Call `cancel` now, or when the last one leaves."""
        if self.is_up:
            self._held = cancel
        else:
            cancel()

    async def __aenter__(self) -> None:
        self._depth += 1

    async def __aexit__(self, *_error: object) -> None:
        self._depth -= 1
        held = self._held
        if held is not None and not self.is_up:
            self._held = None
            held()
            # Where the cancellation of this task arrives.
            await asyncio.sleep(0)


class Timer:
    """One of the timers of a request; see `TaskTimers`."""

    __slots__ = ("delay_s", "function", "handle")

    def __init__(self, delay_s: float, function: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.function = function
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Do not call the function any more."""
        # The function is often a method of the one who holds the timer: no reference cycle, or
        # what an exchange holds would live until the collector comes by.
        self.function = _nothing
        if self.handle is not None:
            self.handle.cancel()


class TaskTimers:
    """The timers of the running task, which count from when it first waits.

    A task that finishes before it waits pays for one `call_soon`, however many timers it has.
    """

    __slots__ = ("_has_waited", "_pulse", "_timers", "loop", "task")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task(self.loop)
        self._timers: list[Timer] = []
        self._has_waited = False
        self._pulse: asyncio.Handle | None = None

    def after(self, delay_s: float, function: Callable[[], object]) -> Timer:
        """Return a timer that calls `function` after `delay_s`, unless it is cancelled."""
        timer = Timer(delay_s, function)
        if self._has_waited:
            timer.handle = self.loop.call_later(delay_s, function)
        else:
            self._timers.append(timer)
            if self._pulse is None:
                self._pulse = self.loop.call_soon(self._begin)
        return timer

    def close(self) -> None:
        """Begin no timers any more. Those that count already are cancelled by their owners."""
        if self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        self._timers.clear()

    def _begin(self) -> None:
        self._has_waited = True
        self._pulse = None
        for timer in self._timers:
            if timer.function is not _nothing:
                timer.handle = self.loop.call_later(timer.delay_s, timer.function)
        self._timers = []


def _nothing() -> None:
    pass
