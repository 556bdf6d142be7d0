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
    """Calls `fire` when its time is over; see `TaskTimers.after`."""

    delay_s: float | None
    fire: Callable[[], object]
    handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Do not call it any more."""
        self.delay_s = None
        # It is often a method of the one who holds the timer: no reference cycle, or what an
        # exchange holds would live until the collector comes by.
        self.fire = _nothing
        if self.handle is not None:
            self.handle.cancel()


class Interrupt(Record):
    """Cancel a task for a reason of ours, told apart from a cancellation from outside.

    Use:
        interrupt = timers.limit(30)     # in the task
        try:
            ... await ...                # until 30 s are over, or something calls interrupt.fire()
        except asyncio.CancelledError:
            if not interrupt.is_ours():
                raise
        finally:
            interrupt.cancel()
    """

    timers: TaskTimers
    delay_s: float | None = None
    handle: asyncio.TimerHandle | None = None
    has_fired: bool = False

    def fire(self) -> None:
        """Cancel the task, once."""
        task = self.timers.task
        if not self.has_fired and task is not None:
            self.has_fired = True
            task.cancel()

    def is_ours(self) -> bool:
        """Tell whether a cancellation came from `fire` alone, and take it back if it did."""
        task = self.timers.task
        if not self.has_fired or task is None:
            return False
        self.has_fired = False
        return task.uncancel() == 0

    def cancel(self) -> None:
        """Let its time not count any more."""
        self.delay_s = None
        if self.handle is not None:
            self.handle.cancel()


class TaskTimers(Record):
    """The timers of a task; made, used and waited with in it.

    They count from when they are made, but for those of a coroutine that `drive` runs.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[Any] | None = None
    _counts: bool = True
    _pending: list[Timer | Interrupt] = field(default_factory=list)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task. To be asked for in it first: to find it is dear."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task. To be asked for in it first, or when a timer counts."""
        if self._task is None:
            self._task = asyncio.current_task(self.loop)
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
        self._add(timer)
        return timer

    def limit(self, delay_s: float | None) -> Interrupt:
        """Return what interrupts the task after `delay_s`; None: only when it is told to."""
        interrupt = Interrupt(self, delay_s)
        self._add(interrupt)
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
            _ = self.task
            for timer in self._pending:
                self._begin(timer)
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

    def _add(self, timer: Timer | Interrupt) -> None:
        if self._counts:
            self._begin(timer)
        else:
            self._pending.append(timer)

    def _begin(self, timer: Timer | Interrupt) -> None:
        # Who fires needs to know which task it is.
        _ = self.task
        if timer.delay_s is not None:
            timer.handle = self.loop.call_later(timer.delay_s, timer.fire)


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


def _nothing() -> None:
    pass
