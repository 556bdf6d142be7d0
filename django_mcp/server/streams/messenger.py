"""Messages between this process and the others that serve the site: the bus, its outages and the outbox.

Change notices say "read this again". So they are merged while they wait, sent in any order, and
sent again when the bus fails. All other messages are sent in order, and once at most.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import count, islice
from typing import Any, Protocol, TypeVar

from msgspec import convert

from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.timers import end_tasks, wait_up_to
from django_mcp.server.streams.process_messages import Missed, ProcessMessage
from django_mcp.server.streams.stream import Change

T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=ProcessMessage)


class Bus(Protocol):
    """Carries messages between the hubs of all processes that serve the site."""

    @property
    def is_shared(self) -> bool:
        """Whether it reaches other processes."""

    async def send(self, *messages: JSONObject) -> None:
        """Send messages to the hub of every other process, together. May lose one, never twice.

        It logs an error before it raises it.
        """

    def send_now(self, *messages: JSONObject) -> None:
        """Send messages from any thread but that of the hub's event loop."""

    def start(self, receive: Callable[[JSONObject], None]) -> asyncio.Event | None:
        """Call `receive` on the running event loop with each message from other processes.

        Where messages may have been lost, it is called with one of the kind `missed`. What is
        returned is set when the bus receives messages; None: it does at once.
        """

    async def stop(self) -> None:
        """Receive no longer."""


class LocalBus:
    """The bus of a process that is the only one."""

    is_shared = False

    async def send(self, *messages: JSONObject) -> None:
        """See `Bus.send`."""

    def send_now(self, *messages: JSONObject) -> None:
        """See `Bus.send_now`."""

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""

    async def stop(self) -> None:
        """See `Bus.stop`."""


OUTAGE_EVERY_S = 60.0
"""How often an outage is logged while it lasts."""

OUTAGE_QUIET_S = 5.0
"""An outage is over when something worked and nothing has failed for this long."""


class OutageLog:
    """Log a line when an outage begins, each minute with the number of failures, and when it ends.

    It is for what reports its successes too, such as a bus. What reports only failures uses a `Warner`
    of `execution/outages.py`, which logs no end.

    `what` begins the line. Any thread may report. A single success does not end an outage, so a
    failure that comes and goes does not log a line each time.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._began_s = self._failed_s = self._next_s = 0.0

    def failed(self, error: object) -> None:
        now = self._clock()
        with self._lock:
            self._count, self._failed_s = self._count + 1, now
            count = self._count
            if count == 1:
                self._began_s = now
            elif now < self._next_s:
                return
            self._next_s = now + OUTAGE_EVERY_S
        if count == 1:
            logger.warning("%s: %r", self._what, error)
        else:
            logger.warning("%s: %d failures by now, the last: %r", self._what, count, error)

    def worked(self) -> None:
        if not self._count:
            return
        now = self._clock()
        with self._lock:
            if not self._count or now - self._failed_s < OUTAGE_QUIET_S:
                return
            count, self._count = self._count, 0
        lasted_s = self._failed_s - self._began_s
        logger.warning("%s: over, after %d failures in %.0f s", self._what, count, lasted_s)


MAX_NOTICES = 10_000
"""Change notices that wait to go out. When there are more, one message for all resources replaces them."""

MAX_OTHERS = 2000
"""Other messages that wait to go out. More are dropped, with a line in the log."""

MAX_OF_CALLER = 200
"""Those of them that one caller may cause at will, such as cancellations of calls that do not exist."""

BATCH = 500
NOTICE_BATCHES = 4
"""Messages that are handed to the bus at once, and batches of change notices at a time."""

PACE_S = 0.02
"""Time between two batches. A layer keeps few messages for each process, whatever their size."""

RETRY_S = 0.5
"""How long change notices wait after the bus has failed."""

FLUSH_S = 1.0


class Outbox:
    """Messages that wait for `send`, which hands them to the bus. It belongs to one event loop."""

    def __init__(self, send: Callable[..., Awaitable[bool]]) -> None:
        self._notices = _Lane(send, NOTICE_BATCHES, is_retried=True)
        self._others = _Lane(send, 1, is_retried=False, taken=self._forget)
        self._numbers = count()
        self._waiting_of: Counter[str] = Counter()
        self._dropped = 0

    def put_notice(self, change: Change) -> None:
        """Send the notice of a changed list or resource, unless an equal one waits.

        When too many resources wait, one message replaces them: any resource may have changed.
        """
        waiting = self._notices.waiting
        key, any_resource = (change.server, change.list, change.uri), (change.server, None, None)
        if key in waiting or (change.uri is not None and any_resource in waiting):
            return
        if len(waiting) < MAX_NOTICES or change.uri is None:
            self._notices.put(key, change)
            return
        logger.warning("Too many change notices wait for other processes to name each resource")
        for waiting_key in [key for key in waiting if key[2] is not None]:
            del waiting[waiting_key]
            waiting[waiting_key[0], None, None] = Missed(server=waiting_key[0])
        self._notices.put(any_resource, Missed(server=change.server))

    def put(
        self, message: ProcessMessage, caller: str | None = None, *, newest_of: str | None = None
    ) -> None:
        """Send a message after those that were put before it.

        A client can cause any number of some messages, which would take the place of those of others.

        Args:
            caller: the quota key of the caller who causes it. Above a limit of their own, it is dropped.
            newest_of: takes the place of the message about the same that waits, such as a session.
        """
        if newest_of is not None and (newest_of, None) in self._others.waiting:
            self._others.put((newest_of, None), message)
            return
        if caller is not None and self._waiting_of[caller] >= MAX_OF_CALLER:
            return
        if len(self._others.waiting) < MAX_OTHERS:
            if caller is not None:
                self._waiting_of[caller] += 1
            self._others.put((newest_of or next(self._numbers), caller), message)
            return
        self._dropped += 1
        # At each power of two: a line for each message would flood the log.
        if self._dropped & (self._dropped - 1) == 0:
            logger.warning("Dropped %d messages to other processes: too many", self._dropped)

    def _forget(self, keys: Iterable[tuple[int | str, str | None]]) -> None:
        for _what, caller in keys:
            if caller is not None:
                self._waiting_of[caller] -= 1
                if not self._waiting_of[caller]:
                    del self._waiting_of[caller]

    async def stop(self) -> None:
        """Send nothing more: the running event loop, which is its own, ends."""
        self._waiting_of.clear()
        for lane in (self._notices, self._others):
            await lane.stop()

    async def flush(self) -> None:
        """Wait until no messages but change notices wait."""
        lane = self._others
        while lane.waiting or lane.tasks:
            await asyncio.wait((*lane.tasks, asyncio.create_task(asyncio.sleep(0.001))))


class _Lane:
    """Messages that wait, by key, and the tasks that send them in batches.

    `taken` is called with the keys of each batch, whose messages wait no longer.
    """

    def __init__(
        self,
        send: Callable[..., Awaitable[bool]],
        max_tasks: int,
        *,
        is_retried: bool,
        taken: Callable[[Iterable[Any]], None] | None = None,
    ) -> None:
        self._send = send
        self._taken = taken
        self._max_tasks = max_tasks
        self._is_retried = is_retried
        # A task, not a timer: what ends an event loop cancels its tasks, and then nothing may begin anew.
        self._next: asyncio.Task[None] | None = None
        self._pumped_s = 0.0
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting: dict[Any, ProcessMessage] = {}

    def put(self, key: Any, message: ProcessMessage) -> None:
        self.waiting[key] = message
        # What is put in the same step of the event loop goes together.
        self._pump_in(0.0)

    async def stop(self) -> None:
        self.waiting.clear()
        await end_tasks([*self.tasks, *filter(None, [self._next])])

    def _pump_in(self, delay_s: float) -> None:
        if self._next is None:
            loop = asyncio.get_running_loop()
            due_s = max(loop.time() + delay_s, self._pumped_s + PACE_S)
            self._next = loop.create_task(self._pump_at(due_s))

    async def _pump_at(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(due_s - loop.time(), 0))
        self._next = None
        while self.waiting and len(self.tasks) < self._max_tasks:
            batch = {key: self.waiting.pop(key) for key in list(islice(self.waiting, BATCH))}
            if self._taken is not None:
                self._taken(batch)
            task = loop.create_task(self._send_batch(batch))
            self.tasks.add(task)
            task.add_done_callback(self._sent)
            self._pumped_s = loop.time()

    async def _send_batch(self, batch: dict[Any, ProcessMessage]) -> None:
        if not await self._send(*batch.values()) and self._is_retried:
            self.waiting = {**batch, **self.waiting}
            self._pump_in(RETRY_S)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.waiting and not task.cancelled():
            self._pump_in(0.0)


class Messenger:
    """Sends messages to the other processes, and passes received ones to their handlers."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.loop: asyncio.AbstractEventLoop | None = None
        self._handlers: dict[object, tuple[type[Any], Callable[[Any], object]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._outbox = Outbox(self.send)
        self._bad_messages = OutageLog("Could not handle a message of another process")

    @property
    def is_running(self) -> bool:
        """Whether its event loop runs."""
        return self.loop is not None and self.loop.is_running()

    def spawn(
        self, work: Coroutine[Any, Any, T], context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine on the running event loop, which only refers weakly to its tasks."""
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine function on its event loop, or on the running one if that has ended."""
        loop = self.loop
        if loop is None or not loop.is_running() or loop is asyncio.get_running_loop():
            return await function(*args)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(*args), loop))

    def on(self, kind: type[MessageT], handler: Callable[[MessageT], object]) -> None:
        """Call `handler` with each message of a class from another process."""
        self._handlers[kind.__struct_config__.tag] = kind, handler

    def receive(self, wire: JSONObject) -> None:
        """Pass a message of another process to its handler."""
        tag = wire.get("kind")
        if type(tag) is not str or tag not in self._handlers:
            return
        kind, handler = self._handlers[tag]
        try:
            handler(convert(wire, kind))
        except Exception as error:  # noqa: BLE001 - the next messages are handled all the same
            self._bad_messages.failed(error)

    def broadcast(
        self, message: ProcessMessage, caller: str | None = None, *, newest_of: str | None = None
    ) -> None:
        """Send a message to the other processes, without waiting for it; see `Outbox.put`."""
        if not self._is_on_loop():
            # A thread has no event loop. Under WSGI one ends, with its tasks, with the request.
            self.bus.send_now(message.to_wire())
        elif self.bus.is_shared:
            self._outbox.put(message, caller, newest_of=newest_of)

    def _is_on_loop(self) -> bool:
        try:
            return self.loop is asyncio.get_running_loop()
        except RuntimeError:
            return False

    def hand_over(self, message: ProcessMessage) -> None:
        """Pass a message to its handler here, or to the other processes if that returns False."""
        _kind, handler = self._handlers[message.__struct_config__.tag]
        if not handler(message):
            self.broadcast(message)

    async def flush(self) -> None:
        """Wait until the messages of this event loop are sent, for a second at most."""
        if self.loop is asyncio.get_running_loop():
            await wait_up_to(FLUSH_S, self._outbox.flush())

    async def send(self, *messages: ProcessMessage) -> bool:
        """Send messages to the other processes; return whether they were sent. The bus logs errors."""
        try:
            await self.bus.send(*(message.to_wire() for message in messages))
        except Exception as error:  # noqa: BLE001 - any error of the library behind the bus
            # A process that misses a message finds the change in the store within seconds.
            logger.debug("Could not reach the other processes: %r", error)
            return False
        return True
