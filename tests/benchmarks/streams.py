"""What open streams cost: memory and processor time while idle, and the time of one change to all.

python -m tests.benchmarks streams [--server uvicorn] [--streams 1000,2000] [--idle 20]
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import load, messages, usage
from tests.benchmarks.messages import LEGACY, MODERN
from tests.support import sites

URI = "bench://shared"
MARKER = b"notifications/resources/updated"
AT_ONCE = 20
ROUNDS = 5
OPEN_LIMIT_S = 300.0
TOLD_LIMIT_S = 30.0

COLUMNS = (
    "streams",
    "opened per second",
    "KB each",
    "idle CPU %",
    "last told, ms",
    "CPU us each told",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one number of streams of one kind cost; None where there is no /proc to ask."""

    name: str
    opened_per_s: float
    kb_each: float | None
    idle_percent: float | None
    last_ms: float
    cpu_us_each: float | None

    def row(self) -> str:
        values = (
            self.opened_per_s,
            self.kb_each,
            self.idle_percent,
            self.last_ms,
            self.cpu_us_each,
        )
        texts = ["" if value is None else f"{value:,.3g}" for value in values]
        return f"| {' | '.join([self.name, *texts])} |"


class _Reader(asyncio.Protocol):
    """The client of one stream: counts the changes it is told of."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._rest = b""
        self.told = 0
        self.last_s = 0.0
        self._received: asyncio.Future[None] | None = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            if data.startswith(b"HTTP/1.1 200"):
                self.opened.set_result(None)
            else:
                self.opened.set_exception(RuntimeError(f"no stream: {data[:300]!r}"))
        text = self._rest + data
        if MARKER in text:
            self.told += text.count(MARKER)
            self.last_s = time.perf_counter()
            if self._received is not None and not self._received.done():
                self._received.set_result(None)
        self._rest = text[-len(MARKER) + 1 :].rpartition(MARKER)[2]

    async def receive(self) -> None:
        """Wait until it is told of a change, since `told` was set to 0."""
        if not self.told:
            self._received = asyncio.get_running_loop().create_future()
            await self._received

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed before it was open"))


async def _listen(port: int, number: int) -> _Reader:
    params = {"notifications": {"resourceSubscriptions": [URI]}}
    asked = messages.request(port, "subscriptions/listen", params, revision=MODERN)
    return await _open(port, asked.numbered(number))


async def _subscribe(port: int, number: int) -> _Reader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        session = await load.open_session(port, reader, writer)
        asked = messages.request(
            port, "resources/subscribe", {"uri": URI}, revision=LEGACY, session=session
        )
        await load.exchange(reader, writer, asked.numbered(number))
    finally:
        writer.close()
    return await _open(port, messages.standalone_stream(port, session))


async def _open(port: int, request: bytes) -> _Reader:
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_connection(lambda: _Reader(request), "127.0.0.1", port)
    await reader.opened
    return reader


KINDS = {"2026-07-28, listening": _listen, "2025-11-25, on sessions": _subscribe}


def run(
    server: str, counts: Sequence[int], idle_s: float, wrapper: Sequence[str], workers: int = 1
) -> list[str]:
    """Measure each kind and number of streams on fresh processes that share them; return a table."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (len(COLUMNS) - 1)]
    for kind, opener in KINDS.items():
        for count in counts:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-"))
                running = [
                    stack.enter_context(
                        sites.running(
                            "tests.benchmarks",
                            server,
                            log=Path(folder, f"server{number}.log"),
                            wrapper=wrapper,
                        )
                    )
                    for number in range(workers)
                ]
                name = f"{count}, {kind}" + (f", {workers} processes" if workers > 1 else "")
                lines.append(asyncio.run(_measure(running, name, opener, count, idle_s)).row())
    return lines


async def _measure(
    running: Sequence[sites.Running],
    name: str,
    opener: Callable[[int, int], Awaitable[_Reader]],
    count: int,
    idle_s: float,
) -> Found:
    gate = asyncio.Semaphore(AT_ONCE)
    pids = [site.process.pid for site in running]

    async def one(number: int) -> _Reader:
        async with gate:
            return await opener(running[number % len(running)].port, number)

    # What is loaded with the first streams belongs to no stream.
    warm = await asyncio.gather(*(one(number) for number in range(AT_ONCE)))
    memory_kb, began = _sum(usage.memory_kb, pids), time.perf_counter()
    async with asyncio.timeout(OPEN_LIMIT_S):
        opened = await asyncio.gather(*(one(AT_ONCE + number) for number in range(count)))
    opened_per_s = count / (time.perf_counter() - began)
    await asyncio.sleep(1)
    kb_each = _each(_sum(usage.memory_kb, pids), memory_kb, count)
    cpu = _sum(usage.cpu_seconds, pids)
    await asyncio.sleep(idle_s)
    idle = _each(_sum(usage.cpu_seconds, pids), cpu, idle_s)
    cpu = _sum(usage.cpu_seconds, pids)
    lasts = [await _tell(running[0].port, [*warm, *opened]) for _ in range(ROUNDS)]
    told = _each(_sum(usage.cpu_seconds, pids), cpu, ROUNDS * (count + AT_ONCE))
    for reader in (*warm, *opened):
        if reader.transport is not None:
            reader.transport.abort()
    return Found(
        name=name,
        opened_per_s=opened_per_s,
        kb_each=kb_each,
        idle_percent=None if idle is None else idle * 100,
        last_ms=sorted(lasts)[ROUNDS // 2] * 1e3,
        cpu_us_each=None if told is None else told * 1e6,
    )


async def _tell(port: int, readers: Sequence[_Reader]) -> float:
    """Change the resource once; return the seconds until the last stream has received it."""
    for each in readers:
        each.told = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.perf_counter()
    try:
        asked = messages.call(port, "notify", {"uri": URI}, revision=MODERN)
        await load.exchange(reader, writer, asked.numbered(0))
        async with asyncio.timeout(TOLD_LIMIT_S):
            await asyncio.gather(*(each.receive() for each in readers))
    finally:
        writer.close()
    return max(each.last_s for each in readers) - began


def _sum(read: Callable[[int], float | None], pids: Sequence[int]) -> float | None:
    found = [read(pid) for pid in pids]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _each(after: float | None, before: float | None, count: float) -> float | None:
    return None if after is None or before is None else (after - before) / count
