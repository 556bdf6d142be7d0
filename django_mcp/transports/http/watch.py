"""Look out for the client while its call runs: has it gone, and has it heard nothing for long?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from django_mcp.server.exchange import Exchange
from django_mcp.server.interrupt import TaskTimers
from django_mcp.transports.http.body import Receive
from django_mcp.transports.http.sink import StreamSink

__all__ = ["Watch"]

BEGIN_AFTER_S = 0.02
"""A call is given this long before a task is spent on watching its client; most are done by then."""


class Watch:
    """Wait for the end of the client, and break long silences, beside a running call.

    It begins by itself when the call has to wait for something; `close` it when the call is done.
    """

    __slots__ = ("_exchange", "_keepalive_s", "_on_gone", "_receive", "_sink", "_task", "_timer")

    def __init__(
        self,
        exchange: Exchange,
        receive: Receive,
        sink: StreamSink | None,
        keepalive_s: float,
        on_gone: Callable[[], None],
        timers: TaskTimers,
    ) -> None:
        self._exchange = exchange
        self._receive = receive
        self._sink = sink
        self._keepalive_s = keepalive_s
        self._on_gone = on_gone
        self._task: asyncio.Task[None] | None = None
        self._timer = timers.after(BEGIN_AFTER_S, self._begin)

    def close(self) -> None:
        """Look no longer."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        going = asyncio.ensure_future(self._wait_until_gone())
        try:
            if self._sink is not None:
                await self._break_silences(self._sink, going)
            else:
                await asyncio.wait((going,))
        finally:
            going.cancel()
        self._exchange.disconnected()
        self._on_gone()

    async def _wait_until_gone(self) -> None:
        try:
            message = await self._receive()
            while message["type"] != "http.disconnect":
                # Nothing else can follow the body; if it does, the loop must stay free.
                await asyncio.sleep(0)
                message = await self._receive()
        except OSError:
            return

    async def _break_silences(self, sink: StreamSink, going: asyncio.Future[None]) -> None:
        now = asyncio.get_running_loop().time
        begun_s = now()
        while True:
            heard_s = max(begun_s, sink.last_sent_s)
            quiet_s = now() - heard_s
            done, _ = await asyncio.wait((going,), timeout=self._keepalive_s - quiet_s)
            if done:
                return
            if now() - max(begun_s, sink.last_sent_s) >= self._keepalive_s:
                await sink.keep_alive()
