"""LayerBus: the hub's messages over the channel layer, on one channel for the whole process."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings as site_settings

from django_mcp.process import has_running_loop, process_id
from django_mcp.protocol.json import JSONObject
from django_mcp.push.gaps import Gaps
from django_mcp.push.wire import hand_over, pack
from django_mcp.server.streams.outage import OutageLog

__all__ = ["LayerBus"]

REJOIN_S = 2.0
"""How often it joins its group again: a Redis that was restarted has forgotten who was in it."""

RETRY_S = 0.5
TIMEOUT_S = 3.0
STOP_S = 0.2
STOP_TRIES = 5
MAX_LEFT = 10_000
"""Messages that were left for the thread; of more the oldest are dropped. Our own limit."""

READY_S = 1.0
"""How long the first streams of a process wait until it receives messages. Our own choice."""


class LayerBus:
    """Send to a group that the hub of each process is in; see `Bus`.

    The group's name follows from `SECRET_KEY`, so that sites that share a Redis do not hear each
    other.

    Args:
        outage: is told what works and what does not.
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
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._left: deque[JSONObject] = deque(maxlen=MAX_LEFT)

    async def send(self, *messages: JSONObject) -> None:
        """See `Bus.send`."""
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
        async with asyncio.timeout(TIMEOUT_S):
            await _layer().group_send(self._group, envelope)

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        if not has_running_loop():
            async_to_sync(self.send)(message)
            return
        with self._lock:
            self._left.append(message)
            if len(self._left) > 1:
                # The thread that comes for the first of them takes all.
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, thread_name_prefix="django-mcp-bus")
        self._threads.submit(self._send_left)

    def _send_left(self) -> None:
        with self._lock:
            messages, self._left = list(self._left), deque(maxlen=MAX_LEFT)
        try:
            async_to_sync(self.send)(*messages)
        except Exception as error:  # noqa: BLE001 - what the layer raises is its library's business
            self._outage.failed(error)
        else:
            self._outage.worked()

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""
        loop = asyncio.get_running_loop()
        self._channel = None
        self._has_joined = asyncio.Event()
        self._tasks = [
            loop.create_task(self._listen(receive)),
            loop.create_task(self._rejoin(receive)),
        ]

    async def ready(self) -> None:
        """See `Bus.ready`."""
        if self._channel is None:
            try:
                async with asyncio.timeout(READY_S):
                    await self._has_joined.wait()
            except TimeoutError:
                # A stream with the changes of this process only is better than none.
                return

    async def stop(self) -> None:
        """See `Bus.stop`."""
        tasks, self._tasks = self._tasks, []
        left = set(tasks)
        # Libraries of layers take a cancellation for the end of their connection, and go on.
        for _ in range(STOP_TRIES):
            if left:
                for task in left:
                    task.cancel()
                _, left = await asyncio.wait(left, timeout=STOP_S)
        await asyncio.gather(*(each for each in tasks if each.done()), return_exceptions=True)

    async def _listen(self, receive: Callable[[JSONObject], None]) -> None:
        layer = _layer()
        while True:
            begun_s = time.monotonic()
            try:
                if self._channel is None:
                    channel = await layer.new_channel()
                    await layer.group_add(self._group, channel)
                    self._channel = channel
                    self._has_joined.set()
                envelope = await layer.receive(self._channel)
            except Exception as error:  # noqa: BLE001 - what the layer raises is its library's business
                # Some give up when it was quiet for a while. On the same channel nothing is missed.
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
        layer = _layer()
        while True:
            await asyncio.sleep(REJOIN_S)
            if self._channel is None:
                continue
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await layer.group_add(self._group, self._channel)
                if self._has_sent:
                    # Without it nobody would miss the last message of a burst.
                    self._has_sent = False
                    await self._send("[]")
            except Exception as error:  # noqa: BLE001 - what the layer raises is its library's business
                self._is_deaf = True
                self._outage.failed(error)
                continue
            self._outage.worked()
            if self._gaps.find_lost() or self._is_deaf:
                self._is_deaf = False
                receive({"kind": "missed"})


_numbers = count()


def _layer() -> Any:
    return get_channel_layer()
