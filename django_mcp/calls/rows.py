"""The tables of calls and of their counts: insert many rows in one statement, and find old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, get_type_hints

import msgspec
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Max, Min, Model, Q, QuerySet
from django.utils import timezone

from django_mcp.calls.call import RecordedCall, step_of
from django_mcp.conf import settings
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.tables import AT_ONCE, delete_some
from django_mcp.models.calls import CallRecord, CallTally
from django_mcp.protocol.sanitize import clean

_DAY = 24 * 60

KEPT_MINUTES = {15: 2 * _DAY, 2 * 60: 8 * _DAY}
"""How long spans of each width are kept, in minutes: those of a chart's points, and some more.

There are two widths because durations scatter: a short span has nearly as many tallies as calls."""

WHAT = ("server", "method", "name", "outcome", "step")
"""Fields of calls and tallies by which calls are counted."""

_KEY = ("width", "minute", *WHAT)


def text_fields(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields whose type is `str`, in order."""
    types = get_type_hints(cls)
    return tuple(field.name for field in fields(cls) if types[field.name] is str)


_TEXTS = text_fields(RecordedCall)
"""Fields of `CallRecord` with the value of the same attribute of a `RecordedCall`."""

COLUMNS = (
    "started_at",
    "minute",
    "duration_ms",
    "step",
    "result_chars",
    "result_bytes",
    "queue_ms",
    "handler_ms",
    "server",
    "user",
    *_TEXTS,
)
"""Fields of `CallRecord`, in the order of `_to_rows`."""

_find_texts = attrgetter(*_TEXTS)
_NAME = COLUMNS.index("name")
_COUNTED = itemgetter(*map(COLUMNS.index, ("minute", *WHAT)))


def insert(calls: Sequence[RecordedCall], counted: Sequence[RecordedCall] = ()) -> None:
    """Write calls, from a thread that may use the database; raises its errors.

    Args:
        calls: get a row each, and are counted.
        counted: are counted only.
    """
    alias = router.db_for_write(CallRecord) or DEFAULT_DB_ALIAS
    connection = connections[alias]
    both = (*calls, *counted)
    rows = _to_rows(both, connection, CallRecord._meta.get_field("user"))
    tallies = tally(
        _COUNTED(row if call.is_known else (*row[:_NAME], "", *row[_NAME + 1 :]))
        for call, row in zip(both, rows, strict=True)
    )

    def write() -> None:
        with transaction.atomic(alias):
            if calls:
                insert_rows(connection, CallRecord, COLUMNS, rows[: len(calls)])
            # Last, since other processes wait for these rows until the transaction ends.
            add_tallies(alias, tallies)

    run_with_connections(write, is_own_write=True)


def _to_rows(
    calls: Sequence[RecordedCall], connection: BaseDatabaseWrapper, user_field: Any
) -> list[tuple[Any, ...]]:
    prepare_time: Callable[[datetime], Any] = connection.ops.adapt_datetimefield_value
    # There are far fewer users and servers than calls.
    users: dict[Any, Any] = {None: None}
    servers: dict[str, str] = {}
    rows = []
    for call in calls:
        user, server = call.user_id, call.server.name
        if user not in users:
            users[user] = user_field.get_db_prep_save(user, connection)
        if server not in servers:
            servers[server] = clean(server, 100)
        started_at = datetime.fromtimestamp(call.started_at, connection.timezone)
        minute, duration_ms = int(call.started_at // 60), call.duration_s * 1000
        row = (
            prepare_time(started_at),
            minute,
            duration_ms,
            step_of(duration_ms),
            call.result_chars,
            call.result_bytes,
            None if call.queue_s is None else call.queue_s * 1000,
            None if call.handler_s is None else call.handler_s * 1000,
            servers[server],
            users[user],
            *_find_texts(call),
        )
        rows.append(row)
    return rows


def insert_rows(
    connection: BaseDatabaseWrapper,
    model: type[Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    suffix: str = "",
) -> None:
    """Insert rows in the order given.

    Args:
        model: the model of the table.
        columns: names of the model's fields, in the order of a row's values.
        rows: values in the form of the database driver.
        suffix: the end of the statement, such as an `ON CONFLICT` clause.
    """
    quote = connection.ops.quote_name
    targets: list[Any] = [model._meta.get_field(name) for name in columns]
    names = ", ".join(quote(field.column) for field in targets)
    target = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One text, which the database parses: a tenth of this process's cost of binding a
            # parameter for each value.
            values = ", ".join(
                f"(item->>{at})::{field.cast_db_type(connection)}"
                for at, field in enumerate(targets)
            )
            text = msgspec.json.encode(rows, enc_hook=str).decode()
            source = f"{values} FROM json_array_elements(%s) AS item"
            cursor.execute(f"{target} SELECT {source} {suffix}", [text])
        else:
            marks = ", ".join(["%s"] * len(targets))
            cursor.executemany(f"{target} VALUES ({marks}) {suffix}", rows)


def tally(calls: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of `CallTally`, in an order that is the same for all processes.

    Args:
        calls: the minute and the values of `WHAT` of each call.
    """
    tallies: Counter[tuple[Any, ...]] = Counter()
    # By minute first: a batch has one or two.
    for (minute, *what), count in Counter(calls).items():
        for width in KEPT_MINUTES:
            tallies[width, minute - minute % width, *what] += count
    # Without a fixed order, two processes that wait for each other's rows would deadlock.
    return [(*key, count) for key, count in sorted(tallies.items())]


def add_tallies(using: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows of `tally` to existing ones, in the caller's transaction."""
    connection = connections[using]
    quote = connection.ops.quote_name
    key, calls = ", ".join(map(quote, _KEY)), quote("calls")
    if connection.vendor == "mysql":
        suffix = f"ON DUPLICATE KEY UPDATE {calls} = {calls} + VALUES({calls})"
        insert_rows(connection, CallTally, (*_KEY, "calls"), rows, suffix)
        return
    if connection.features.supports_update_conflicts_with_target:
        total = f"{quote(CallTally._meta.db_table)}.{calls} + excluded.{calls}"
        suffix = f"ON CONFLICT ({key}) DO UPDATE SET {calls} = {total}"
        insert_rows(connection, CallTally, (*_KEY, "calls"), rows, suffix)
        return
    tallies = CallTally.objects.using(using)
    for *key_values, count in rows:
        values = dict(zip(_KEY, key_values, strict=True))
        _, is_new = tallies.get_or_create(**values, defaults={"calls": count})
        if not is_new:
            tallies.filter(**values).update(calls=F("calls") + count)


def old_calls(now: datetime) -> QuerySet[CallRecord]:
    """Return the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; none if all are kept."""
    using, days = router.db_for_write(CallRecord), settings.CALL_RETENTION_DAYS
    calls = CallRecord.objects.using(using)
    return calls.none() if days is None else calls.filter(started_at__lt=now - timedelta(days=days))


def old_tallies(now: datetime) -> QuerySet[CallTally]:
    """Return the counts of calls past their retention, and those that no chart shows."""
    minute, days = int(now.timestamp() // 60), settings.CALL_RETENTION_DAYS
    old = Q()
    for width, kept in KEPT_MINUTES.items():
        reach = kept if days is None else min(kept, days * 24 * 60)
        old |= Q(width=width, minute__lte=minute - reach - width)
    return CallTally.objects.using(router.db_for_write(CallRecord)).filter(old)


def find_prunes() -> list[Callable[[], int]]:
    """Return what deletes old calls, old counts, and calls above `MAX_CALL_RECORDS`; see `Pruner`."""
    now = timezone.now()
    return [
        lambda: delete_some(old_calls(now)),
        lambda: delete_some(old_tallies(now)),
        _SurplusPruner(),
    ]


class _SurplusPruner:
    """Deletes the oldest calls above `MAX_CALL_RECORDS`, those of anonymous callers first."""

    def __init__(self) -> None:
        self._left: int | None = None

    def __call__(self) -> int:
        calls = CallRecord.objects.using(router.db_for_write(CallRecord)).order_by("pk")
        if self._left is None:
            # Once for all of them, since counting reads the whole table.
            self._left = _count_surplus(calls)
        if self._left <= 0:
            return 0
        for rows in (calls.filter(principal=""), calls):
            keys = list(rows.values_list("pk", flat=True)[: min(self._left, AT_ONCE)])
            if keys:
                calls.filter(pk__in=keys).delete()
                self._left -= len(keys)
                return len(keys)
        return 0


def _count_surplus(calls: QuerySet[CallRecord]) -> int:
    most = settings.MAX_CALL_RECORDS
    if most is None:
        return 0
    # Numbers are given in order, so that there are no more calls than numbers.
    ends = calls.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None or ends["last"] - ends["first"] < most:
        return 0
    return calls.count() - most
