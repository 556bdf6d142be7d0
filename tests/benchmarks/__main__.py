"""Serve the benchmark site, or measure it.

    python -m tests.benchmarks serve --server uvicorn --port 8000 [--tools 100] [--view]
    python -m tests.benchmarks run [--server uvicorn] [--tools 100] [--seconds 2] [--rounds 3] [--pin]
    python -m tests.benchmarks streams [--server uvicorn] [--streams 1000,2000] [--idle 20] [--workers 1] [--pin]
    python -m tests.benchmarks record [--server uvicorn] [--rate 1000] [--seconds 20] [--pin]
    python -m tests.benchmarks canary [--server uvicorn] [--workers 2] [--clients 200] [--rounds 30] [--steps 100]
    python -m tests.benchmarks flood [--server uvicorn] [--count 50000] [--connections 16] [--user ann]
    python -m tests.benchmarks prepare

`run` starts the site on both roads (the consumer and the plain view) and a bare ASGI floor, measures each
case in turn and goes through all of them `--rounds` times, so that noise falls on all alike. `streams`
opens that many streams of either era on fresh servers, which share them, and measures what they cost. `prepare` makes the
tables that are needed; the others do it themselves. The settings module says which
environment variables choose the database. `canary` has two users talk on several processes that share
PostgreSQL and Redis, and looks for what reaches the wrong one; it exits with 1 when anything does. `flood` opens sessions
that nobody ends, of nobody or of one user, and tells what a process and PostgreSQL keep of them. `record` calls a tool with and without
a record of the calls, and counts the rows; it exits with 1 when a call of the chosen rate is missing there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import canary, database, flood, load, recorded_load, streams, table
from tests.benchmarks.cases import CASES, CONSUMER, FLOOR, VIEW, Figures, check, import_ms, measure
from tests.support import sites

PACKAGE = "tests.benchmarks"
ASGI_SERVERS = ("uvicorn", "daphne")
IMPORTS = {
    "import django_mcp": ["import django_mcp"],
    "every name of django_mcp": [
        "import django_mcp",
        "for name in django_mcp.__all__: getattr(django_mcp, name)",
    ],
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.verb == "prepare":
        database.prepare()
        return 0
    if options.verb == "canary":
        astray = canary.run(
            options.server,
            workers=options.workers,
            clients=options.clients,
            rounds=options.rounds,
            steps=options.steps,
        )
        return 1 if astray else 0
    if options.verb == "flood":
        failed = flood.run(
            options.server,
            count=options.count,
            connections=options.connections,
            user=options.user,
        )
        return 1 if failed else 0
    _prepare()
    tools = getattr(options, "tools", None)
    extra = {"BENCH_TOOLS": str(tools)} if tools is not None else {}
    if options.verb == "serve":
        extra["BENCH_ROAD"] = VIEW if options.view else CONSUMER
        sites.serve(PACKAGE, options.server, host=options.host, port=options.port, extra=extra)
    try:
        if options.verb == "streams":
            return _run_streams(options)
        if options.verb == "record":
            return _run_record(options)
        return _run(options, extra)
    except RuntimeError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="serve the tools at /mcp until stopped")
    serve.add_argument("--server", choices=sites.SERVERS, default="uvicorn")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--tools", type=int, help="offer so many tools in all")
    serve.add_argument("--view", action="store_true", help="let the plain view take the endpoint")
    run = verbs.add_parser("run", help="start the sites, measure them and print a table")
    run.add_argument("--server", choices=ASGI_SERVERS, default="uvicorn")
    run.add_argument("--tools", type=int, default=100)
    run.add_argument("--seconds", type=int, default=2, help="of each load")
    run.add_argument("--rounds", type=int, default=3)
    run.add_argument(
        "--only", default="", help="the cases with this text, and what they are held to"
    )
    run.add_argument("--pin", action="store_true", help="servers on core 0, load on core 1")
    secrets = verbs.add_parser("canary", help="look for what reaches the wrong user")
    secrets.add_argument("--server", choices=ASGI_SERVERS, default="uvicorn")
    secrets.add_argument("--workers", type=int, default=2)
    secrets.add_argument("--clients", type=int, default=200)
    secrets.add_argument("--rounds", type=int, default=30, help="of each client")
    secrets.add_argument("--steps", type=int, default=100, help="progress messages of each call")
    of_sessions = verbs.add_parser("flood", help="open sessions that nobody ends")
    of_sessions.add_argument("--server", choices=ASGI_SERVERS, default="uvicorn")
    of_sessions.add_argument("--count", type=int, default=50_000)
    of_sessions.add_argument("--connections", type=int, default=16)
    of_sessions.add_argument("--user", choices=("ann", "bob"), help="of one user, not of nobody")
    of_streams = verbs.add_parser("streams", help="open many streams and measure what they cost")
    of_streams.add_argument("--server", choices=ASGI_SERVERS, default="uvicorn")
    of_streams.add_argument("--streams", default="1000,2000", help="how many, with commas")
    of_streams.add_argument("--idle", type=float, default=20, help="seconds to watch them idle")
    of_streams.add_argument("--workers", type=int, default=1, help="processes that share them")
    of_streams.add_argument("--pin", action="store_true", help="server on core 0, load on core 1")
    of_calls = verbs.add_parser("record", help="see whether all calls are recorded, and their cost")
    of_calls.add_argument("--server", choices=ASGI_SERVERS, default="uvicorn")
    of_calls.add_argument("--rate", type=int, default=1000, help="calls a second")
    of_calls.add_argument("--seconds", type=int, default=20, help="of each load")
    of_calls.add_argument("--pin", action="store_true", help="server on core 0, load on core 1")
    verbs.add_parser("prepare", help="make the tables")
    return parser


def _prepare() -> None:
    """Make the tables in a process of its own: this one never loads Django."""
    subprocess.run([sys.executable, "-m", PACKAGE, "prepare"], cwd=sites.ROOT, check=True)


def _run(options: argparse.Namespace, extra: Mapping[str, str]) -> int:
    server_core, load_core = (0, 1) if options.pin and _may_pin() else (None, None)
    chosen = [case for case in CASES if options.only in case.name]
    needed = {case.against for case in chosen}
    chosen = [case for case in CASES if case in chosen or case.name in needed]
    found: dict[str, list[Figures]] = {case.name: [] for case in chosen}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))
        running = {
            name: stack.enter_context(
                sites.running(
                    PACKAGE,
                    options.server,
                    module="floor" if name == FLOOR else None,
                    log=folder / f"{name}.log",
                    extra={**extra, "BENCH_ROAD": name},
                    wrapper=["taskset", "-c", str(server_core)] if server_core is not None else [],
                )
            )
            for name in dict.fromkeys(case.site for case in chosen)
        }
        for case in chosen:
            check(case, running[case.site])
        load.pin(load_core)
        for number in range(options.rounds):
            for case in chosen:
                print(f"round {number + 1}: {case.name}", file=sys.stderr)
                site = running[case.site]
                figures = measure(case, site, seconds=options.seconds, core=load_core)
                found[case.name].append(figures)
    print(table.conditions(options.server, options.tools, pinned=load_core is not None))
    print(table.of_cases(chosen, found))
    if not options.only:
        rows = {name: import_ms(lines, rounds=options.rounds) for name, lines in IMPORTS.items()}
        print(table.of_imports(rows))
    return 1 if any(figures.errors for each in found.values() for figures in each) else 0


def _run_streams(options: argparse.Namespace) -> int:
    is_pinned = options.pin and _may_pin()
    counts = [int(text) for text in options.streams.split(",")]
    lines = streams.run(
        options.server,
        counts,
        options.idle,
        wrapper=["taskset", "-c", "0"] if is_pinned else [],
        workers=options.workers,
    )
    print("\n".join(lines))
    return 0


def _run_record(options: argparse.Namespace) -> int:
    is_pinned = options.pin and _may_pin()
    astray = recorded_load.run(
        options.server,
        rate=options.rate,
        seconds=options.seconds,
        wrapper=["taskset", "-c", "0"] if is_pinned else [],
        core=1 if is_pinned else None,
    )
    return 1 if astray else 0


def _may_pin() -> bool:
    return shutil.which("taskset") is not None and {0, 1} <= os.sched_getaffinity(0)


if __name__ == "__main__":
    sys.exit(main())
