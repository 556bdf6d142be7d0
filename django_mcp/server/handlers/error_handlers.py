"""Functions of the site that are called with unexpected errors: `server.on_error`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from django_mcp.server.handlers.context import Context

logger = logging.getLogger("django_mcp")

TIMEOUT_S = 5.0
"""How long a response waits for one of these functions. Our own limit."""

ErrorHandler: TypeAlias = Callable[[BaseException, Any, str | None], Any]
"""Takes the exception, the context, and the reference in the log; may be asynchronous."""

F = TypeVar("F", bound=ErrorHandler)


class ErrorHandlers:
    """The part of a server that keeps the functions to call with errors."""

    def __init__(self) -> None:
        super().__init__()
        self.error_handlers: tuple[ErrorHandler, ...] = ()

    def on_error(self, function: F) -> F:
        """Call a function with each unexpected error, and return the function.

        It is called as `function(error, ctx, reference)` after the error was logged and before the
        response: a synchronous function in a thread, an asynchronous one on the event loop. It may
        take 5 seconds. Its result is ignored, and its own errors are logged.

        Unexpected errors are those that clients see as internal errors. `ToolError`,
        `ProtocolError`, wrong arguments, timeouts and Django's `Http404`, `PermissionDenied` and
        `ValidationError` are not. `reference` is in the log and in the client's message; it is None
        for an error of this package, and for a `check=` that failed, which looks like a missing entry.
        """
        self.error_handlers = (*self.error_handlers, function)
        return function


async def report_error(ctx: Context[Any], error: BaseException, reference: str | None) -> None:
    """Call the site's functions with an error; raises nothing but `CancelledError`."""
    for function in ctx.server.error_handlers:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if iscoroutinefunction(function):
                    await function(error, ctx, reference)
                else:
                    await ctx.server.scope.run(partial(function, error, ctx, reference), ctx)
        except Exception:
            logger.exception("The error handler %r failed", function)
