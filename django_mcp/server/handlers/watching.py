"""Monitoring of a handler while it runs: the event loop that it may block, and unexpected errors."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Awaitable, Generator
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from django_mcp.log import logger
from django_mcp.server.services import ServedCall

T = TypeVar("T")


@types.coroutine
def watch_steps(awaitable: Awaitable[T], limit_s: float, what: str) -> Generator[Any, Any, T]:
    """Return the result of a handler, and log each step of it that blocks the event loop for long."""
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
            taken_s = time.perf_counter() - started_s
            if taken_s > limit_s:
                logger.warning(_BLOCKED, what, taken_s)
        try:
            resume, value = steps.send, (yield waited_for)
        except BaseException as error:  # noqa: BLE001 - the handler gets it
            resume, value = steps.throw, error


_BLOCKED = (
    "%s blocked the event loop for %.1f s, and all other calls of this process with it. Await what "
    "waits (asyncio.sleep() for time.sleep(), httpx.AsyncClient for requests), or write the handler "
    "with def, so that it runs in a thread."
)


TIMEOUT_S = 5.0
"""How long a response waits for one of these functions."""


async def report_error(call: ServedCall, error: BaseException, reference: str | None) -> None:
    """Call the site's functions with an error; raises nothing but `CancelledError`."""
    for function in call.server.registry.error_handlers:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if iscoroutinefunction(function):
                    await function(error, call.context, reference)
                else:
                    await call.server.ports.scope.run(
                        partial(function, error, call.context, reference), call
                    )
        except Exception:
            logger.exception("The error handler %r failed", function)
