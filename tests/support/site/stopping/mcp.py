"""Tools that tell which process runs them, and last until the test says so by a file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from django.dispatch import receiver

from django_mcp import tool
from django_mcp.calls import RecordedCall
from django_mcp.signals import tool_called

FOLDER = Path(os.environ.get("SITE_FOLDER", "."))


@tool
async def process() -> int:
    """Return the id of the process."""
    return os.getpid()


@tool
def last(number: int) -> int:
    """Return when the test has made the file `go`; say by another file that this runs."""
    (FOLDER / f"running-{number}").touch()
    while not (FOLDER / "go").exists():
        time.sleep(0.05)
    return number


@receiver(tool_called)
def note(call: RecordedCall, **_more: Any) -> None:
    with (FOLDER / "called").open("a") as file:
        file.write(f"{call.name} {call.outcome}\n")
