"""Compare what a stateless call costs in two checkouts of this repository, in processor time.

    python -m tests.benchmarks.compare TREE TREE [--rounds 5] [--in-process]

The second tree is held to the first: above 1, it costs more. In each round both run in fresh
processes pinned to core 1, while the load comes from core 0. The two take turns, batch by small
batch, so that what else the machine does falls on both alike; what it adds is left out by looking at
the cheapest tenth of the batches. The table tells the median of the rounds, and their range.

Over a socket, uvicorn serves the benchmark site, and 16 connections send one request each at a time.
In process, the ASGI application is called directly, one call after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmarks.messages import MODERN, Request, call, request

CONNECTIONS = 16
START_LIMIT_S = 30.0
SERVER_CORE, LOAD_CORE = 1, 0
TEXT = {"text": "hello world"}
REQUESTS = {
    "call, async tool": call(0, "aecho", TEXT, revision=MODERN),
    "call, sync tool": call(0, "echo", TEXT, revision=MODERN),
    "list": request(0, "tools/list", {}, revision=MODERN),
}
PREPARE = "from tests.benchmarks.database import prepare; prepare()"
INSIDE = "from runpy import run_path; run_path({file!r})['call_inside']()"

Run = Callable[[str, int], None]
"""Make so many calls of a kind."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare")
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=150, help="of each kind in each round")
    parser.add_argument("--calls", type=int, default=160, help="of each batch")
    parser.add_argument("--in-process", action="store_true", help="without a server or sockets")
    parser.add_argument("--only", default="", help="the kinds of calls with this text")
    options = parser.parse_args(arguments)
    trees: list[Path] = [tree.resolve() for tree in options.trees]
    start = _started_inside if options.in_process else _served
    os.sched_setaffinity(0, {LOAD_CORE})
    found: dict[str, list[tuple[float, float]]] = {
        name: [] for name in REQUESTS if options.only in name
    }
    for number in range(options.rounds):
        with ExitStack() as stack:
            sides = [stack.enter_context(start(tree)) for tree in trees]
            for name, rounds in found.items():
                for pid, run in sides:
                    _cost(pid, run, name, options.calls)
                rounds.append(_alternate(sides, name, options.batches, options.calls))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print(f"| | {trees[0].name}, µs | {trees[1].name}, µs | ratio | of the rounds |")
    print("|---|---:|---:|---:|---|")
    for name, rounds in found.items():
        old, new = (statistics.median(side) for side in zip(*rounds, strict=True))
        ratios = sorted(after / before for before, after in rounds)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        print(f"| {name} | {old:.1f} | {new:.1f} | {statistics.median(ratios):.3f} | {spread} |")
    return 0


def _alternate(
    sides: Sequence[tuple[int, Run]], name: str, batches: int, calls: int
) -> tuple[float, float]:
    """Return the microseconds of a call of the two sides, in the cheapest tenth of their batches."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(batches):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            found[side].append(_cost(*sides[side], name, calls))
    old, new = (statistics.quantiles(each, n=10)[0] for each in found)
    return old, new


def _cost(pid: int, run: Run, name: str, calls: int) -> float:
    # The clock of another process: /proc tells only hundredths of a second. See clock_getcpuclockid(3).
    clock = ~pid << 3 | 2
    before_s = time.clock_gettime(clock)
    run(name, calls)
    return (time.clock_gettime(clock) - before_s) / calls * 1e6


def _environment(tree: Path, folder: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings",
        "BENCH_DATA": folder,
    }


def _pinned(*arguments: str) -> list[str]:
    return ["taskset", "-c", str(SERVER_CORE), sys.executable, *arguments]


# -- over a socket


@contextmanager
def _served(tree: Path) -> Iterator[tuple[int, Run]]:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        environment, port = _environment(tree, folder), _free_port()
        subprocess.run(_pinned("-c", PREPARE), cwd=tree, env=environment, check=True)
        target = ["uvicorn", "tests.benchmarks.asgi:application", "--port", str(port)]
        quiet = ["--no-access-log", "--log-level", "warning"]
        server = subprocess.Popen(_pinned("-m", *target, *quiet), cwd=tree, env=environment)
        try:
            clients = [_connect(port) for _ in range(CONNECTIONS)]
            yield server.pid, lambda name, calls: _send(clients, REQUESTS[name], calls)
            for client in clients:
                client.close()
        finally:
            server.terminate()
            server.wait()


def _free_port() -> int:
    # Not that of `tests.support`: in process, this file runs where the other tree's modules are.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _connect(port: int) -> socket.socket:
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def _send(clients: Sequence[socket.socket], built: Request, calls: int) -> None:
    """Send so many requests; each connection sends its next when it has its answer."""
    selector, sent, answered = selectors.DefaultSelector(), 0, 0
    for client in clients:
        selector.register(client, selectors.EVENT_READ, (client, bytearray()))
        client.sendall(built.numbered(sent := sent + 1))
    while answered < sent:
        for key, _ in selector.select():
            client, got = key.data
            got += client.recv(65536)
            if not _is_complete(got):
                continue
            got.clear()
            answered += 1
            if sent < calls:
                client.sendall(built.numbered(sent := sent + 1))


def _is_complete(answer: bytearray) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head)
    if not end or length is None or len(body) < int(length[1]):
        return False
    if not head.startswith(b"HTTP/1.1 200 ") or b'"isError":true' in body:
        raise RuntimeError(f"the server answered {bytes(answer[:500])!r}")
    return True


# -- in process


@contextmanager
def _started_inside(tree: Path) -> Iterator[tuple[int, Run]]:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        # This file itself, since the other tree may not have it.
        child = subprocess.Popen(
            _pinned("-c", INSIDE.format(file=__file__)),
            cwd=tree,
            env=_environment(tree, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        orders, answers = child.stdin, child.stdout

        def run(name: str, calls: int) -> None:
            print(name, calls, sep=":", file=orders, flush=True)
            if not answers.readline():
                raise RuntimeError("the process ended")

        try:
            yield child.pid, run
        finally:
            child.terminate()
            child.wait()


def call_inside() -> None:
    """Make the calls that standard input asks for; runs in a process of the measured tree."""
    from tests.benchmarks.asgi import application

    async def go() -> None:
        for line in sys.stdin:
            name, calls = line.split(":")
            scope, body = to_asgi(REQUESTS[name])

            async def receive(body: bytes = body) -> dict[str, object]:
                return {"type": "http.request", "body": body}

            async def send(message: dict[str, object]) -> None:
                assert message.get("status", 200) == 200

            for _ in range(int(calls)):
                await application(dict(scope), receive, send)
            print("done", flush=True)

    asyncio.run(go())


def to_asgi(built: Request) -> tuple[dict[str, object], bytes]:
    """Return the scope and the body of a request, without a server."""
    head, _, body = built.numbered(0).partition(b"\r\n\r\n")
    pairs = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    scope: dict[str, object] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": built.path,
        "raw_path": built.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in pairs],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    return scope, body


if __name__ == "__main__":
    sys.exit(main())
