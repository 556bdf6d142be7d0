"""Log what a tool with `read_only=True` writes to a database, while a site is developed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeGuard, TypeVar

from django.db import connections

from django_mcp.execution.thread_loans import query_wrapper
from django_mcp.log import logger
from django_mcp.registry.entries import ToolEntry

T = TypeVar("T")

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE")


def noting_writes(function: Callable[[], T], entry: object) -> Callable[[], T]:
    """Return a function that does the same and logs the first statement that writes, if `entry` only reads."""
    return _WriteLog(entry.name).watch(function) if _is_reading(entry) else function


async def noting_async_writes(running: Awaitable[T], entry: object) -> T:
    """Await an asynchronous handler, and log its first statement that writes, if `entry` only reads."""
    if not _is_reading(entry):
        return await running
    token = query_wrapper.set(_WriteLog(entry.name).watch)
    try:
        return await running
    finally:
        query_wrapper.reset(token)


def _is_reading(entry: object) -> TypeGuard[ToolEntry]:
    return isinstance(entry, ToolEntry) and entry.annotations["readOnlyHint"] is True


class _WriteLog:
    """Logs the first statement of one call that writes."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._has_logged = False

    def watch(self, function: Callable[[], T]) -> Callable[[], T]:
        """Return a function that does the same, in any thread, and whose statements are watched."""

        def run() -> T:
            with ExitStack() as stack:
                for connection in connections.all():
                    stack.enter_context(connection.execute_wrapper(self._note))
                return function()

        return run

    def _note(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        if not self._has_logged and str(sql).lstrip().upper().startswith(_WRITES):
            self._has_logged = True
            logger.warning(
                "The tool %s is read_only, and writes to a database: %.80s. Remove read_only=True, so that "
                "clients know that it changes something, and it has a transaction if it is written with def",
                self._tool,
                str(sql).lstrip(),
            )
        return execute(sql, params, many, context)
