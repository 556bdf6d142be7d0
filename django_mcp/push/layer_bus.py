"""LayerBus: the hub's messages over the channel layer, on one channel for the whole process."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings as site_settings

from django_mcp.protocol.json import JSONObject
from django_mcp.push.bus import Warner, has_running_loop, pack, process_id, unpack

__all__ = ["LayerBus"]

REJOIN_S = 2.0
"""How often it joins its group again: a Redis that was restarted has forgotten who was in it."""

RETRY_S = 0.5
TIMEOUT_S = 3.0
STOP_S = 0.2
STOP_TRIES = 5
READY_S = 1.0
"""How long the first streams of a process wait until it hears of the others. Ours."""


class LayerBus:
    """Send to a group that the hub of each process is in; see `Bus`.

    The group's name follows from `SECRET_KEY`, so that sites that share a Redis do not hear each
    other.
    """

    is_shared = True

    def __init__(self) -> None:
        secret = f"django_mcp push {site_settings.SECRET_KEY}"
        self._group = f"django-mcp-{hashlib.sha256(secret.encode()).hexdigest()[:24]}"
        self._tasks: list[asyncio.Task[None]] = []
        self._channel: str | None = None
        self._has_joined = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._trouble = Warner()
        self._threads: ThreadPoolExecutor | None = None

    async def send(self, message: JSONObject) -> None:
        """See `Bus.send`."""
        body = pack(message)
        if body is None:
            return
        is_own_loop = self._loop is asyncio.get_running_loop()
        # One after the other: two on their way at a time may overtake each other.
        async with asyncio.timeout(TIMEOUT_S), self._turn if is_own_loop else nullcontext():
            envelope = {"type": "django_mcp.push", "from": process_id(), "body": body}
            await _layer().group_send(self._group, envelope)

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        if not has_running_loop():
            async_to_sync(self.send)(message)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="django-mcp-bus")
        self._threads.submit(self._send_apart, message)

    def _send_apart(self, message: JSONObject) -> None:
        try:
            async_to_sync(self.send)(message)
        except Exception as error:  # noqa: BLE001 - what the layer raises is its library's business
            self._trouble.warn("Could not reach the other processes: %r", error)

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""
        loop = self._loop = asyncio.get_running_loop()
        self._channel = None
        self._has_joined = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tasks = [loop.create_task(self._listen(receive)), loop.create_task(self._rejoin())]

    async def ready(self) -> None:
        """See `Bus.ready`."""
        if self._channel is None:
            try:
                async with asyncio.timeout(READY_S):
                    await self._has_joined.wait()
            except TimeoutError:
                # A stream that hears of this process only is better than none.
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
                    self._trouble.warn("Hearing nothing of other processes: %r", error)
                if is_quick:
                    await asyncio.sleep(RETRY_S)
                continue
            if envelope.get("from") != process_id():
                message = unpack(envelope.get("body"))
                if message is not None:
                    receive(message)

    async def _rejoin(self) -> None:
        layer = _layer()
        while True:
            await asyncio.sleep(REJOIN_S)
            if self._channel is None:
                continue
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await layer.group_add(self._group, self._channel)
                self._trouble.reset()
            except Exception as error:  # noqa: BLE001 - what the layer raises is its library's business
                self._trouble.warn("The channel layer does not answer: %r", error)


def _layer() -> Any:
    return get_channel_layer()
