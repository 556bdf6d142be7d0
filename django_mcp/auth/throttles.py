"""Counts for throttles in one of Django's caches, which all processes of a site share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.core.cache import caches

from django_mcp.conf import settings
from django_mcp.execution.outages import Warner
from django_mcp.execution.threads import run_in_pool
from django_mcp.process import PerProcess
from django_mcp.server.ports import StoreUnavailable

_trouble = Warner()


async def count_in_cache(keys: Sequence[tuple[str, int]]) -> list[int]:
    """Count in the cache `DJANGO_MCP["THROTTLE_CACHE"]`, off the event loop; see `RateCounter`."""
    try:
        return await run_in_pool(partial(_add, keys))
    except Exception as error:
        # Each kind of cache has errors of its own.
        _trouble.warn("Could not count for the throttles: %r", error)
        raise StoreUnavailable from error


def _add(keys: Sequence[tuple[str, int]]) -> list[int]:
    # Connections of `caches` belong to a task, so each request would open a new one.
    alias = settings.THROTTLE_CACHE
    kept: dict[str, Any] = vars(_local.get())
    if alias not in kept:
        kept[alias] = caches.create_connection(alias)
    return [_count(kept[alias], f"django_mcp.rate.{key}", timeout_s) for key, timeout_s in keys]


def _count(cache: Any, key: str, timeout_s: int) -> int:
    if cache.add(key, 1, timeout_s):
        return 1
    try:
        return int(cache.incr(key))
    except ValueError:
        # It was dropped in between.
        cache.set(key, 1, timeout_s)
        return 1


_local = PerProcess(threading.local, settings=("CACHES",))
"""Each thread's connections to caches."""
