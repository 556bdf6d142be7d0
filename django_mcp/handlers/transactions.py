"""The transaction around a synchronous tool: `transaction.atomic()` on the databases it names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import connections, transaction

__all__ = ["HandlerAbandoned", "run_atomically"]

logger = logging.getLogger("django_mcp")

T = TypeVar("T")


class HandlerAbandoned(Exception):
    """Nobody waits for the handler's result any more, so what it wrote was rolled back."""


def run_atomically(
    function: Callable[[], T], is_abandoned: Callable[[], bool], aliases: Sequence[str]
) -> T:
    """Run `function` in a transaction, which is committed if it returns and is not abandoned by then.

    Inside of another transaction, such as a test case's, it runs in a savepoint.

    Args:
        function: runs in this thread.
        is_abandoned: called once, after `function` has returned.
        aliases: the databases that get a transaction, at least one. When one of them cannot commit,
            those before it roll back.

    Raises:
        HandlerAbandoned: it returned, but too late.
    """
    alias, others = aliases[0], aliases[1:]
    # The attributes of a connection's transaction are not in its type.
    connection: Any = connections[alias]
    with transaction.atomic(alias):
        earlier_cause = connection.rollback_exc
        if others:
            result = run_atomically(function, is_abandoned, others)
        else:
            result = function()
            if is_abandoned():
                raise HandlerAbandoned
        if connection.needs_rollback and connection.rollback_exc is not earlier_cause:
            _warn_of_lost_writes(connection)
    return result


def _warn_of_lost_writes(connection: Any) -> None:
    """Log that Django rolls back what a handler wrote, although the handler returned."""
    logger.warning(
        "What a handler wrote to the database %r is rolled back, although it returned: "
        "it caught a database error outside of an atomic() block of its own",
        connection.alias,
        exc_info=connection.rollback_exc,
    )
