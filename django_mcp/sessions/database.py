"""The way to the database from the event loop: in a thread, and not at all while it is down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import ProgrammingError

from django_mcp.handlers.breaker import DOWN, Breaker
from django_mcp.handlers.threads import run_in_pool

__all__ = ["ask_database"]

T = TypeVar("T")

TIMEOUT_S = 5.0
"""How long a request waits for what a session needs of the database. Ours."""

_breaker = Breaker(
    "The database of the sessions", timeout_s=TIMEOUT_S, errors=(*DOWN, ProgrammingError)
)


async def ask_database(function: Callable[[], T]) -> T:
    """Run `function` in a thread, with usable connections, and return what it returns.

    Raises:
        StoreUnavailable: the database does not answer, has no tables of ours, or is too slow.
    """
    return await _breaker.run(function, run_in_pool)
