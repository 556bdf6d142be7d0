"""Count the rows and bytes that callers have in a table of sessions' data."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any

from django.core.signals import setting_changed
from django.db.models import Count, Model, Sum
from django.db.models.expressions import Combinable

from django_mcp.conf import server_settings
from django_mcp.handlers.quotas import ANONYMOUS
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.quotas import Limits, Scope

__all__ = ["Usage"]

RECOUNT_S = 2.0
"""How long a process uses its counts. Our own limit."""

MAX_CALLERS = 1000
"""Callers whose counts a process caches. Our own limit."""


class Usage:
    """Counts the rows of a table approximately: in the database periodically, and here in between.

    Each method runs in a thread with connections.

    Args:
        model: the table, with a foreign key `session`.
        size: the bytes of a row.
        limits: on the rows of one caller of a server, and of all callers.
    """

    def __init__(self, model: type[Model], size: str | Combinable, limits: Limits) -> None:
        self.limits = limits
        self._model = model
        self._size = size
        self._lock = threading.Lock()
        self._counts: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()
        setting_changed.connect(self._forget)

    def take(self, session: Session, size: int, *, count: int = 1) -> Scope | None:
        """Count more rows of a session; return the scope of the limit that does not allow them."""
        limits, share = self.limits, server_settings.anonymous_share
        bounds: list[tuple[tuple[str, ...], float, float]] = [
            ((session.server_name, session.quota_key), limits.own_count, limits.own_bytes),
            ((), limits.count, limits.bytes),
        ]
        if session.quota_key.startswith(ANONYMOUS):
            bounds.append(((ANONYMOUS,), limits.count * share, limits.bytes * share))
        found = [self._find(key) for key, _, _ in bounds]
        for used, (key, max_count, max_bytes) in zip(found, bounds, strict=True):
            if (count > 0 and used[0] + count > max_count) or (
                size > 0 and used[1] + size > max_bytes
            ):
                return Scope.OWN if len(key) > 1 else Scope.ALL
        for used in found:
            used[0] += count
            used[1] += size
        return None

    def give_back(self, session: Session, size: int, *, count: int = 1) -> None:
        """Stop counting rows of a session."""
        keys: list[tuple[str, ...]] = [(session.server_name, session.quota_key), ()]
        if session.quota_key.startswith(ANONYMOUS):
            keys.append((ANONYMOUS,))
        for key in keys:
            used = self._counts.get(key)
            if used is not None:
                used[0] -= count
                used[1] -= size

    def _find(self, key: tuple[str, ...]) -> list[float]:
        """Return rows, bytes, and when these counts expire."""
        now_s = time.monotonic()
        with self._lock:
            used = self._counts.get(key)
        if used is None or now_s >= used[2]:
            used = [*self._count(key), now_s + RECOUNT_S]
            with self._lock:
                self._counts[key] = used
                self._counts.move_to_end(key)
                while len(self._counts) > MAX_CALLERS:
                    self._counts.popitem(last=False)
        return used

    def _count(self, key: tuple[str, ...]) -> tuple[int, int]:
        rows = self._model._default_manager.order_by()
        if len(key) > 1:
            rows = rows.filter(session__server=key[0], session__quota_key=key[1])
        elif key:
            rows = rows.filter(session__quota_key__startswith=ANONYMOUS)
        found = rows.aggregate(count=Count("pk"), bytes=Sum(self._size))
        return found["count"], found["bytes"] or 0

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        if setting in ("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"):
            self._counts.clear()
