"""The pool of threads: bounded, no thread lost, and nothing left behind. In its queue principals take turns."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp.execution.pool import FairQueue, LoopPool

LIMIT_S = 10.0


async def run(pool: LoopPool, function: Any, *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(pool, function, *args)


async def test_results_and_exceptions_reach_the_waiter():
    pool = LoopPool(2, "t")

    assert await run(pool, lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        await run(pool, lambda: 1 // 0)
    assert await run(pool, lambda: "still there") == "still there"


async def test_stop_iteration_in_a_thread_becomes_a_runtime_error():
    """A future does not accept StopIteration, so awaiting it would never return."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        async with asyncio.timeout(LIMIT_S):
            await run(LoopPool(1, "t"), lambda: next(iter(())))


async def test_queued_work_uses_every_free_thread_and_no_more():
    pool, meet = LoopPool(3, "three"), threading.Barrier(3)

    # Each three meet only if three run at once; a fourth would leave the barrier broken.
    indexes = await asyncio.gather(*(run(pool, meet.wait, LIMIT_S) for _ in range(9)))

    assert sorted(indexes) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len([each for each in threading.enumerate() if each.name.startswith("three_")]) <= 3


@pytest.fixture
def brief_turns() -> Iterator[None]:
    """Use a short switch interval, or else each hand-over waits for all computing threads."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    yield
    sys.setswitchinterval(before_s)


async def test_computing_threads_do_not_starve_others(brief_turns: None):
    pool, is_over = LoopPool(7, "t"), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            pass

    computing = [asyncio.ensure_future(run(pool, compute)) for _ in range(6)]
    try:
        for number in range(20):
            async with asyncio.timeout(LIMIT_S):
                assert await run(pool, lambda n=number: n) == number
    finally:
        is_over.set()
    await asyncio.gather(*computing)


async def test_work_is_done_whenever_it_is_submitted():
    pool = LoopPool(2, "t")

    async with asyncio.timeout(LIMIT_S):
        for number in range(300):
            await asyncio.sleep(0.0005 + number % 10 * 0.0001)
            assert await run(pool, lambda n=number: n) == number


@pytest.fixture
def long_turns() -> Iterator[None]:
    """Let a thread compute until it waits for something."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(100.0)
    yield
    sys.setswitchinterval(before_s)


def test_a_thread_that_wakes_late_does_not_delay_shutdown(long_turns: None):
    """Another one comes free between the hand-over and the end of its wait, and might take the work."""
    pool, meet, is_done = LoopPool(2, "late"), threading.Barrier(2), threading.Event()

    def hand_over() -> None:
        meet.wait(LIMIT_S)
        while len(pool.find_state().running) > 1:
            time.sleep(0.001)
        pool.leave(is_done.set)
        # The other thread has been woken, but cannot run before its time is over.
        end_s = time.monotonic() + 0.3
        while time.monotonic() < end_s:
            pass

    pool.leave(lambda: meet.wait(LIMIT_S))
    pool.leave(hand_over)
    assert is_done.wait(LIMIT_S)
    pool.close()
    serving = [each for each in threading.enumerate() if each.name.startswith("late_")]
    until_s = time.monotonic() + LIMIT_S
    for thread in serving:
        thread.join(max(0.0, until_s - time.monotonic()))
    have_ended = not any(each.is_alive() for each in serving)
    if not have_ended:
        # Only work still wakes the thread, which would hold up the end of the test run, too.
        pool.leave(lambda: None)

    assert have_ended


async def test_work_cancelled_before_it_starts_is_not_run():
    pool, release = LoopPool(1, "t"), threading.Event()
    run_late: list[int] = []
    first = asyncio.ensure_future(run(pool, release.wait, LIMIT_S))
    second = asyncio.ensure_future(run(pool, run_late.append, 1))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    release.set()

    assert await first
    assert await run(pool, lambda: "next") == "next"
    assert run_late == []


async def test_work_still_waits_if_no_thread_can_be_added(monkeypatch: pytest.MonkeyPatch):
    pool, release = LoopPool(1, "t", replacements=1), threading.Event()
    abandoned = asyncio.ensure_future(run(pool, release.wait, LIMIT_S))
    waiting = asyncio.ensure_future(run(pool, lambda: "done"))
    await asyncio.sleep(0)
    abandoned.cancel()
    await asyncio.wait([abandoned])

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        pool.replace_abandoned()
    release.set()

    async with asyncio.timeout(LIMIT_S):
        assert await waiting == "done"


async def test_a_thread_keeps_no_references_to_finished_work():
    class Held:
        pass

    pool, held = LoopPool(1, "t"), Held()
    seen = weakref.ref(held)
    await run(pool, lambda it: None, held)
    del held

    deadline_s = time.monotonic() + LIMIT_S
    while seen() is not None and time.monotonic() < deadline_s:
        gc.collect()
        await asyncio.sleep(0.001)
    assert seen() is None


def test_work_from_any_thread_finishes_before_interpreter_exit():
    """Threads that Python did not start are daemons, and a thread inherits that."""
    code = """
import _thread, threading, time
from django_mcp.execution.pool import FairQueue, LoopPool

pool, begun, left = LoopPool(1, "work"), threading.Event(), threading.Event()

def work():
    begun.set()
    left.wait(10)
    time.sleep(0.2)
    print("done", flush=True)

_thread.start_new_thread(lambda: pool.leave(work), ())
begun.wait(10)
left.set()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "done\n"


def take_all(queue: FairQueue[str]) -> list[str]:
    found = []
    while (entry := queue.take()) is not None:
        found.append(entry)
    return found


def test_keys_take_turns_and_entries_of_a_key_keep_their_order():
    queue: FairQueue[str] = FairQueue()
    for entry in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(entry[0], entry)

    assert take_all(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert queue.count == 0


def test_a_returning_key_goes_to_the_end():
    queue: FairQueue[str] = FairQueue()
    queue.put("a", "a1")
    queue.put("b", "b1")

    assert queue.take() == "a1"
    queue.put("a", "a2")

    assert take_all(queue) == ["b1", "a2"]


def test_a_discarded_entry_costs_its_key_no_turn():
    queue: FairQueue[str] = FairQueue()
    for entry in ("a1", "a2", "b1"):
        queue.put(entry[0], entry)

    assert queue.discard("a", "a1")
    assert not queue.discard("a", "a1")
    assert queue.discard("b", "b1")

    assert queue.count == 1
    assert take_all(queue) == ["a2"]
