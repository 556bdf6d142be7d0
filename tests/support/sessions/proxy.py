"""A TCP proxy that can be cut or frozen: simulates an outage of a service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.sites import free_port


class Proxy:
    """Forwards bytes to a service in its own thread, until it is stopped."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()

    def start(self) -> None:
        self._thread.start()
        self._run(self._heal())

    def stop(self) -> None:
        self._run(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Close every connection and take no further one."""
        self._run(self._cut())

    def freeze(self) -> None:
        """Keep every connection, accept further ones, and forward nothing."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        """End the outage."""
        self._run(self._heal())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _heal(self) -> None:
        self._flows.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._passing):
            task.cancel()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._passing:
            await asyncio.wait(self._passing)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            await self._flows.wait()
            answers, there = await asyncio.open_connection(*self._target)
            self._writers.add(there)
            ways = [
                asyncio.create_task(self._pass(reader, there)),
                asyncio.create_task(self._pass(answers, writer)),
            ]
            self._passing.update(ways)
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            self._passing.difference_update(ways)
        except OSError:
            pass
        finally:
            for each in filter(None, (writer, there)):
                self._writers.discard(each)
                each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


@contextmanager
def proxied(host: str, port: int) -> Iterator[Proxy]:
    """Run a proxy while the block does."""
    proxy = Proxy(host, port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
