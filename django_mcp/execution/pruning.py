"""Delete rows that have expired: from time to time in each process, and some at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.execution.threads import run_later

if TYPE_CHECKING:
    from django.db.models import QuerySet

AT_ONCE = 500
"""Rows that are deleted with one statement, so that no query waits long. Our own limit."""

PAUSE_S = 0.02
"""Pause between two statements, so that other queries can run. Our own limit."""


def delete_some(rows: QuerySet[Any]) -> int:
    """Delete up to `AT_ONCE` of some rows, with the rows that refer to them; return how many."""
    # Loads the machinery of databases, which importing a server must not.
    from django.db import router

    # A replica may still show rows that are deleted.
    using = router.db_for_write(rows.model)
    keys = list(rows.using(using).values_list("pk", flat=True)[:AT_ONCE])
    if keys:
        rows.model._default_manager.using(using).filter(pk__in=keys).delete()
    return len(keys)


class Pruner:
    """Prunes a table or several, in a thread, when a process that writes them is due to do it.

    Args:
        every_s: seconds between two times. One takes less, so that they never overlap.
        clock: returns seconds.
        is_due: whether the first time is now.
    """

    def __init__(
        self,
        every_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_due: bool = True,
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._next_s = clock() + (0.0 if is_due else every_s)

    @property
    def is_due(self) -> bool:
        """Whether to prune now."""
        return self._clock() >= self._next_s

    def prune_if_due(self, *prunes: Callable[[], int]) -> None:
        """Prune, unless that was done recently. In a thread with connections.

        Args:
            prunes: each deletes some rows, and returns how many.
        """
        if self.is_due:
            self._next_s = self._clock() + self._every_s
            run_later(partial(prune_all, *prunes, max_s=self._every_s * 0.8))


def prune_all(*prunes: Callable[[], int], max_s: float) -> None:
    """Prune until nothing is left, or for so many seconds; the next time continues from there."""
    until_s = time.monotonic() + max_s
    for prune in prunes:
        while prune() and time.monotonic() < until_s:
            time.sleep(PAUSE_S)
