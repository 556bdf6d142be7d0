"""Count calls as they are written, so that a chart of a week need not read each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Model

from django_mcp.models.calls import CallTally


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
    fields: list[Any] = [model._meta.get_field(name) for name in columns]
    names = ", ".join(quote(field.column) for field in fields)
    target = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One text, which the database parses: a tenth of this process's cost of binding a
            # parameter for each value.
            values = ", ".join(
                f"(item->>{at})::{field.cast_db_type(connection)}"
                for at, field in enumerate(fields)
            )
            text = msgspec.json.encode(rows, enc_hook=str).decode()
            source = f"{values} FROM json_array_elements(%s) AS item"
            cursor.execute(f"{target} SELECT {source} {suffix}", [text])
        else:
            marks = ", ".join(["%s"] * len(fields))
            cursor.executemany(f"{target} VALUES ({marks}) {suffix}", rows)


_DAY = 24 * 60

KEPT_MINUTES = {15: 2 * _DAY, 2 * 60: 8 * _DAY}
"""How long spans of each width are kept, in minutes: those of a chart's points, and some more.

There are two widths because durations scatter: a short span has nearly as many tallies as calls."""

WHAT = ("server", "method", "name", "outcome", "step")
"""Fields of calls and tallies by which calls are counted."""

_KEY = ("width", "minute", *WHAT)


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
    if not connection.features.supports_update_conflicts_with_target:
        _add_each(using, rows)
        return
    insert_rows(connection, CallTally, (*_KEY, "calls"), rows, _on_conflict(connection))


def _on_conflict(connection: BaseDatabaseWrapper) -> str:
    quote = connection.ops.quote_name
    key, calls = ", ".join(map(quote, _KEY)), quote("calls")
    total = f"{quote(CallTally._meta.db_table)}.{calls} + excluded.{calls}"
    return f"ON CONFLICT ({key}) DO UPDATE SET {calls} = {total}"


def _add_each(using: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows on a database without upserts that add."""
    tallies = CallTally.objects.using(using)
    for *key, calls in rows:
        values = dict(zip(_KEY, key, strict=True))
        _, is_new = tallies.get_or_create(**values, defaults={"calls": calls})
        if not is_new:
            tallies.filter(**values).update(calls=F("calls") + calls)
