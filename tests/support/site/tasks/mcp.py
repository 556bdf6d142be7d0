"""Tools that write files, by which the test follows and releases them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from django_mcp import Context, tool

LIMIT_S = 30.0


@dataclass
class Sure:
    sure: bool


def mark(name: str) -> Path:
    return Path(os.environ["TASKS_FOLDER"], name)


@tool(task="allowed")
def where() -> int:
    """Tell which process runs this."""
    return os.getpid()


@tool(task="allowed")
def confirm(ctx: Context) -> str:
    first = ctx.once("first", os.getpid)
    answer = ctx.elicit("Sure?", Sure)
    return f"{answer.action} {first}"


@tool(task="allowed")
def work(ctx: Context, name: str) -> str:
    """Go on until the test says so, or nobody wants to know any more."""
    mark(f"{name}-begun").touch()
    ctx.progress(1, 2, "half of it")
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s and not mark(f"{name}-go-on").exists():
        if ctx.is_cancelled:
            mark(f"{name}-stopped").touch()
            return "stopped"
        time.sleep(0.02)
    return f"done by {os.getpid()}"
