"""Log what handlers write to a database against what they declare, while a site is developed.

These are writes of a tool with `read_only=True`, those that stay although the call failed, those that a handler repeats
since it runs again from its start, and changes of values of its session that are not stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from asgiref.sync import AsyncToSync, sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.conf import site_aliases
from django_mcp.execution.thread_loans import query_wrapper
from django_mcp.log import logger
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.session_data import HandedOut, handed_out

T = TypeVar("T")

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE")

_OWN_TABLES = ("django_mcp_", "django_session")
"""Where the package and `ctx.session` write, whatever becomes of a call."""

_MAX_WRITES = 100
"""Statements of one run that are remembered."""


def noting_writes(
    function: Callable[[], T], call: Call, aliases: Sequence[str] = ()
) -> Callable[[], T]:
    """Return a function that does the same, and logs what it should not have written.

    Args:
        aliases: the databases on which it runs in a transaction.
    """
    log = _WriteLog(call, aliases, promises_rollback=bool(aliases))
    watched = log.watch(function)

    def run() -> T:
        with log.watching():
            return watched()

    return run


async def noting_async_writes(running: Awaitable[T], call: Call) -> T:
    """Await an asynchronous handler, and log what it should not have written."""
    entry = call.entry
    is_chosen = entry is not None and entry.handler.declines_atomic
    promises = bool(site_aliases(call.options.atomic)) and not is_chosen
    log = _WriteLog(call, (), promises_rollback=promises)
    token = query_wrapper.set(log.watch)
    # A synchronous caller, such as a test, runs the queries in its own thread, past the loans of threads.
    of_caller = getattr(AsyncToSync.executors, "current", None) is not None
    stack = ExitStack()
    try:
        if of_caller:
            await sync_to_async(log.enter)(stack)
        with log.watching():
            return await running
    finally:
        if of_caller:
            await sync_to_async(stack.close)()
        query_wrapper.reset(token)


_watching: ContextVar[_WriteLog | None] = ContextVar("django_mcp_watching", default=None)
"""Whose queries the running code makes."""


class _Write:
    """A statement outside of the transaction of the call, and whether it was committed."""

    def __init__(self, connection: BaseDatabaseWrapper, sql: str, used: int) -> None:
        self.alias = connection.alias
        self.sql = sql
        self.used = used
        self._connection: Any = connection
        self._is_committed = False
        if connection.in_atomic_block or connection.get_autocommit():
            transaction.on_commit(self._note_commit, using=connection.alias)

    def _note_commit(self) -> None:
        self._is_committed = True

    @property
    def stays(self) -> bool:
        """Whether it was committed, or will be: Django forgets what an inner transaction rolled back."""
        waiting = [each[1] for each in self._connection.run_on_commit]
        return self._is_committed or self._note_commit in waiting


class _WriteLog:
    """Watches the statements of one run of a handler that write."""

    def __init__(self, call: Call, aliases: Sequence[str], *, promises_rollback: bool) -> None:
        self._call = call
        self._aliases = aliases
        self._promises_rollback = promises_rollback
        entry = call.entry
        self._is_tool = isinstance(entry, ToolEntry)
        self._is_reading = (
            isinstance(entry, ToolEntry) and entry.annotations["readOnlyHint"] is True
        )
        self._has_logged = False
        self._outside: list[_Write] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs in the block, and log at its end what is wrong."""
        handed = HandedOut()
        tokens = _watching.set(self), handed_out.set(handed)
        try:
            yield
            self._tell_changed(handed)
        except Exception:
            self._tell_left()
            raise
        finally:
            _watching.reset(tokens[0])
            handed_out.reset(tokens[1])
            self._tell_repeated()

    def watch(self, function: Callable[[], T]) -> Callable[[], T]:
        """Return a function that does the same, in any thread, and whose statements are watched."""

        def run() -> T:
            with ExitStack() as stack:
                self.enter(stack)
                return function()

        return run

    def enter(self, stack: ExitStack) -> None:
        """Watch the statements of this thread until the end of `stack`."""
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(self._note))

    def _note(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        text = str(sql).lstrip()
        is_other = (_watching.get() or self) is not self
        if is_other or not text.upper().startswith(_WRITES):
            return execute(sql, params, many, context)
        if self._is_reading:
            self._tell_written(text)
            return execute(sql, params, many, context)
        result = execute(sql, params, many, context)
        connection = context["connection"]
        answers = self._call.answers
        is_outside = connection.alias not in self._aliases and not answers.is_in_once
        if (
            is_outside
            and len(self._outside) < _MAX_WRITES
            and not any(map(text.__contains__, _OWN_TABLES))
        ):
            self._outside.append(_Write(connection, text, answers.used))
        return result

    def _tell_written(self, text: str) -> None:
        if not self._has_logged:
            self._has_logged = True
            logger.warning(
                "The tool %s is read_only, and writes to a database: %.80s. Remove read_only=True, so that "
                "clients know that it changes something, and it has a transaction if it is written with def",
                self._name,
                text,
            )

    def _tell_left(self) -> None:
        """Log what a call that failed has written, and that stays."""
        left = next((each for each in self._outside if each.stays), None)
        if left is None or not self._is_tool or not self._promises_rollback:
            return
        if self._aliases:
            logger.warning(
                "The tool %s failed, and what it wrote to the database %r stays: %.80s. Its transaction is on %s. "
                "Name all databases that it writes to in atomic=[...]",
                self._name,
                left.alias,
                left.sql,
                ", ".join(map(repr, self._aliases)),
            )
        else:
            logger.warning(
                "The tool %s failed, and what it wrote to the database %r stays: %.80s. An asynchronous function "
                "has no transaction: write it with def, or with atomic=False if that is right",
                self._name,
                left.alias,
                left.sql,
            )

    def _tell_repeated(self) -> None:
        """Log what was written before an answer that the handler has had already: it was written before, too."""
        used = self._call.answers.used
        again = next((each for each in self._outside if each.used < used and each.stays), None)
        if again is not None:
            logger.warning(
                "%s %s wrote to the database %r again, since it runs again from its start with each answer: %.80s. "
                "Write after the last question, or in ctx.once()",
                self._call.method,
                self._name,
                again.alias,
                again.sql,
            )

    def _tell_changed(self, handed: HandedOut) -> None:
        """Log which values of the session are changed, and not stored."""
        for key in handed.find_changed():
            logger.warning(
                "%s %s changed the value of %r from ctx.session in place, which is not stored. Set it again after "
                "the change: ctx.session[%r] = value",
                self._call.method,
                self._name,
                key,
                key,
            )

    @property
    def _name(self) -> str:
        return str(getattr(self._call.entry, "name", ""))
