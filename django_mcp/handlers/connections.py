"""What surrounds a handler in its thread: usable database connections, and none left dangling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from django_mcp.handlers.transactions import run_atomically

__all__ = ["run_with_connections", "tidy_connections"]

T = TypeVar("T")


def run_with_connections(function: Callable[[], T], is_abandoned: Callable[[], bool]) -> T:
    """Run `function` in this thread, in a transaction if it writes, and tidy up around it.

    Args and errors are those of `run_atomically`.
    """
    tidy_connections()
    try:
        return run_atomically(function, is_abandoned)
    finally:
        tidy_connections()


def tidy_connections() -> None:
    """Close this thread's connections that are broken or too old (`CONN_MAX_AGE`).

    Django does so around each request of its own; nobody does it for other threads. One inside of
    a transaction belongs to someone who is not done: a test case, or a calling handler.
    """
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
