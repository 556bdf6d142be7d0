"""LayerBus: the hub's messages over the channel layer, with one channel for each process, and how it notices lost ones."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings as site_settings

from django_mcp.process import process_id
from django_mcp.protocol.json import JSONObject
from django_mcp.push.wire import hand_over, pack
from django_mcp.server.exchange.timers import end_tasks
from django_mcp.server.streams.messenger import OutageLog
from django_mcp.server.streams.process_messages import Missed

T = TypeVar("T")

LATE_S = 2.0
"""How long after a message with a higher number one may come."""

MAX_SENDERS = 1000
"""Processes whose numbers are remembered, those that have sent last."""

MAX_AHEAD = 1000
"""Numbers of one process that are remembered beyond a gap."""

REJOIN_S = 2.0
"""How often it joins its group again: a restarted Redis has no groups."""

RETRY_S = 0.5
TIMEOUT_S = 3.0

_numbers = count()

_layer_logger = logging.getLogger("channels_redis.pubsub")


class LayerBus:
    """Send to a group that each process of the site is in; see `Bus`.

    The name of the group is made from `SECRET_KEY`, so that sites can share a Redis.
    """

    is_shared = True

    def __init__(self, outage: OutageLog) -> None:
        secret = f"django_mcp push {site_settings.SECRET_KEY}"
        self._group = f"django-mcp-{hashlib.sha256(secret.encode()).hexdigest()[:24]}"
        self._tasks: list[asyncio.Task[None]] = []
        self._channel: str | None = None
        self._has_joined = asyncio.Event()
        self._outage = outage
        self._is_deaf = False
        self._has_sent = False
        self._gaps = Gaps()

    async def send(self, *messages: JSONObject) -> None:
        for body in pack(messages):
            self._has_sent = True
            await self._send(body)

    async def _send(self, body: str) -> None:
        envelope = {
            "type": "django_mcp.push",
            "from": process_id(),
            "number": next(_numbers),
            "body": body,
        }
        layer: Any = get_channel_layer()
        async with asyncio.timeout(TIMEOUT_S):
            await _cancellable(layer.group_send(self._group, envelope))

    def send_now(self, *messages: JSONObject) -> None:
        async_to_sync(self.send)(*messages)

    def start(self, receive: Callable[[JSONObject], None]) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        self._channel = None
        self._has_joined = asyncio.Event()
        _layer_logger.addFilter(self._take_record)
        self._tasks = [
            loop.create_task(self._listen(receive)),
            loop.create_task(self._rejoin(receive)),
        ]
        return self._has_joined

    async def stop(self) -> None:
        _layer_logger.removeFilter(self._take_record)
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    def _take_record(self, record: logging.LogRecord) -> bool:
        """Return whether the layer logs a record: it logs a traceback each second in an outage."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OSError) and not type(error).__module__.startswith("redis."):
            return True
        self._is_deaf = True
        self._outage.failed(error)
        return False

    async def _listen(self, receive: Callable[[JSONObject], None]) -> None:
        layer: Any = get_channel_layer()
        while True:
            begun_s = time.monotonic()
            try:
                if self._channel is None:
                    channel = await _cancellable(layer.new_channel())
                    await _cancellable(layer.group_add(self._group, channel))
                    self._channel = channel
                    self._has_joined.set()
                envelope = await _cancellable(layer.receive(self._channel))
            except Exception as error:  # noqa: BLE001 - any error of the layer
                # Some layers raise after a while without messages. The same channel misses none.
                is_quick = time.monotonic() - begun_s < RETRY_S
                if is_quick or self._channel is None:
                    self._is_deaf = True
                    self._outage.failed(error)
                if is_quick:
                    await asyncio.sleep(RETRY_S)
                continue
            if envelope.get("from") != process_id():
                self._gaps.take(envelope.get("from"), envelope.get("number"))
                await hand_over(envelope.get("body"), receive)

    async def _rejoin(self, receive: Callable[[JSONObject], None]) -> None:
        layer: Any = get_channel_layer()
        while True:
            await asyncio.sleep(REJOIN_S)
            if self._channel is None:
                continue
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await _cancellable(layer.group_add(self._group, self._channel))
                if self._has_sent:
                    # An empty message, by which others notice that the last message was lost.
                    self._has_sent = False
                    await self._send("[]")
            except Exception as error:  # noqa: BLE001 - any error of the layer
                self._is_deaf = True
                self._outage.failed(error)
                continue
            self._outage.worked()
            if self._gaps.find_lost() or self._is_deaf:
                self._is_deaf = False
                receive(Missed().to_wire())


async def try_layer() -> None:
    """Send a message over the layer to this process; raise an error of the layer, or `TimeoutError` if it does not come."""
    layer: Any = get_channel_layer()
    async with asyncio.timeout(TIMEOUT_S):
        channel = await _cancellable(layer.new_channel())
        await _cancellable(layer.send(channel, {"type": "django_mcp.try"}))
        await _cancellable(layer.receive(channel))


async def reach_layer(within_s: float = 0.3) -> None:
    """Send a message to a group that nobody is in; raise an error of the layer, or `TimeoutError`.

    Unlike `try_layer`, it leaves no channel behind, so that it can be called again and again.
    """
    layer: Any = get_channel_layer()
    async with asyncio.timeout(within_s):
        await _cancellable(layer.group_send("django-mcp-nobody", {"type": "django_mcp.try"}))


async def _cancellable(work: Awaitable[T]) -> T:
    """Await a method of the layer, and raise a cancellation that it swallowed.

    Layers over Redis do that while they connect, and a task that goes on keeps its event loop from closing.
    """
    try:
        return await work
    finally:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


@dataclass(slots=True)
class _Sender:
    """The numbers that came from one process: all up to one, and those beyond a gap."""

    upto: int
    ahead: set[int] = field(default_factory=set)
    gap_s: float = 0.0


class Gaps:
    """The numbers of messages that came, by the process that sent them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._senders: OrderedDict[str, _Sender] = OrderedDict()

    def take(self, sender: Any, number: Any) -> None:
        """Record a message that came."""
        if type(sender) is not str or type(number) is not int:
            return
        # Messages from before the first one concerned nothing here.
        sender_state = self._senders.setdefault(sender, _Sender(number))
        self._senders.move_to_end(sender)
        if len(self._senders) > MAX_SENDERS:
            self._senders.popitem(last=False)
        if number > sender_state.upto:
            if not sender_state.ahead:
                sender_state.gap_s = self._clock()
            sender_state.ahead.add(number)
        while sender_state.upto + 1 in sender_state.ahead:
            sender_state.upto += 1
            sender_state.ahead.discard(sender_state.upto)

    def find_lost(self) -> bool:
        """Return whether messages have not come in time; they are not expected any more."""
        latest_s = self._clock() - LATE_S
        is_any = False
        for sender in self._senders.values():
            if sender.ahead and (sender.gap_s <= latest_s or len(sender.ahead) > MAX_AHEAD):
                sender.upto, is_any = max(sender.ahead), True
                sender.ahead.clear()
        return is_any
