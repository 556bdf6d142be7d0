"""Two small tools on the event loop: a timer that a quick call does not pay for, and an interrupt.

Calls run in the task of their request. Most end without having waited for anything, and a task or
a timer for each would cost more than the rest of their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Interrupt", "LazyTimer"]


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


class LazyTimer:
    """Call `function` after `delay_s`, counted from when the running task first waits.

    A task that finishes before it waits pays for one `call_soon`, less than half of a timer.
    """

    __slots__ = ("_delay_s", "_function", "_handle", "_loop")

    def __init__(
        self,
        delay_s: float,
        function: Callable[[], object],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._delay_s = delay_s
        self._function = function
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._handle = self._loop.call_later(self._delay_s, self._function)

    def cancel(self) -> None:
        """Do not call the function any more."""
        self._handle.cancel()
        # The function is often a method of the one who holds the timer: no reference cycle, or
        # what an exchange holds would live until the collector comes by.
        self._function = _nothing


def _nothing() -> None:
    pass
