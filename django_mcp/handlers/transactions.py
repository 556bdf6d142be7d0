"""One transaction for what a synchronous handler writes, opened by its first write.

A handler that writes is all or nothing on every database it writes to, whatever
`ATOMIC_REQUESTS` says; one that only reads, or never asks a database, opens no transaction and no
connection.

While the handler runs, each connection of its thread is watched for the two ways in which a
transaction becomes due: a statement that writes, and an `atomic()` block of the handler's own,
which then becomes a savepoint inside ours. Only a durable block is left alone: it commits when it
ends, as it promises, whatever becomes of the handler.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import Atomic

from django_mcp.handlers.statements import may_write

__all__ = ["HandlerAbandoned", "run_atomically"]

logger = logging.getLogger("django_mcp")

T = TypeVar("T")


class HandlerAbandoned(Exception):
    """Nobody waits for the handler's result any more, so what it wrote was rolled back."""


def run_atomically(
    function: Callable[[], T],
    is_abandoned: Callable[[], bool],
    connections: Iterable[BaseDatabaseWrapper],
) -> T:
    """Run `function`, keeping what it writes only if it returns and is not abandoned by then.

    May be called by what it runs: the inner call is then a savepoint of the outer one.

    Args:
        function: runs in this thread.
        is_abandoned: asked once, after `function` has returned.
        connections: all of this thread, whether open or not.

    Raises:
        HandlerAbandoned: it returned, but too late.
    """
    watches: list[_Watch] = []
    # The blocks close in reverse order; when one cannot commit, those after it roll back.
    with ExitStack() as blocks:
        try:
            for connection in connections:
                # Without AUTOCOMMIT the site manages its transactions itself.
                if connection.settings_dict["AUTOCOMMIT"]:
                    watch = _Watch.on(connection)
                    watches.append(watch)
                    watch.begin(blocks)
            result = function()
            if is_abandoned():
                raise HandlerAbandoned
            for watch in watches:
                watch.warn_of_lost_writes()
        finally:
            for watch in reversed(watches):
                watch.end()
    return result


class _HandlerBlock(Atomic):
    """The block around all that a handler writes on one connection."""


class _Watch:
    """Enter a block on a connection as soon as a handler is about to write there.

    There is one watch on a connection, however many handlers have called each other; their blocks
    are entered outermost first. What stands in for the connection's methods is removed with the
    last of them.
    """

    __slots__ = (
        "_ask_autocommit",
        "_connection",
        "_entered",
        "_is_entering",
        "_levels",
        "_pass_on_commit",
    )

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        # Its state in transactions is not in the type.
        self._connection: Any = connection
        self._levels: list[ExitStack] = []
        self._entered = 0
        self._is_entering = False

    @classmethod
    def on(cls, connection: BaseDatabaseWrapper) -> _Watch:
        stand_in = vars(connection).get("get_autocommit")
        watch = getattr(stand_in, "__self__", None)
        return watch if isinstance(watch, _Watch) else cls(connection)

    def begin(self, blocks: ExitStack) -> None:
        """Watch on behalf of a handler whose blocks go on the stack `blocks`."""
        self._levels.append(blocks)
        if len(self._levels) == 1:
            self._install()
        if self._connection.in_atomic_block:
            # In a test case, or called by another handler: any block entered from now on is a
            # savepoint at once, and ours has to be around it.
            self._enter()

    def end(self) -> None:
        self._levels.pop()
        self._entered = min(self._entered, len(self._levels))
        if not self._levels:
            self._uninstall()

    def warn_of_lost_writes(self) -> None:
        """Say so when a handler returned as if all were well, and its writes are lost.

        It caught a database error outside of an `atomic()` block of its own, after which the
        transaction cannot go on.
        """
        connection = self._connection
        cause = connection.rollback_exc
        if self._entered == len(self._levels) and connection.needs_rollback and cause is not None:
            logger.warning(
                "What a handler wrote to the database %r is rolled back, although it returned: "
                "it caught a database error outside of an atomic() block of its own",
                connection.alias,
                exc_info=cause,
            )

    def _install(self) -> None:
        connection = self._connection
        self._ask_autocommit = connection.get_autocommit
        self._pass_on_commit = connection.on_commit
        connection.execute_wrappers.append(self._before_statement)
        vars(connection).update(get_autocommit=self._get_autocommit, on_commit=self._on_commit)

    def _uninstall(self) -> None:
        connection = self._connection
        connection.execute_wrappers.remove(self._before_statement)
        del vars(connection)["get_autocommit"], vars(connection)["on_commit"]

    @property
    def _is_due(self) -> bool:
        """Whether a write now would be outside of a block that it belongs in."""
        return (
            self._entered < len(self._levels)
            and not self._is_entering
            and not self._connection.in_atomic_block
            # Off, the handler manages its transactions itself.
            and self._ask_autocommit()
        )

    def _enter(self) -> None:
        connection = self._connection
        # Entering asks the connection what the stand-ins answer.
        self._is_entering = True
        try:
            for blocks in self._levels[self._entered :]:
                block: Any = _HandlerBlock(connection.alias, True, False)
                if connection.atomic_blocks:
                    # Durable blocks are let into a test case's own; ours must not hide it.
                    block._from_testcase = connection.atomic_blocks[-1]._from_testcase
                blocks.enter_context(block)
                self._entered += 1
                connection.rollback_exc = None
        finally:
            self._is_entering = False

    # -- what stands in for the connection's own

    def _before_statement(self, execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        if self._entered < len(self._levels) and may_write(sql) and self._is_due:
            self._enter()
        return execute(sql, *rest)

    def _get_autocommit(self) -> bool:
        """Answer for `connection.get_autocommit`, and use that an outermost `atomic()` asks.

        It does so before it looks whether it is inside of another block: after this it is.
        """
        if self._is_due:
            asking = _calling_object()
            if isinstance(asking, Atomic) and not vars(asking)["durable"]:
                self._enter()
                return True
            # select_for_update() wants to know whether there is a transaction.
            if isinstance(asking, SQLCompiler):
                self._enter()
        return bool(self._ask_autocommit())

    def _on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Answer for `connection.on_commit`, which outside of a block calls back at once."""
        if self._is_due:
            self._enter()
        self._pass_on_commit(*args, **kwargs)


def _calling_object() -> Any:
    """Return the `self` of the method that called our caller."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    return frame.f_locals.get("self") if frame is not None else None
