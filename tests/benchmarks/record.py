"""What the record of a call costs in versions of this repository, in microseconds of processor time.

    python -m tests.benchmarks.record [VERSION ...] [--rounds 40] [--batch 200] [--sessions 20]

Each is a commit, or a folder with a checkout; without one, the working tree is measured. All run with the interpreter
and the packages that run this command. A call of each kind is made in each of the sessions, and what the server tells
its recorder of them is told again and again: "call" is the time that this takes on the thread of the call, "writer" what
it takes to write the batch, which is the time of another thread; on SQLite it includes the database. The versions
take turns, and the cheapest batch is printed, since other work on the machine only adds to it. "more" is what the last
version takes more than the first.

Beside this, a recorded call reads the clock twice on its thread. `BENCH_DB=postgresql` measures there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INSIDE = "import runpy; runpy.run_path({file!r})['measure_inside']()"

FINE = {"query": "red tulips", "limit": 20, "tags": ["spring", "bulb"]}
KINDS = {
    "done, no session": ("find", [FINE]),
    "done": ("find", [FINE]),
    "done, each with another argument": ("find", [FINE, {**FINE, "query": "blue tulips"}]),
    "arguments refused": ("find", [{**FINE, "limit": "many"}]),
    "fault": ("fail", [FINE]),
}
"""The tool, and the arguments with which each session calls it in turn."""

WARM_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.record")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="a commit or a folder")
    parser.add_argument("--rounds", type=int, default=40, help="batches of each kind")
    parser.add_argument("--batch", type=int, default=200, help="calls that are written together")
    parser.add_argument("--sessions", type=int, default=20, help="that call in turn")
    options = parser.parse_args(arguments)
    # The other tree, where this file runs too, may not have it.
    from tests.benchmarks.compare import checked_out

    versions = options.versions or ["."]
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        sides = []
        for number, version in enumerate(versions):
            tree = stack.enter_context(checked_out(version))
            sides.append(stack.enter_context(_started(tree, number, options.sessions)))
        for number in range(-WARM_ROUNDS, options.rounds):
            for kind, batches in found.items():
                costs = [_ask(side, kind, options.batch) for side in sides]
                if number >= 0:
                    batches.append([cost for pair in costs for cost in pair])
    heads = [f"{version}: {part}" for version in versions for part in ("call", "writer")]
    if len(versions) > 1:
        heads += ["more: call", "writer", "both"]
    print("| us |", *(f"{head} |" for head in heads))
    print("|---|" + "---:|" * len(heads))
    for kind, batches in found.items():
        costs_us = [min(column) for column in zip(*batches, strict=True)]
        if len(versions) > 1:
            call, writer = costs_us[-2] - costs_us[0], costs_us[-1] - costs_us[1]
            costs_us += [call, writer, call + writer]
        print(f"| {kind} |", *(f"{cost:.1f} |" for cost in costs_us))
    return 0


@contextmanager
def _started(tree: Path, number: int, sessions: int) -> Iterator[subprocess.Popen[str]]:
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        child = subprocess.Popen(
            # This file itself, since the other tree may not have it.
            [sys.executable, "-c", INSIDE.format(file=__file__), str(number), str(sessions)],
            cwd=tree,
            env={
                **os.environ,
                "PYTHONPATH": str(tree),
                "PYTHONHASHSEED": "0",
                "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings",
                "BENCH_DATA": folder,
                "BENCH_RECORD": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        try:
            yield child
        finally:
            child.stdin.close()
            child.wait()


def _ask(child: subprocess.Popen[str], kind: str, batch: int) -> tuple[float, float]:
    assert child.stdin is not None
    assert child.stdout is not None
    print(json.dumps([kind, batch]), file=child.stdin, flush=True)
    line = child.stdout.readline()
    if not line:
        raise RuntimeError("a process ended")
    call, writer = json.loads(line)
    return call, writer


# -- in a process of the measured tree


def measure_inside() -> None:
    """Record calls as standard input asks for, and write what they cost to standard output."""
    from django.conf import settings

    number, sessions = map(int, sys.argv[1:])
    name = f"bench_record_{number}"
    if os.environ.get("BENCH_DB") != "postgresql":
        name = str(Path(os.environ["BENCH_DATA"], name))
    # Its tables are made without migrations, of which the versions have different ones.
    settings.DATABASES["default"]["TEST"] = {"NAME": name, "MIGRATE": False}
    # Without a thread that writes, this one writes when it is told to.
    settings.DJANGO_MCP |= {"SYNC_THREADS": 0, "RECORDED_CALLS_PER_MINUTE": 10**9}
    heard: list[Callable[[], object]] = []
    # Before the modules are loaded that take these functions.
    _listen(heard, "django_mcp.calls.recorder", "record_call")
    if find_spec("django_mcp.calls.traces"):
        _listen(heard, "django_mcp.calls.traces", "trace_error")
    import django

    django.setup()
    logging.disable()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        told = asyncio.run(_make_calls(sessions, heard))
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            kind, batch = json.loads(line)
            print(json.dumps(_measure(told[kind], batch)), flush=True)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def _listen(heard: list[Callable[[], object]], module: str, name: str) -> None:
    """Let a function of a module add its calls to a list, to be made again."""
    function = getattr(import_module(module), name)

    def tell(*values: Any) -> Any:
        heard.append(lambda: function(*values))
        return function(*values)

    setattr(sys.modules[module], name, tell)


def _measure(told: Sequence[Callable[[], object]], batch: int) -> tuple[float, float]:
    from django_mcp.calls.recorder import flush_calls

    start_s = time.thread_time()
    for at in range(batch):
        told[at % len(told)]()
    told_s = time.thread_time()
    flush_calls()
    written_s = time.thread_time()
    return (told_s - start_s) / batch * 1e6, (written_s - told_s) / batch * 1e6


async def _make_calls(
    sessions: int, heard: list[Callable[[], object]]
) -> dict[str, list[Callable[[], object]]]:
    """Return what tells the recorder again of calls of each kind."""
    from django_mcp import tool
    from django_mcp.calls.recorder import flush_calls
    from tests.benchmarks.compare import to_asgi
    from tests.benchmarks.messages import LEGACY, MODERN, call, handshake

    @tool
    async def find(query: str, limit: int = 10, tags: list[str] | None = None) -> str:
        return f"{limit} of {query}"

    @tool
    async def fail(query: str, limit: int = 10, tags: list[str] | None = None) -> str:
        raise ValueError(query)

    from tests.benchmarks.asgi import application

    keys = []
    for _ in range(sessions):
        head, *_rest = await _ask_inside(application, *to_asgi(handshake(0)))
        keys.append(dict(head["headers"])[b"mcp-session-id"].decode())
    told: dict[str, list[Callable[[], object]]] = {}
    for kind, (name, arguments) in KINDS.items():
        hows: list[dict[str, str]] = [{"revision": LEGACY, "session": key} for key in keys]
        if kind == "done, no session":
            hows = [{"revision": MODERN}]
        heard.clear()
        told[kind] = []
        for each in arguments:
            for how in hows:
                await _ask_inside(application, *to_asgi(call(0, name, each, **how)))
                told[kind].append(partial(_call_all, tuple(heard)))
                heard.clear()
    flush_calls()
    return told


def _call_all(functions: Sequence[Callable[[], object]]) -> None:
    for function in functions:
        function()


async def _ask_inside(application: Any, scope: dict[str, object], body: bytes) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(dict(scope), receive, send)
    if sent[0]["status"] != 200:
        raise RuntimeError(f"the server answered {sent}")
    return sent


if __name__ == "__main__":
    sys.exit(main())
