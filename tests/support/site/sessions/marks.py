"""Marks that a test and the processes of a site leave for each other: files in one folder."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

LIMIT_S = 60.0
_POLL_S = 0.01


def folder() -> Path:
    return Path(os.environ["SITE_MARKS"])


def mark(name: str, where: Path | None = None) -> None:
    """Leave a mark that says which process did."""
    path = (where or folder()) / name.replace("/", "_")
    # Several processes and threads may leave the same mark.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(path)


async def amarked(name: str, where: Path | None = None) -> str:
    """Wait until there is such a mark, and return which process left it."""
    path = (where or folder()) / name.replace("/", "_")
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody marked {name!r}")
        await asyncio.sleep(_POLL_S)
    return path.read_text()
