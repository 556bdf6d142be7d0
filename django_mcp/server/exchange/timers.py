"""Timers that most calls end before, interrupts and a shield; and how tasks are held and ended.

A call has three timers. `asyncio.timeout` and timers of the event loop take 9 us of each call, which
takes 23 us without a socket. So the loop gets those that are left after `START_S`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, TypeVar

from django_mcp.protocol.records import Record

T = TypeVar("T")

START_S = 0.05
"""How long a timer waits before it is given to the event loop."""


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that this thread runs, and must not block; None if it runs none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object
) -> bool:
    """Have an event loop call a function, from any thread; return False if it is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return False
    return True


async def wait_up_to(timeout_s: float, work: Awaitable[object]) -> None:
    """Await something, for so many seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work


_held: set[Any] = set()


def hold(running: T) -> T:
    """Return a task or future after making sure that it is not collected before it is done."""
    cause: Any = running
    _held.add(cause)
    cause.add_done_callback(_held.discard)
    return running


END_TRY_S = 0.2
END_TRIES = 25
"""How long a cancelled task may take before it is cancelled again, and how often."""


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended; their results and exceptions are dropped.

    Clients of Redis take a cancellation for the end of their connection and go on. So one is not enough.
    """
    left = {task for task in tasks if not task.done()}
    for _ in range(END_TRIES):
        if not left:
            break
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=END_TRY_S)
    await asyncio.gather(*(task for task in tasks if task.done()), return_exceptions=True)


class _Waiting(set["Timer"]):
    """The timers that an event loop has not got yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.starts_soon = False

    def start_soon(self) -> None:
        self.starts_soon = True
        self.loop.call_later(START_S, self._start)

    def _start(self) -> None:
        self.starts_soon = False
        for timer in self:
            timer.start()
        self.clear()


_of_thread = threading.local()
"""Has the `waiting` timers of the event loop that a thread runs."""


class Timer(Record):
    """Calls a function after some time; see `TaskTimers.after`."""

    _waiting: _Waiting
    delay_s: float
    function: Callable[[], object] | None = None
    handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Give it to the event loop."""
        self.handle = self._waiting.loop.call_later(self.delay_s, self.expire)

    def expire(self) -> None:
        """Call the function. The event loop does so after the time."""
        if self.function is not None:
            self.function()

    def cancel(self) -> None:
        # Often a method of the object that holds the timer: without this reference cycle the
        # objects of an exchange are freed at once.
        self.function = None
        if self.handle is not None:
            self.handle.cancel()
        else:
            self._waiting.discard(self)


class Interrupt(Timer):
    """Cancels a task on behalf of the server, unlike a cancellation from outside: `is_ours` distinguishes them."""

    task: asyncio.Task[Any] | None = None
    has_fired: bool = False

    def expire(self) -> None:
        """Cancel the task, once."""
        if not self.has_fired and self.task is not None:
            self.has_fired = True
            self.task.cancel()

    def postpone(self, delay_s: float | None) -> None:
        """Fire after `delay_s` from now instead; None: only by `expire()`."""
        self.cancel()
        self.delay_s = delay_s or 0.0
        if delay_s is not None:
            self.start()

    def is_ours(self) -> bool:
        """Return whether only `expire` cancelled the task, and take that back."""
        if not self.has_fired or self.task is None:
            return False
        self.has_fired = False
        return self.task.uncancel() == 0


class TaskTimers(Record):
    """The timers of a task. They are up to `START_S` late, and later if something blocks the event loop."""

    _waiting: _Waiting
    task: asyncio.Task[Any] | None

    @classmethod
    def of_current_task(cls) -> TaskTimers:
        loop = asyncio.get_running_loop()
        waiting: _Waiting | None = getattr(_of_thread, "waiting", None)
        if waiting is None or waiting.loop is not loop:
            waiting = _of_thread.waiting = _Waiting(loop)
        return cls(waiting, asyncio.current_task(loop))

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def uncancel(self) -> None:
        """Take one cancellation of the task back."""
        if self.task is not None:
            self.task.uncancel()

    def after(self, delay_s: float, function: Callable[[], object]) -> Timer:
        """Return a timer that calls `function` after `delay_s`, unless it is cancelled."""
        waiting = self._waiting
        timer = Timer(waiting, delay_s, function)
        if delay_s <= START_S:
            timer.start()
            return timer
        # Not in a function of its own, which each call would pass three times.
        waiting.add(timer)
        if not waiting.starts_soon:
            waiting.start_soon()
        return timer

    def limit(self, delay_s: float | None) -> Interrupt:
        """Return an interrupt of the task after `delay_s`; None: only by `expire()`."""
        waiting = self._waiting
        interrupt = Interrupt(waiting, delay_s or 0.0, None, None, self.task)
        if delay_s is None:
            return interrupt
        if delay_s <= START_S:
            interrupt.start()
            return interrupt
        waiting.add(interrupt)
        if not waiting.starts_soon:
            waiting.start_soon()
        return interrupt


class Shield(Record):
    """Delays a cancellation until a block `async with shield` exits."""

    _depth: int = 0
    _held: Callable[[], object] | None = None

    @property
    def is_up(self) -> bool:
        """Whether a block is running."""
        return self._depth > 0

    def cancel(self, cancel: Callable[[], object]) -> None:
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
            # The cancellation of this task arrives here.
            await asyncio.sleep(0)
