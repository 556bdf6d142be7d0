"""Small tools on the event loop: timers that a quick call does not pay for, interrupts, a shield.

Calls run in the task of their request. Most end without having waited for anything, and a task or
a timer for each would cost more than the rest of their way.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from msgspec import field

from django_mcp.protocol.records import Record

__all__ = ["Interrupt", "Shield", "TaskTimers", "Timer"]

T = TypeVar("T")


class Timer(Record):
    """Calls a function when its time is over; see `TaskTimers.after`."""

    delay_s: float | None
    function: Callable[[], object] | None = None
    handle: asyncio.TimerHandle | None = None

    def expire(self) -> None:
        """Call the function. The event loop does so when the time is over."""
        if self.function is not None:
            self.function()

    def cancel(self) -> None:
        """Cancel the timer."""
        self.delay_s = None
        # It is often a method of the object that holds the timer: without this reference cycle,
        # what an exchange holds is freed at once.
        self.function = None
        if self.handle is not None:
            self.handle.cancel()


class Interrupt(Timer):
    """Cancel a task for a reason of the server's, which a cancellation from outside is not.

    Use:
        interrupt = timers.limit(30)     # in the task
        try:
            ... await ...                # until 30 s are over, or something calls interrupt.expire()
        except asyncio.CancelledError:
            if not interrupt.is_ours():
                raise
        finally:
            interrupt.cancel()
    """

    timers: TaskTimers | None = None
    has_fired: bool = False

    def expire(self) -> None:
        """Cancel the task, once."""
        task = None if self.timers is None else self.timers.task
        if not self.has_fired and task is not None:
            self.has_fired = True
            task.cancel()

    def is_ours(self) -> bool:
        """Return whether a cancellation came from `expire` alone, and take it back if it did."""
        task = None if self.timers is None else self.timers.task
        if not self.has_fired or task is None:
            return False
        self.has_fired = False
        return task.uncancel() == 0


class TaskTimers(Record):
    """The timers of a task; made, used and waited with in it.

    They count from when they are made, but for those of a coroutine that `drive` runs.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[Any] | None = None
    _counts: bool = True
    _pending: list[Timer] = field(default_factory=list)

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task. To be asked for in it first, or when a timer counts."""
        if self._loop is None:
            self._begin_pending()
        return self._task

    def cancel(self) -> None:
        """Cancel the task, from wherever, when it waits."""
        if self.task is not None:
            self.task.cancel()

    def uncancel(self) -> None:
        """Take one cancellation of the task back."""
        if self.task is not None:
            self.task.uncancel()

    def after(self, delay_s: float, function: Callable[[], object]) -> Timer:
        """Return a timer that calls `function` after `delay_s`, unless it is cancelled."""
        timer = Timer(delay_s, function)
        self._pending.append(timer)
        if self._counts:
            self._begin_pending()
        return timer

    def limit(self, delay_s: float | None) -> Interrupt:
        """Return what interrupts the task after `delay_s`; None: only when it is told to."""
        interrupt = Interrupt(delay_s, timers=self)
        self._pending.append(interrupt)
        if self._counts:
            self._begin_pending()
        return interrupt

    @types.coroutine
    def drive(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Return what a coroutine returns, whose timers count from when it first waits.

        One that does not wait pays for none of them.
        """
        self._counts = False
        try:
            waited_for = coroutine.send(None)
            # From here on somebody else may have to know which task it is.
            self._begin_pending()
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            self._counts = True
            # They know us: no reference cycle, here neither.
            self._pending.clear()
        # What is waited for is not held here: what it raises would hold this frame, and that it.
        waiting = [waited_for]
        del waited_for
        while True:
            failure: BaseException | None = None
            try:
                yield waiting.pop()
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                failure = error
            if failure is None:
                result = yield from coroutine
                return result
            try:
                # Not where it is caught: it would count as being handled in all that follows.
                waiting.append(coroutine.throw(failure))
            except StopIteration as done:
                result = done.value
                return result
            finally:
                failure = None

    def _begin_pending(self) -> None:
        loop = self._loop
        if loop is None:
            # An interrupt needs to know which task it cancels.
            loop = self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task(loop)
        for timer in self._pending:
            if timer.delay_s is not None:
                timer.handle = loop.call_later(timer.delay_s, timer.expire)
        self._pending.clear()


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
