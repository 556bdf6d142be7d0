"""Measure the CPU that single callbacks of the event loop take."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 0.1
SLOW_CALLBACKS = "FUZZ_SLOW_CALLBACKS"
"""The variable that names the file in which a server lists its slow callbacks."""


NOT_METERED = "not metered"
"""Name of a task whose steps do not count: it makes the messages."""


def meter_callbacks(on_slow: Callable[[float, str], None]) -> None:
    """Have every callback of every asyncio loop of this process timed; report those over the limit.

    The CPU of the thread counts, not the time that passes: a busy machine makes nothing slow.
    """
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        started_s = time.thread_time()
        # The handle forgets its callback when it is cancelled.
        callback = handle._callback
        run(handle)
        spent_s = time.thread_time() - started_s
        task = getattr(callback, "__self__", None)
        if spent_s > LIMIT_S and getattr(task, "get_name", str)() != NOT_METERED:
            on_slow(spent_s, repr(callback)[:300])

    setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - it is not declared as a variable


def meter_server() -> None:
    """Do so in a server, if the environment says where to list what is slow."""
    path = os.environ.get(SLOW_CALLBACKS)
    if path is None:
        return

    def note(spent_s: float, what: str) -> None:
        with Path(path).open("a") as file:
            file.write(f"{spent_s:.3f} s {what}\n")

    meter_callbacks(note)
