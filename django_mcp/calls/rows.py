"""Insert calls and their counts, many in one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.calls.call import RecordedCall, step_of
from django_mcp.calls.tallies import WHAT, add_tallies, insert_rows, tally
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.models.calls import CallRecord
from django_mcp.protocol.texts import clean

_TEXTS = (
    "method",
    "name",
    "outcome",
    "reference",
    "principal",
    "revision",
    "client_name",
    "client_version",
    "arguments",
    "session",
    "error",
)
"""Fields of `CallRecord` with the value of the same attribute of a `RecordedCall`."""

COLUMNS = ("started_at", "minute", "duration_ms", "step", "server", "user", *_TEXTS)
"""Fields of `CallRecord`, in the order of `_to_row`."""

_find_texts = attrgetter(*_TEXTS)
_NAME = COLUMNS.index("name")
_COUNTED = itemgetter(*map(COLUMNS.index, ("minute", *WHAT)))


def insert(calls: Sequence[RecordedCall]) -> None:
    """Write calls, from a thread that may use the database; raises its errors."""
    alias = router.db_for_write(CallRecord) or DEFAULT_DB_ALIAS
    connection = connections[alias]
    fields: list[Any] = [CallRecord._meta.get_field(name) for name in COLUMNS]
    rows = _to_rows(calls, connection, fields[COLUMNS.index("user")])
    tallies = tally(
        _COUNTED(row if call.is_known else (*row[:_NAME], "", *row[_NAME + 1 :]))
        for call, row in zip(calls, rows, strict=True)
    )

    def write() -> None:
        with transaction.atomic(alias):
            insert_rows(connection, CallRecord, COLUMNS, rows)
            # Last, since other processes wait for these rows until the transaction ends.
            add_tallies(alias, tallies)

    run_with_connections(write)


def _to_rows(
    calls: Sequence[RecordedCall], connection: BaseDatabaseWrapper, user_field: Any
) -> list[tuple[Any, ...]]:
    prepare_time: Callable[[datetime], Any] = connection.ops.adapt_datetimefield_value
    # There are far fewer users and servers than calls.
    users: dict[Any, Any] = {None: None}
    servers: dict[str, str] = {}
    rows = []
    for call in calls:
        user, server = call.user_id, call.server.options.name
        if user not in users:
            users[user] = user_field.get_db_prep_save(user, connection)
        if server not in servers:
            servers[server] = clean(server, 100)
        started_at = datetime.fromtimestamp(call.started_at, connection.timezone)
        rows.append(_to_row(call, prepare_time(started_at), servers[server], users[user]))
    return rows


def _to_row(call: RecordedCall, started_at: Any, server: str, user: Any) -> tuple[Any, ...]:
    duration_ms = call.duration_s * 1000
    minute, step = int(call.started_at // 60), step_of(duration_ms)
    return (started_at, minute, duration_ms, step, server, user, *_find_texts(call))
