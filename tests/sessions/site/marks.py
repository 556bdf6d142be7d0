"""Marks that a test and the processes of a site leave for each other: files in one folder."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

LIMIT_S = 20.0
_POLL_S = 0.01


def folder() -> Path:
    return Path(os.environ["SITE_MARKS"])


def mark(name: str, where: Path | None = None) -> None:
    ((where or folder()) / name.replace("/", "_")).touch()


async def amarked(name: str, where: Path | None = None) -> None:
    """Wait until there is such a mark."""
    path = (where or folder()) / name.replace("/", "_")
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody marked {name!r}")
        await asyncio.sleep(_POLL_S)
