"""Count calls as they are written, so that a chart of a week need not read each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.calls.bulk import insert_rows

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["KEPT_MINUTES", "WHAT", "add_tallies", "tally"]

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
    from django.db import connections

    from django_mcp.models.calls import CallTally

    connection = connections[using]
    if not connection.features.supports_update_conflicts_with_target:
        _add_each(using, rows)
        return
    insert_rows(connection, CallTally, (*_KEY, "calls"), rows, _on_conflict(connection))


def _on_conflict(connection: BaseDatabaseWrapper) -> str:
    from django_mcp.models.calls import CallTally

    quote = connection.ops.quote_name
    key, calls = ", ".join(map(quote, _KEY)), quote("calls")
    total = f"{quote(CallTally._meta.db_table)}.{calls} + excluded.{calls}"
    return f"ON CONFLICT ({key}) DO UPDATE SET {calls} = {total}"


def _add_each(using: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows on a database without upserts that add."""
    from django.db.models import F

    from django_mcp.models.calls import CallTally

    tallies = CallTally.objects.using(using)
    for *key, calls in rows:
        values = dict(zip(_KEY, key, strict=True))
        _, is_new = tallies.get_or_create(**values, defaults={"calls": calls})
        if not is_new:
            tallies.filter(**values).update(calls=F("calls") + calls)
