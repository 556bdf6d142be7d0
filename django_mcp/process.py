"""This process: its id, whether a thread runs an event loop, and rate-limited warnings."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid

__all__ = ["Warner", "has_running_loop", "process_id"]

logger = logging.getLogger("django_mcp")


class Warner:
    """Logs the same warning at most once in a period."""

    def __init__(self, every_s: float = 60.0) -> None:
        self._every_s = every_s
        self._next_s = 0.0

    def warn(self, text: str, error: object) -> None:
        """Log a warning, unless that was done recently."""
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + self._every_s
            logger.warning(text, error)


_process_id = uuid.uuid4().hex


def process_id() -> str:
    """Return the id that distinguishes this process's messages from others'."""
    return _process_id


def _renew() -> None:
    global _process_id
    _process_id = uuid.uuid4().hex


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def has_running_loop() -> bool:
    """Return whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
