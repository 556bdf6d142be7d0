"""Detect disconnects and send keep-alive comments while a call runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from django_mcp.protocol.records import Record
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.transports.http.sink import Receive, StreamSink


class Watch(Record):
    """Detect a disconnect, and send comments in long silences, while a call runs.

    Call `close` when the call is done.
    """

    _exchange: Exchange
    _receive: Receive
    _sink: StreamSink | None
    _keepalive_s: float
    _on_gone: Callable[[], None]
    _begun_s: float = 0.0
    _alive: asyncio.Task[None] | None = None
    _silence: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._wait_until_gone())
        if self._sink is not None:
            self._begun_s = loop.time()
            self._silence = loop.call_later(self._keepalive_s, self._look, self._sink)

    def close(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        for task in (self._task, self._alive):
            if task is not None:
                task.cancel()
        # A cancelled task keeps its frame, which refers to this object: avoid the reference cycle.
        self._task = self._alive = None

    async def _wait_until_gone(self) -> None:
        try:
            message = await self._receive()
            while message["type"] != "http.disconnect":
                # Nothing else can follow the body; if it does, the loop must not be blocked.
                await asyncio.sleep(0)
                message = await self._receive()
        except OSError:
            pass
        if self._silence is not None:
            self._silence.cancel()
        self._exchange.is_disconnected = True
        self._on_gone()

    def _look(self, sink: StreamSink) -> None:
        """Send a comment if the silence is too long, and schedule the next look."""
        loop = asyncio.get_running_loop()
        quiet_s = loop.time() - max(self._begun_s, sink.last_sent_s)
        if quiet_s >= self._keepalive_s:
            quiet_s = 0.0
            if self._alive is None or self._alive.done():
                # If the last comment still waits, the client is slow and needs no other.
                self._alive = loop.create_task(sink.keep_alive())
        self._silence = loop.call_later(self._keepalive_s - quiet_s, self._look, sink)
