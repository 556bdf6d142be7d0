"""Insert calls and their counts, many in one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django_mcp.calls.bulk import insert_rows
from django_mcp.calls.call import RecordedCall, step_of
from django_mcp.calls.tallies import WHAT, add_tallies, tally
from django_mcp.protocol.texts import clean

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["insert"]

COLUMNS = (
    "started_at",
    "minute",
    "duration_ms",
    "step",
    "server",
    "method",
    "name",
    "outcome",
    "reference",
    "user",
    "principal",
    "revision",
    "client_name",
    "client_version",
    "arguments",
)
"""Fields of `CallRecord`, in the order of `_to_row`."""

_COUNTED = itemgetter(*map(COLUMNS.index, ("minute", *WHAT)))


def insert(calls: Sequence[RecordedCall]) -> None:
    """Write calls, from a thread that may use the database; raises its errors."""
    # Servers record calls before models are loaded.
    from django.db import DEFAULT_DB_ALIAS, connections, router, transaction

    from django_mcp.handlers.db_connections import run_with_connections
    from django_mcp.models.calls import CallRecord

    alias = router.db_for_write(CallRecord) or DEFAULT_DB_ALIAS
    connection = connections[alias]
    fields: list[Any] = [CallRecord._meta.get_field(name) for name in COLUMNS]
    rows = _to_rows(calls, connection, fields[COLUMNS.index("user")])
    tallies = tally(map(_COUNTED, rows))

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
    return (
        started_at,
        int(call.started_at // 60),
        duration_ms,
        step_of(duration_ms),
        server,
        call.method,
        call.name,
        call.outcome,
        call.reference,
        user,
        call.principal,
        call.revision,
        call.client_name,
        call.client_version,
        call.arguments,
    )
