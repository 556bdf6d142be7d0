"""Compare a tool that gets its transaction from the package with one that opens it: `python -m tests.benchmarks.atomic`.

Each pair of tools has the same body, which does nothing, reads a row or writes one. The ASGI application is
called in process, one call after the other. The two take turns, batch by batch; the table tells the median of
the ratios of their processor time, and its quartiles. Above 1, the transaction of the package costs more. Those of
PostgreSQL leave its own processes out.

    python -m tests.benchmarks.atomic [--pairs 60] [--calls 50] [--database sqlite --database postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tests.benchmarks.messages import MODERN, call

KEPT_S = ("0", "60")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.atomic")
    parser.add_argument("--pairs", type=int, default=60, help="of batches of each body")
    parser.add_argument("--calls", type=int, default=50, help="of each batch")
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"])
    options = parser.parse_args()
    for database in options.database or ["sqlite", "postgresql"]:
        for kept_s in KEPT_S:
            with tempfile.TemporaryDirectory(prefix="atomic-") as folder:
                more = {"BENCH_DB": database, "BENCH_KEPT": kept_s, "BENCH_DATA": folder}
                script = (
                    "from tests.benchmarks.atomic import measure; "
                    f"measure({options.pairs}, {options.calls})"
                )
                subprocess.run(
                    [sys.executable, "-c", script], env={**os.environ, **more}, check=True
                )


def measure(pairs: int, calls: int) -> None:
    """Print the ratios of the database that the environment names."""
    from tests.benchmarks.database import prepare

    prepare()
    # Models and the default server may be imported once the apps are loaded.
    from django.conf import settings
    from django.db import transaction

    from django_mcp import tool
    from tests.benchmarks.models import Item

    def nothing() -> None:
        """Leave the transaction empty."""

    def read() -> None:
        Item.objects.get(pk=1)

    def write() -> None:
        Item.objects.filter(pk=1).update(price=3)

    def register(body: Callable[[], None]) -> None:
        @tool(name=f"{body.__name__}_given")
        def given() -> str:
            body()
            return "done"

        @tool(name=f"{body.__name__}_opened", atomic=False)
        def opened() -> str:
            with transaction.atomic():
                body()
            return "done"

    for body in (nothing, read, write):
        register(body)
        ratios = asyncio.run(_compare(body.__name__, pairs, calls))
        low, middle, high = statistics.quantiles(ratios, n=4)
        database = settings.DATABASES["default"]
        print(
            f"{database['ENGINE'].rpartition('.')[2]}, CONN_MAX_AGE {database['CONN_MAX_AGE']}, "
            f"{body.__name__}: {middle:.3f} ({low:.3f} to {high:.3f})",
            flush=True,
        )


async def _compare(name: str, pairs: int, calls: int) -> list[float]:
    given, opened = f"{name}_given", f"{name}_opened"
    for each in (given, opened):
        await _spend(each, calls)
    ratios = []
    for at in range(pairs):
        # Neither is always the first.
        order = (given, opened) if at % 2 else (opened, given)
        spent = {each: await _spend(each, calls) for each in order}
        ratios.append(spent[given] / spent[opened])
    return ratios


async def _spend(name: str, calls: int) -> float:
    """Return the processor time of so many calls."""
    from tests.benchmarks.asgi import application
    from tests.benchmarks.compare import to_asgi

    scope, body = to_asgi(call(0, name, {}, revision=MODERN))

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, object]) -> None:
        assert message.get("status", 200) == 200
        assert b'"isError":true' not in message.get("body", b"")  # type: ignore[operator]

    begun = time.process_time()
    for _ in range(calls):
        await application(dict(scope), receive, send)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
