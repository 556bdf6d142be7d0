"""Shake hands again and again and never say goodbye: what is kept of it, in rows and in memory, and how fast."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import usage
from tests.support import backends, sites
from tests.support.http.rawhttp import connect, post
from tests.support.sessions.cluster import SITE, serving
from tests.support.sessions.rows import Rows

BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "flood", "version": "1"},
        },
    }
).encode()
HEADERS = {
    "Host": "localhost",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def run(server: str, *, count: int, connections: int, user: str | None) -> int:
    """Print what each tenth of the flood left behind; return how many handshakes failed."""
    if missing := backends.missing_services():
        raise RuntimeError(f"sessions are kept in a database: {'; '.join(missing)}")
    host, port = backends.redis_address()
    with (
        backends.own_postgres("flood", SITE) as name,
        tempfile.TemporaryDirectory(prefix="flood-") as folder,
    ):
        # Connections are kept, as docs/howto/sessions.md advises.
        shared = backends.Backends(
            postgres=name,
            redis=f"redis://{host}:{port}/0 {name}",
            more={"SITE_CONN_MAX_AGE": "60"},
        )
        with serving(shared, Path(folder), server=server, count=1) as cluster:
            headers = {**HEADERS, **({"Authorization": f"Bearer {user}"} if user else {})}
            raw = post("/mcp", BODY, headers)
            return asyncio.run(_flood(cluster.workers[0], Rows(name=name), raw, count, connections))


async def _flood(
    worker: sites.Running, rows: Rows, raw: bytes, count: int, connections: int
) -> int:
    pid = worker.process.pid
    print("| handshakes | sessions kept | memory, MB | handshakes a second | failed |")
    print("| --- | --- | --- | --- | --- |")
    failed = 0
    await _open(worker, raw, connections * 4, connections)
    print(f"| {connections * 4} | {rows.count('session')} | {_megabytes(pid)} | | |", flush=True)
    for part in range(1, 11):
        begun_s = time.monotonic()
        failed += await _open(worker, raw, count // 10, connections)
        per_s = count / 10 / (time.monotonic() - begun_s)
        print(
            f"| {count * part // 10} | {rows.count('session')} | {_megabytes(pid)} |"
            f" {per_s:.0f} | {failed} |",
            flush=True,
        )
    if failed:
        print(worker.log.read_text(errors="replace")[-2000:], file=sys.stderr)
    return failed


def _megabytes(pid: int) -> str:
    found = usage.memory_kb(pid)
    return "?" if found is None else f"{found / 1000:.0f}"


async def _open(worker: sites.Running, raw: bytes, count: int, connections: int) -> int:
    """Shake hands so often; return how often that failed."""
    left = iter(range(count))

    async def visit() -> int:
        failed = 0
        async with connect(worker.host, worker.port) as client:
            for _ in left:
                answer = await client.ask(raw)
                failed += answer.status != 200 or "mcp-session-id" not in answer.headers
        return failed

    return sum(await asyncio.gather(*(visit() for _ in range(connections))))
