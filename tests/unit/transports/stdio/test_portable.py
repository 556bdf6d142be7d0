"""Stdio without pipe support in the event loop, as on Windows: threads read and write."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import select
from pathlib import Path
from typing import Any

import pytest

from django_mcp.transports.stdio.driver import serve
from tests.architecture.sources import PACKAGE, shown, tree_of
from tests.support.server.plain import MCPServer

SOURCES = [
    *sorted((PACKAGE / "transports" / "stdio").glob("*.py")),
    PACKAGE / "management" / "commands" / "mcp_stdio.py",
]
NOT_ON_WINDOWS = {
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_read_pipe",
    "connect_write_pipe",
    "fork",
    "forkpty",
    "get_child_watcher",
    "killpg",
    "set_blocking",
}
"""What an event loop of Windows has for no pipe, and what the system has not at all."""

NOT_THERE = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
SIGNALS = {"SIGINT", "SIGTERM", "signal"}


def guarded(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes guarded by `hasattr`."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "hasattr(" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }


def faults(tree: ast.Module) -> list[str]:
    """Return the platform-specific names of a module."""
    found = []
    safe = guarded(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [each.name for each in node.names]
            names += [getattr(node, "module", None) or ""]
            found += [name for name in names if name in NOT_THERE]
        elif isinstance(node, ast.Attribute) and id(node) not in safe:
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if (
                node.attr in NOT_ON_WINDOWS
                or of == "select"
                or (of == "signal" and node.attr not in SIGNALS)
            ):
                found.append(f"{of}.{node.attr}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_no_platform_specific_api_is_used(path: Path) -> None:
    assert faults(tree_of(path)) == []


@pytest.mark.parametrize(
    "line",
    [
        "loop.add_reader(0, read)",
        "await loop.connect_read_pipe(protocol, pipe)",
        "os.fork()",
        "import fcntl",
        "from termios import tcgetattr",
        "signal.signal(signal.SIGHUP, stop)",
        "select.select([0], [], [])",
    ],
)
def test_platform_specific_apis_are_detected(line: str) -> None:
    assert faults(ast.parse(line))


class BlindLoop(asyncio.SelectorEventLoop):
    """An event loop that can watch no pipe and no signal, as that of Windows."""

    def __getattribute__(self, name: str) -> Any:
        if name in NOT_ON_WINDOWS:
            raise NotImplementedError(name)
        return super().__getattribute__(name)


def test_a_client_is_served_on_a_loop_without_pipe_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll", raising=False)
    reading, theirs = os.pipe()
    mine, writing = os.pipe()
    pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(20)]
    os.write(theirs, b"".join(json.dumps(each).encode() + b"\r\n" for each in pings))
    os.close(theirs)
    loop = BlindLoop()
    try:
        loop.run_until_complete(serve(MCPServer("tests").engine, reading, writing))
    finally:
        loop.close()
    for each in (reading, writing):
        os.close(each)
    with os.fdopen(mine, "rb") as pipe:
        answers = [json.loads(line) for line in pipe]

    assert sorted(each["id"] for each in answers) == list(range(20))
    assert all(each["result"] == {} for each in answers)
