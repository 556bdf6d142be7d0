"""Wait for the package's threads, which continue after the test that gave them work."""

from __future__ import annotations

import re
import threading
import time

ENDING = re.compile(r"django-mcp(-calls|-sessions|(-task|-own|-auth|-write)?_\d+)")
"""The names of threads that end when the settings change: those that write, and those of the pools."""


def wait_for_pools() -> None:
    """Wait until no thread of the pools works any more."""
    from django_mcp.execution import own_writes, threads

    pools, writes = threads._thread_pools.current, own_writes._pools.current
    of_handlers = () if pools is None else (pools.pool, pools.task_pool)
    of_queries = () if pools is None else (pools.our_pool, pools.authentication_pool)
    of_writes = () if writes is None else (writes.awaited, writes.left)
    all_pools = (*of_handlers, *of_writes, *of_queries)
    until_s = time.monotonic() + 20
    for pool in filter(None, all_pools):
        while (state := pool.find_state()).running or state.waiting:
            # There is no event to wait for.
            assert time.monotonic() < until_s, state
            time.sleep(0.001)


def wait_for_ended_threads() -> None:
    """Wait until the threads have ended that changed settings stop; each closes its connections first."""
    for thread in threading.enumerate():
        if ENDING.fullmatch(thread.name):
            thread.join(20)
            assert not thread.is_alive(), thread
