"""Wait for the package's threads, which continue after the test that gave them work."""

from __future__ import annotations

import threading
import time

WRITERS = ("django-mcp-calls", "django-mcp-sessions")


def wait_for_pools() -> None:
    """Wait until no thread of the pools works any more."""
    from django_mcp.execution import own_writes, threads

    lanes, writes = threads._lanes.current, own_writes._pools.current
    of_handlers = () if lanes is None else (lanes.pool, lanes.task_pool)
    of_queries = () if lanes is None else (lanes.our_pool, lanes.authentication_pool)
    of_writes = () if writes is None else (writes.awaited, writes.left)
    pools = (*of_handlers, *of_writes, *of_queries)
    until_s = time.monotonic() + 20
    for pool in filter(None, pools):
        while (state := pool.find_state()).running or state.waiting:
            # There is no event to wait for.
            assert time.monotonic() < until_s, state
            time.sleep(0.001)


def wait_for_stopped_writers() -> None:
    """Wait until the threads that write calls and sessions have ended; changed settings stop them."""
    for thread in threading.enumerate():
        if thread.name in WRITERS:
            thread.join(20)
            assert not thread.is_alive(), thread
