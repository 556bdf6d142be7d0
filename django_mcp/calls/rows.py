"""The tables of calls and of their counts: insert many rows in one statement, and find old ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, get_type_hints

import msgspec
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Max, Min, Q, QuerySet
from django.utils import timezone

from django_mcp.calls.call import RecordedCall, Sent, step_of
from django_mcp.calls.errors import add_errors, find_error_prunes
from django_mcp.calls.repeats import find_repeats, keep, old_last_calls
from django_mcp.calls.statements import insert_rows, upsert_rows
from django_mcp.conf import settings
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.tables import AT_ONCE, delete_some
from django_mcp.models.calls import CallRecord, CallTally
from django_mcp.models.errors import ErrorTally
from django_mcp.protocol.sanitize import clean

_DAY = 24 * 60

KEPT_MINUTES = {15: 2 * _DAY, 2 * 60: 8 * _DAY}
"""How long spans of each width are kept, in minutes: those of a chart's points, and some more.

A chart of a week would read eight times as many rows with the short spans alone."""

WHAT = ("server", "method", "name", "outcome")
"""Fields of calls and tallies by which calls are counted."""

PACKED = -1
"""The step of a tally that has the calls of all steps; others are of workers of an earlier version."""

Steps = dict[int, int]
"""The number of calls with each step of duration."""

SpanCount = tuple[tuple[Any, ...], Steps]
"""The width, the minute and the values of `WHAT` of calls, and their steps."""

_KEY = ("width", "minute", *WHAT, "step")
_ERROR_KEY = ("width", "minute", "fingerprint")


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
    "is_cut",
    "queue_ms",
    "handler_ms",
    "database_ms",
    "queries",
    "server",
    "user",
    *_TEXTS,
)
"""Fields of `CallRecord`, in the order of `_to_rows`."""

_find_texts = attrgetter(*_TEXTS)
_NAME = COLUMNS.index("name")
_COUNTED = itemgetter(*map(COLUMNS.index, ("step", "minute", *WHAT)))


def insert(
    calls: Sequence[RecordedCall],
    counted: Sequence[RecordedCall] = (),
    compared: Sequence[tuple[RecordedCall, Sent]] = (),
) -> None:
    """Write calls, from a thread that may use the database; raises its errors.

    Args:
        calls: get a row each, and are counted.
        counted: are counted only.
        compared: those of `calls` whose arguments are compared with those of the calls before.
    """
    alias = router.db_for_write(CallRecord) or DEFAULT_DB_ALIAS
    connection = connections[alias]
    both = (*calls, *counted)
    failed = [call for call in both if call.failed is not None]

    def write() -> None:
        # Before the transaction, since SQLite would not let one that has read wait for the lock.
        last = find_repeats(alias, compared) if compared else []
        rows = _to_rows(both, connection, CallRecord._meta.get_field("user"))
        tallies = tally(
            _COUNTED(row if call.is_known else (*row[:_NAME], "", *row[_NAME + 1 :]))
            for call, row in zip(both, rows, strict=True)
        )
        with transaction.atomic(alias):
            if calls:
                insert_rows(connection, CallRecord, COLUMNS, rows[: len(calls)])
            keep(alias, last)
            # Last, since other processes wait for these rows until the transaction ends.
            if failed:
                add_errors(failed)
                _add_error_tallies(alias, failed)
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
            call.is_cut,
            None if call.queue_s is None else call.queue_s * 1000,
            None if call.handler_s is None else call.handler_s * 1000,
            None if call.database_s is None else call.database_s * 1000,
            call.queries,
            servers[server],
            users[user],
            *_find_texts(call),
        )
        rows.append(row)
    return rows


def tally(calls: Iterable[tuple[Any, ...]]) -> list[SpanCount]:
    """Count calls, in an order that is the same for all processes.

    Args:
        calls: the step, the minute and the values of `WHAT` of each call.
    """
    tallies: defaultdict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    # By minute first: a batch has one or two.
    for (step, minute, *what), count in Counter(calls).items():
        for width in KEPT_MINUTES:
            tallies[width, minute - minute % width, *what][step] += count
    # Without a fixed order, two processes that wait for each other's rows would deadlock.
    return sorted(tallies.items(), key=itemgetter(0))


def add_tallies(using: str, tallies: Sequence[SpanCount]) -> None:
    """Add the counts of `tally` to existing ones, in the caller's transaction."""
    counts = [(*key, PACKED, sum(steps.values())) for key, steps in tallies]
    upsert_rows(
        using, CallTally, (*_KEY, "calls"), counts, key=_KEY, changed=("calls",), is_sum=True
    )
    # The transaction has changed these rows, so that no other can change them until it ends.
    known = _find_steps(using, [key for key, _ in tallies])
    packed = []
    for key, steps in tallies:
        total = Counter(known.get(key)) + Counter(steps)
        packed.append((*key, PACKED, 0, pack(total)))
    columns = (*_KEY, "calls", "steps")
    upsert_rows(using, CallTally, columns, packed, key=_KEY, changed=("steps",))


def _add_error_tallies(using: str, failed: Sequence[RecordedCall]) -> None:
    tallies: Counter[tuple[Any, ...]] = Counter()
    for call in failed:
        minute = int(call.started_at // 60)
        for width in KEPT_MINUTES:
            tallies[width, minute - minute % width, call.fingerprint] += 1
    # In the order of all processes, see `tally`.
    rows = [(*key, count) for key, count in sorted(tallies.items())]
    columns = (*_ERROR_KEY, "calls")
    upsert_rows(using, ErrorTally, columns, rows, key=_ERROR_KEY, changed=("calls",), is_sum=True)


def pack(steps: Steps) -> str:
    """Return steps as a tally has them."""
    return msgspec.json.encode(steps).decode()


def unpack(step: int, calls: int, steps: str | None) -> Steps:
    """Return the steps of a tally with these values."""
    return _DECODER.decode(steps) if steps else {step: calls}


_DECODER = msgspec.json.Decoder(Steps)


def _find_steps(using: str, keys: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], Steps]:
    names: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for width, minute, _, _, name, _ in keys:
        names[width, minute].add(name)
    return {
        tuple(key): unpack(PACKED, 0, steps)
        for (width, minute), called in names.items()
        for *key, steps in CallTally.objects.using(using)
        .filter(width=width, minute=minute, step=PACKED, name__in=called)
        .exclude(steps=None)
        .values_list(*_KEY[:-1], "steps")
    }


def old_calls(now: datetime) -> QuerySet[CallRecord]:
    """Return the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; none if all are kept."""
    using, days = router.db_for_write(CallRecord), settings.CALL_RETENTION_DAYS
    calls = CallRecord.objects.using(using)
    return calls.none() if days is None else calls.filter(started_at__lt=now - timedelta(days=days))


def old_tallies(now: datetime, model: type[CallTally | ErrorTally] = CallTally) -> QuerySet[Any]:
    """Return the counts of calls, or of errors, past their retention, and those that no chart shows."""
    minute, days = int(now.timestamp() // 60), settings.CALL_RETENTION_DAYS
    old = Q()
    for width, kept in KEPT_MINUTES.items():
        reach = kept if days is None else min(kept, days * 24 * 60)
        old |= Q(width=width, minute__lte=minute - reach - width)
    return model.objects.using(router.db_for_write(CallRecord)).filter(old)


def find_prunes() -> list[Callable[[], int]]:
    """Return what deletes old calls, counts and errors, and those above their limits; see `Pruner`."""
    now = timezone.now()
    return [
        lambda: delete_some(old_calls(now)),
        lambda: delete_some(old_tallies(now)),
        lambda: delete_some(old_tallies(now, ErrorTally)),
        *find_error_prunes(now),
        lambda: delete_some(old_last_calls(now.timestamp())),
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
