"""Call a tool with and without a record of the calls: what is recorded, what is lost, and what it costs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import load, usage
from tests.benchmarks.messages import MODERN, call
from tests.support import sites

PACKAGE = "tests.benchmarks"
CONNECTIONS = 16
SETTLE_S = 3.0
"""Longer than calls wait for the thread that writes them."""

COUNT = """
import django; django.setup()
from django.db.models import Sum
from django_mcp.models import CallRecord, CallTally
tallied = CallTally.objects.filter(width=15).aggregate(calls=Sum("calls"))["calls"]
print([CallRecord.objects.count(), tallied or 0])
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What became of the calls of one load; CPU is the server's, None where unknown."""

    calls: int
    per_s: float
    errors: int
    p99_ms: float
    rows: int
    tallied: int
    cpu_ms_each: float | None


def run(server: str, *, rate: int, seconds: int, wrapper: list[str], core: int | None) -> int:
    """Print a table; return how many calls were lost, or failed."""
    print(
        "| load | recorded | calls | per second | p99, ms | rows | tallied | lost | CPU, ms each |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    astray = 0
    for name, per_s in ((f"{rate:,} a second", rate), ("all that it takes", None)):
        for is_recorded in (False, True):
            found = _measure(server, is_recorded, per_s, seconds, wrapper, core)
            lost = max(0, found.calls - found.rows) if is_recorded else 0
            cpu = "" if found.cpu_ms_each is None else f"{found.cpu_ms_each:.3f}"
            print(
                f"| {name} | {'yes' if is_recorded else 'no'} | {found.calls:,} | {found.per_s:,.0f} |"
                f" {found.p99_ms:.1f} | {found.rows:,} | {found.tallied:,} | {lost:,} | {cpu} |",
                flush=True,
            )
            # What a server cannot take of the second load is no fault.
            astray += found.errors + abs(found.rows - found.tallied)
            astray += lost if per_s is not None else 0
    return astray


def _measure(
    server: str,
    is_recorded: bool,
    per_s: int | None,
    seconds: int,
    wrapper: list[str],
    core: int | None,
) -> Recording:
    extra = {"BENCH_RECORD": "1" if is_recorded else ""}
    before = _count(extra)
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        log = Path(folder, "server.log")
        with sites.running(PACKAGE, server, log=log, extra=extra, wrapper=wrapper) as site:
            pid = site.process.pid
            built = call(site.port, "aecho", {"text": "hello world"}, revision=MODERN)
            status, body = asyncio.run(load.ask_once(site.port, built))
            if status != 200:
                raise RuntimeError(f"HTTP {status}: {body[:300]!r}")
            cpu = usage.cpu_seconds(pid)
            if per_s is None:
                # wrk leaves when the time is over: a few calls more than it counts may be recorded.
                found = load.run(
                    site.port, built, connections=CONNECTIONS, seconds=seconds, core=core
                )
            else:
                load.pin(core)
                found = load.run_paced(
                    site.port, built, connections=CONNECTIONS, per_s=per_s, seconds=seconds
                )
            time.sleep(SETTLE_S)
            used = usage.cpu_seconds(pid)
        if said := log.read_text(errors="replace").strip():
            print(sites.tail(log) if len(said) > 2000 else said, file=sys.stderr)
    after = _count(extra)
    return Recording(
        # And the one that was looked at.
        calls=found.requests + 1,
        per_s=found.requests / found.wall_s,
        errors=found.errors,
        p99_ms=found.p99_ms,
        rows=after[0] - before[0],
        tallied=after[1] - before[1],
        cpu_ms_each=None
        if cpu is None or used is None
        else (used - cpu) * 1e3 / max(1, found.requests),
    )


def _count(extra: Mapping[str, str]) -> list[int]:
    """Return the calls in the database, and those that are tallied; in a process that loads Django."""
    output = subprocess.run(
        [sys.executable, "-c", COUNT],
        cwd=sites.ROOT,
        env=sites.environment(PACKAGE, extra),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    counts: list[int] = json.loads(output)
    return counts
