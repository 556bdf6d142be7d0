"""Log what a tool with `read_only=True` writes to a database, while a site is developed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from django.db import connections

from django_mcp.log import logger
from django_mcp.registry.entries import ToolEntry

T = TypeVar("T")

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE")


def noting_writes(function: Callable[[], T], entry: object) -> Callable[[], T]:
    """Return a function that does the same and logs the first statement that writes, if `entry` only reads."""
    if not isinstance(entry, ToolEntry) or not entry.annotations["readOnlyHint"]:
        return function
    has_noted = False

    def note(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal has_noted
        if not has_noted and str(sql).lstrip().upper().startswith(_WRITES):
            has_noted = True
            logger.warning(
                "The tool %s is read_only, and writes to a database: %.80s. Remove read_only=True, so that it has a "
                "transaction, and clients know that it changes something",
                entry.name,
                str(sql).lstrip(),
            )
        return execute(sql, params, many, context)

    def run() -> T:
        with ExitStack() as stack:
            for connection in connections.all():
                stack.enter_context(connection.execute_wrapper(note))
            return function()

    return run
