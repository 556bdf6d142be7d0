"""Compare what a call costs in two checkouts of this repository, in processor time or in instructions.

    python -m tests.benchmarks.compare TREE TREE [--rounds 5] [--in-process]
    python -m tests.benchmarks.compare TREE TREE --instructions

The second tree is held to the first: above 1, it costs more. In each round both run in fresh
processes pinned to core 1, while the load comes from core 0. The two take turns, batch by small
batch, so that what else the machine does falls on both alike; what it adds is left out by looking at
the cheapest tenth of the batches. The table tells the median of the rounds, and their range.

Over a socket, uvicorn serves the benchmark site, and 16 connections send one request each at a time.
In process, the ASGI application is called directly, one call after the other.

Instructions are counted in process by valgrind's callgrind. They differ little from run to run, also on a
busy machine, but they are no time: compare those of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.messages import LEGACY, MODERN, Request, call, handshake, request

CONNECTIONS = 16
START_LIMIT_S = 30.0
SERVER_CORE, LOAD_CORE = 1, 0
TEXT = {"text": "hello world"}
REQUESTS: dict[str, Callable[[str], Request]] = {
    "call, async tool": lambda _: call(0, "aecho", TEXT, revision=MODERN),
    "call, sync tool": lambda _: call(0, "echo", TEXT, revision=MODERN),
    "list": lambda _: request(0, "tools/list", {}, revision=MODERN),
    "call on a session, async tool": lambda key: call(
        0, "aecho", TEXT, revision=LEGACY, session=key
    ),
    "call on a session, sync tool": lambda key: call(0, "echo", TEXT, revision=LEGACY, session=key),
    "handshake": lambda _: handshake(0),
}
"""The kinds of requests, each built for the key of a session."""
COUNTED_CALLS = 200
CALLGRIND = ("valgrind", "--tool=callgrind", "--dump-instr=no", "--callgrind-out-file={folder}/out")
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
    parser.add_argument("--instructions", action="store_true", help="count them, instead of time")
    options = parser.parse_args(arguments)
    trees: list[Path] = [tree.resolve() for tree in options.trees]
    if options.instructions:
        return _compare_instructions(trees, [name for name in REQUESTS if options.only in name])
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
            key = _open_session(clients[0])
            yield server.pid, lambda name, calls: _send(clients, REQUESTS[name](key), calls)
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


def _open_session(client: socket.socket) -> str:
    client.sendall(handshake(0).numbered(0))
    got = bytearray()
    while not _is_complete(got):
        got += client.recv(65536)
    return _find_session(got)


def _find_session(head: bytes | bytearray) -> str:
    found = re.search(rb"mcp-session-id: *(\S+)", head, re.IGNORECASE)
    assert found is not None
    return found[1].decode()


def _send(clients: Sequence[socket.socket], built: Request, calls: int) -> None:
    """Send so many requests; each connection sends its next when it has its answer."""
    selector, sent, answered = selectors.DefaultSelector(), 0, 0
    for client in clients:
        selector.register(client, selectors.EVENT_READ, (client, bytearray()))
        client.sendall(built.numbered(sent := sent + 1))
    while answered < sent:
        for key, _ in selector.select():
            client, got = key.data
            part = client.recv(65536)
            if not part:
                raise RuntimeError("the server closed a connection")
            got += part
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
def _started_inside(tree: Path, wrapper: Sequence[str] = ()) -> Iterator[tuple[int, Run]]:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        environment = _environment(tree, folder)
        subprocess.run(_pinned("-c", PREPARE), cwd=tree, env=environment, check=True)
        # This file itself, since the other tree may not have it.
        child = subprocess.Popen(
            [*wrapper, *_pinned("-c", INSIDE.format(file=__file__))],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        orders, answers = child.stdin, child.stdout
        assert answers.readline() == "ready\n"

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

    async def ask(scope: dict[str, object], body: bytes) -> list[Any]:
        sent: list[Any] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200
            sent.append(message)

        await application(dict(scope), receive, send)
        return sent

    async def go() -> None:
        opened, *_ = await ask(*to_asgi(handshake(0)))
        key = _find_session(b"\n".join(b": ".join(pair) for pair in opened["headers"]))
        print("ready", flush=True)
        for line in sys.stdin:
            name, calls = line.split(":")
            scope, body = to_asgi(REQUESTS[name](key))
            for _ in range(int(calls)):
                await ask(scope, body)
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


# -- instructions


def _compare_instructions(trees: Sequence[Path], names: Sequence[str]) -> int:
    sides = [_count(tree, names) for tree in trees]
    print(f"| instructions, thousands | {trees[0].name} | {trees[1].name} | ratio |")
    print("|---|---:|---:|---:|")
    for name, old, new in zip(names, *sides, strict=True):
        print(f"| {name} | {old / 1000:.1f} | {new / 1000:.1f} | {new / old:.3f} |")
    return 0


def _count(tree: Path, names: Sequence[str]) -> list[float]:
    """Return the instructions of a call of each kind."""
    if shutil.which("valgrind") is None:
        raise SystemExit("compare: install valgrind to count instructions")
    found = []
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        wrapper = ["env", "PYTHONHASHSEED=0", *(each.format(folder=folder) for each in CALLGRIND)]
        with _started_inside(tree, [*wrapper, "--trace-children=yes"]) as (pid, run):
            for name in names:
                run(name, COUNTED_CALLS)
                _dump(pid, folder)
                run(name, COUNTED_CALLS)
                found.append(_dump(pid, folder) / COUNTED_CALLS)
    return found


def _dump(pid: int, folder: str) -> int:
    """Return the instructions of a process since the last time."""
    for old in Path(folder).glob("out.*"):
        old.unlink()
    subprocess.run(["callgrind_control", "--dump", str(pid)], check=True, stdout=subprocess.DEVNULL)
    return sum(
        int(line.split()[1])
        for file in Path(folder).glob("out*")
        for line in file.read_text().splitlines()
        if line.startswith("totals:")
    )


if __name__ == "__main__":
    sys.exit(main())
