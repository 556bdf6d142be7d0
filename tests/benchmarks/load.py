"""Put a bounded load on a server of this machine: with wrk where it is installed, else in Python."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.benchmarks import messages
from tests.benchmarks.messages import LEGACY, Request

SCRIPT = Path(__file__).with_name("wrk.lua")
ANSWER_LIMIT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What one run did; latencies are those that the client saw."""

    requests: int
    errors: int
    wall_s: float
    p50_ms: float
    p99_ms: float


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def run(
    port: int, request: Request, *, connections: int, seconds: int, core: int | None = None
) -> Load:
    """Send the request over keep-alive connections for so many seconds, on one core when given."""
    if has_wrk():
        return _wrk(port, request, connections, seconds, core)
    pin(core)
    return asyncio.run(_python(port, request, connections, seconds))


def pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def _wrk(port: int, request: Request, connections: int, seconds: int, core: int | None) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        before.write_bytes(request.before)
        after.write_bytes(request.after)
        wrapper = ["taskset", "-c", str(core)] if core is not None else []
        options = ["-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={ANSWER_LIMIT_S:.0f}s"]
        url = f"http://127.0.0.1:{port}{request.path}"
        output = subprocess.run(
            [*wrapper, "wrk", *options, "-s", str(SCRIPT), url, "--", str(before), str(after)],
            capture_output=True,
            text=True,
            timeout=seconds + 2 * ANSWER_LIMIT_S,
            check=False,
        ).stdout
    found = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"wrk said: {output[-500:]}")
    requests, wall_us, p50_us, p99_us, errors = map(int, found.groups())
    return Load(
        requests=requests,
        errors=errors,
        wall_s=wall_us / 1e6,
        p50_ms=p50_us / 1e3,
        p99_ms=p99_us / 1e3,
    )


def run_paced(port: int, request: Request, *, connections: int, per_s: int, seconds: int) -> Load:
    """Send so many requests a second, no more and each answered: what the server was asked is known."""
    return asyncio.run(_python(port, request, connections, seconds, per_s))


async def _python(
    port: int, request: Request, connections: int, seconds: int, per_s: int | None = None
) -> Load:
    began = time.perf_counter()
    numbers, latencies, failures = count(1), list[float](), list[str]()

    def is_over(number: int) -> bool:
        if per_s is not None:
            return number > per_s * seconds
        return time.perf_counter() >= began + seconds

    async def keep_asking() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while not is_over(number := next(numbers)):
                if per_s is not None:
                    await asyncio.sleep(began + number / per_s - time.perf_counter())
                sent = time.perf_counter()
                status, _ = await _exchange(reader, writer, request.numbered(number))
                latencies.append(time.perf_counter() - sent)
                if status != 200:
                    failures.append(f"HTTP {status}")
        except (OSError, EOFError, TimeoutError) as error:
            failures.append(repr(error))
        finally:
            writer.close()

    await asyncio.gather(*(keep_asking() for _ in range(connections)))
    return Load(
        requests=len(latencies),
        errors=len(failures),
        wall_s=time.perf_counter() - began,
        p50_ms=_percentile(latencies, 50) * 1e3,
        p99_ms=_percentile(latencies, 99) * 1e3,
    )


def _percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100)[percent - 1]


async def ask_once(port: int, request: Request) -> tuple[int, bytes]:
    """Send the request once and return its status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await _exchange(reader, writer, request.numbered(0))
    finally:
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes
) -> tuple[int, bytes]:
    status, _, body = await exchange(reader, writer, message)
    return status, body


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes
) -> tuple[int, bytes, bytes]:
    """Send a request and return the status, the head and the body of the answer."""
    async with asyncio.timeout(ANSWER_LIMIT_S):
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if length := re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE):
            return status, head, await reader.readexactly(int(length[1]))
        return status, head, await _chunks(reader)


async def open_session(
    port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str:
    """Shake hands and return the id of the session."""
    opening = messages.handshake(port).numbered(0)
    status, head, body = await exchange(reader, writer, opening)
    found = re.search(rb"\r\nmcp-session-id: *([^\r]+)", head, re.IGNORECASE)
    if found is None:
        raise RuntimeError(f"no session: HTTP {status}: {body[:300]!r}")
    session = found[1].decode()
    await exchange(reader, writer, messages.initialized(port, session))
    return session


def session_at(port: int) -> str:
    """Open a session on a connection of its own and return its id."""

    async def go() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await open_session(port, reader, writer)
        finally:
            writer.close()

    return asyncio.run(go())


def handshakes(port: int, *, connections: int, seconds: float) -> Load:
    """Open sessions and list their tools for so many seconds; each round is one operation."""
    listing = messages.request(port, "tools/list", {}, revision=LEGACY, session="{session}")
    latencies: list[float] = []

    async def keep_opening() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while time.perf_counter() < began + seconds:
                sent = time.perf_counter()
                session = await open_session(port, reader, writer)
                asked = listing.numbered(1).replace(b"{session}", session.encode())
                await exchange(reader, writer, asked)
                latencies.append(time.perf_counter() - sent)
        finally:
            writer.close()

    async def go() -> None:
        await asyncio.gather(*(keep_opening() for _ in range(connections)))

    began = time.perf_counter()
    asyncio.run(go())
    return Load(
        requests=len(latencies),
        errors=0,
        wall_s=time.perf_counter() - began,
        p50_ms=_percentile(latencies, 50) * 1e3,
        p99_ms=_percentile(latencies, 99) * 1e3,
    )


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        body += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return body


async def count_events(port: int, requests: Sequence[Request], marker: bytes) -> int:
    """Send all requests at once, each on a connection that closes, and count the marker in the answers."""

    async def one(number: int, request: Request) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        found, rest = 0, b""
        try:
            writer.write(request.numbered(number))
            while data := await reader.read(2**16):
                text = rest + data
                found += text.count(marker)
                rest = text[-len(marker) + 1 :]
        finally:
            writer.close()
        return found

    async with asyncio.timeout(ANSWER_LIMIT_S):
        return sum(await asyncio.gather(*(one(n, each) for n, each in enumerate(requests, 1))))
