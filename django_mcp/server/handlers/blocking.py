"""Report asynchronous handlers that block the event loop, for development."""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

logger = logging.getLogger("django_mcp")

T = TypeVar("T")


@types.coroutine
def watch_steps(awaitable: Awaitable[T], limit_s: float, what: str) -> Generator[Any, Any, T]:
    """Return the result of `awaitable`, and log each step of it that blocks the event loop for long.

    Args:
        awaitable: the call of an asynchronous handler.
        limit_s: how long a step may take.
        what: names the handler in the log, such as `"tool find_orders"`.
    """
    steps = awaitable.__await__()
    resume, value = steps.send, None
    while True:
        started_s = time.perf_counter()
        try:
            waited_for = resume(value)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            # An exception refers to this frame by its traceback: in a cycle, what the handler holds,
            # such as an open cursor, would stay until the garbage is collected.
            value = None
            _report(time.perf_counter() - started_s, limit_s, what)
        try:
            resume, value = steps.send, (yield waited_for)
        except BaseException as error:  # noqa: BLE001 - the handler gets it
            resume, value = steps.throw, error


def _report(taken_s: float, limit_s: float, what: str) -> None:
    if taken_s > limit_s:
        logger.warning(
            "%s blocked the event loop for %.1f s, and all other calls of this process with it. "
            "Await what waits (asyncio.sleep() for time.sleep(), httpx.AsyncClient for requests), or "
            "write the handler with def, so that it runs in a thread.",
            what,
            taken_s,
        )
