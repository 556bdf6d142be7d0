"""A TCP proxy that delays what passes through it, as a network between two machines does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float
) -> None:
    """Pass each piece on `delay_s` after it came; later pieces do not wait for earlier ones."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            due_s, piece = await pieces.get()
            await asyncio.sleep(due_s - loop.time())
            writer.write(piece)
            if not piece:
                writer.close()
                return

    writing = loop.create_task(write())
    with suppress(OSError):
        while piece := await reader.read(65536):
            pieces.put_nowait((loop.time() + delay_s, piece))
    pieces.put_nowait((loop.time() + delay_s, b""))
    await writing


@contextmanager
def delaying(host: str, port: int, delay_s: float) -> Iterator[int]:
    """Listen on a port that leads to `host` and `port`, `delay_s` further away each way."""
    ports: list[int] = []
    is_up, loop = threading.Event(), asyncio.new_event_loop()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection(host, port)
            try:
                await asyncio.gather(_relay(reader, back, delay_s), _relay(there, writer, delay_s))
            finally:
                writer.close()
                back.close()

    servers: list[asyncio.Server] = []

    async def serve() -> None:
        servers.append(await asyncio.start_server(connect, "127.0.0.1", 0))
        ports.append(servers[0].sockets[0].getsockname()[1])
        is_up.set()

    async def end() -> None:
        servers[0].close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        # All of them end before the loop does, so that nothing is left for the collector.
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        loop.create_task(serve())
        loop.run_forever()
        loop.run_until_complete(end())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_up.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
