"""Compare what a call costs in two versions of this repository, in processor time or in instructions.

    python -m tests.benchmarks.compare BASE HEAD [--rounds 5] [--in-process]
    python -m tests.benchmarks.compare BASE HEAD --instructions

Each is a commit, or a folder with a checkout. A ratio above 1 means that HEAD costs more. Both run with the
interpreter and the packages that run this command. In each round both run in fresh processes pinned to core 1,
while the load comes from core 0. The two take turns, batch by small batch, so that what else the machine does
falls on both alike; what it adds is left out by looking at the cheapest tenth of the batches. The table tells
the median of the rounds, and their range.

Over a socket, uvicorn serves the benchmark site, and 16 connections send one request each at a time.
In process, the ASGI application is called directly, one call after the other.

Instructions are counted in process by valgrind's callgrind, for both versions at once, in the cheapest of a few
batches. From run to run they differ by up to 1 %, and where threads take part by up to 5 %, also on a busy machine.
But they are no time, and differ between installations: compare those of one run only.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.messages import LEGACY, MODERN, Request, call, handshake, request

CONNECTIONS = 16
START_LIMIT_S = 30.0
SERVER_CORE, LOAD_CORE = 1, 0
PINNED = ("taskset", "-c", str(SERVER_CORE))
TEXT = {"text": "hello world"}


def _progress(revision: str, **how: Any) -> Request:
    arguments = {"count": 50}
    return call(0, "progress", arguments, revision=revision, progress_token="t", **how)


REQUESTS: dict[str, Callable[[str], Request]] = {
    "call, async tool": lambda _: call(0, "aecho", TEXT, revision=MODERN),
    "call, sync tool": lambda _: call(0, "echo", TEXT, revision=MODERN),
    "list": lambda _: request(0, "tools/list", {}, revision=MODERN),
    "call on a session, async tool": lambda key: call(
        0, "aecho", TEXT, revision=LEGACY, session=key
    ),
    "call on a session, sync tool": lambda key: call(0, "echo", TEXT, revision=LEGACY, session=key),
    "progress, 50 events": lambda _: _progress(MODERN),
    "progress on a session, 50 events": lambda key: _progress(LEGACY, session=key),
    # Last: so many new sessions make the one of the others end.
    "handshake": lambda _: handshake(0),
}
"""The kinds of requests, each built for the key of a session."""
STREAMED = {name for name in REQUESTS if name.startswith("progress")}
"""Those that are answered with a stream; they need a socket."""
WARM_CALLS = 50
COUNTED_CALLS = 20
COUNTED_BATCHES = 7
CALLGRIND = (
    "valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=sched_yield",
    "--callgrind-out-file={folder}/out", "--log-file={folder}/log",
)  # fmt: skip
"""Makes a file of the instructions until each call of `os.sched_yield`."""

PREPARE = "from tests.benchmarks.database import prepare; prepare()"
INSIDE = "from runpy import run_path; run_path({file!r})['call_inside']()"

Run = Callable[[str, int], None]
"""Make so many calls of a kind."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare")
    parser.add_argument("base", help="a commit or a folder")
    parser.add_argument("head", help="a commit or a folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=150, help="of each kind in each round")
    parser.add_argument("--calls", type=int, default=160, help="of each batch")
    parser.add_argument("--in-process", action="store_true", help="without a server or sockets")
    parser.add_argument("--only", default="", help="the kinds of calls with this text")
    parser.add_argument("--instructions", action="store_true", help="count them, instead of time")
    options = parser.parse_args(arguments)
    names = [name for name in REQUESTS if options.only in name]
    if options.in_process or options.instructions:
        names = [name for name in names if name not in STREAMED]
    with ExitStack() as stack:
        trees = [stack.enter_context(checked_out(each)) for each in (options.base, options.head)]
        if options.instructions:
            return _compare_instructions(trees, names, options.base, options.head)
        start = _started_inside if options.in_process else _served
        os.sched_setaffinity(0, {LOAD_CORE})
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(options.rounds):
            with ExitStack() as both:
                sides = [both.enter_context(start(tree)) for tree in trees]
                for name, rounds in found.items():
                    for pid, run in sides:
                        _cost(pid, run, name, options.calls)
                    rounds.append(_alternate(sides, name, options.batches, options.calls))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print(f"| | {options.base}, µs | {options.head}, µs | ratio | of the rounds |")
    print("|---|---:|---:|---:|---|")
    for name, rounds in found.items():
        old, new = (statistics.median(side) for side in zip(*rounds, strict=True))
        ratios = sorted(after / before for before, after in rounds)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        print(f"| {name} | {old:.1f} | {new:.1f} | {statistics.median(ratios):.3f} | {spread} |")
    return 0


@contextmanager
def checked_out(version: str) -> Iterator[Path]:
    """Yield a folder with the files of a version: itself, or those of a commit."""
    if Path(version).is_dir():
        yield Path(version).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        # A worktree would stay listed in the repository if this process were killed.
        archive = subprocess.run(["git", "archive", version], check=False, stdout=subprocess.PIPE)
        if archive.returncode:
            raise SystemExit(f"compare: {version} is neither a folder nor a commit")
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive.stdout)
        yield Path(folder)


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
        "PYTHONHASHSEED": "0",
    }


def _pinned(*arguments: str) -> list[str]:
    return [*PINNED, sys.executable, *arguments]


# -- over a socket


@contextmanager
def _served(tree: Path) -> Iterator[tuple[int, Run]]:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        environment, port = _environment(tree, folder), _free_port()
        subprocess.run(_pinned("-c", PREPARE), cwd=tree, env=environment, check=True)
        target = ["uvicorn", "tests.benchmarks.asgi:application", "--port", str(port)]
        # A connection is idle while the other tree starts, and while the other kinds are measured.
        how = ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "3600"]
        server = subprocess.Popen(_pinned("-m", *target, *how), cwd=tree, env=environment)
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
        got += _receive(client)
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
            got += _receive(client)
            if not _is_complete(got):
                continue
            got.clear()
            answered += 1
            if sent < calls:
                client.sendall(built.numbered(sent := sent + 1))


def _receive(client: socket.socket) -> bytes:
    received = client.recv(65536)
    if not received:
        raise RuntimeError("the server closed the connection")
    return received


def _is_complete(answer: bytearray) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"the server answered {bytes(answer[:500])!r}")
        return body.endswith(b"\r\n0\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head)
    if not end or length is None or len(body) < int(length[1]):
        return False
    if not head.startswith(b"HTTP/1.1 200 ") or b'"isError":true' in body:
        raise RuntimeError(f"the server answered {bytes(answer[:500])!r}")
    return True


# -- in process


@contextmanager
def _started_inside(tree: Path, wrapper: Sequence[str] = PINNED) -> Iterator[tuple[int, Run]]:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        environment = _environment(tree, folder)
        subprocess.run(_pinned("-c", PREPARE), cwd=tree, env=environment, check=True)
        # This file itself, since the other tree may not have it.
        child = subprocess.Popen(
            [*wrapper, sys.executable, "-c", INSIDE.format(file=__file__)],
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
            # Under valgrind a process has been seen to outlive the signal to end.
            child.kill()
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
            os.sched_yield()  # Here callgrind ends a batch.
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


def _compare_instructions(trees: Sequence[Path], names: Sequence[str], base: str, head: str) -> int:
    if shutil.which("valgrind") is None:
        raise SystemExit("compare: install valgrind to count instructions")
    with ThreadPoolExecutor(len(trees)) as threads:
        sides = threads.map(lambda tree: _count(tree, names), trees)
    print(f"| thousands of instructions | {base} | {head} | ratio |")
    print("|---|---:|---:|---:|")
    for name, old, new in zip(names, *sides, strict=True):
        print(f"| {name} | {old / 1000:.1f} | {new / 1000:.1f} | {new / old:.3f} |")
    return 0


def _count(tree: Path, names: Sequence[str]) -> list[float]:
    """Return the instructions of a call of each kind, in the cheapest of its batches."""
    found = []
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        wrapper = [each.format(folder=folder) for each in CALLGRIND]
        with _started_inside(tree, wrapper) as (pid, run):
            for name in names:
                run(name, WARM_CALLS)
            # The start takes a fifth of the time when it is not counted.
            control = ["callgrind_control", "--instr=on", str(pid)]
            subprocess.run(control, check=True, capture_output=True)
            for name in names:
                run(name, COUNTED_CALLS)
                for old in Path(folder).glob("out.*"):
                    old.unlink()
                for _ in range(COUNTED_BATCHES):
                    run(name, COUNTED_CALLS)
                totals = [_read_total(dump) for dump in Path(folder).glob("out.*")]
                assert len(totals) == COUNTED_BATCHES
                found.append(min(totals) / COUNTED_CALLS)
    return found


def _read_total(dump: Path) -> int:
    total = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    assert total is not None
    return int(total[1])


if __name__ == "__main__":
    sys.exit(main())
