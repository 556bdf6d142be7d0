"""Access to the database from the event loop: in a thread, with a pause while it is down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import ProgrammingError

from django_mcp.handlers.breaker import DOWN, Breaker
from django_mcp.handlers.threads import run_in_pool

__all__ = ["ask_database"]

T = TypeVar("T")

TIMEOUT_S = 5.0
"""How long a request waits for a session's queries. Our own limit."""

_breaker = Breaker(
    "The database of the sessions", timeout_s=TIMEOUT_S, errors=(*DOWN, ProgrammingError)
)


async def ask_database(function: Callable[[], T]) -> T:
    """Run `function` in a thread, with usable connections, and return its result.

    Raises:
        StoreUnavailable: the database does not respond, lacks our tables, or is too slow.
    """
    return await _breaker.run(function, run_in_pool)
