"""The queue of introspection requests: its order, and its limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp.contrib import introspection as questions
from django_mcp.contrib.introspection import IntrospectionQueueFull, QuestionQueue
from tests.support.auth.asking import LIMIT_S


class Issuer:
    """Answers each request with its token, once it is released.

    What is asked at the same time is asked in any order: each question has a thread of its own.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.came = threading.Semaphore(0)
        self._may_answer: dict[str, threading.Event] = {}
        self._answers_all = False

    def about(self, token: str) -> Callable[[], str]:
        may_answer = self._may_answer.setdefault(token, threading.Event())
        if self._answers_all:
            may_answer.set()

        def ask() -> str:
            self.asked.append(token)
            self.came.release()
            may_answer.wait(LIMIT_S)
            return token

        return ask

    def answer(self, token: str) -> None:
        self._may_answer[token].set()

    def answer_all(self) -> None:
        self._answers_all = True
        for token in self._may_answer:
            self.answer(token)

    async def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert await asyncio.to_thread(self.came.acquire, timeout=LIMIT_S)


class Asking:
    """A queue in front of an issuer that delays its responses."""

    def __init__(self, max_wait_s: float = LIMIT_S) -> None:
        self.issuer = Issuer()
        self.queue = QuestionQueue(max_wait_s)

    def ask(self, token: str, address: str | None = "a") -> asyncio.Task[Any]:
        return asyncio.create_task(self.queue.ask(token, self.issuer.about(token), address))

    async def end(self, *tasks: asyncio.Task[Any]) -> list[Any]:
        self.issuer.answer_all()
        async with asyncio.timeout(LIMIT_S):
            return list(await asyncio.gather(*tasks, return_exceptions=True))


async def test_an_address_cannot_use_all_threads():
    asking = Asking()
    tasks = [asking.ask(f"a{number}") for number in range(10)]
    await asking.issuer.wait_for(questions.THREADS_PER_ADDRESS)
    other = asking.ask("b", "b")
    await asking.issuer.wait_for(1)

    assert sorted(asking.issuer.asked) == ["a0", "a1", "a2", "b"]
    assert len(await asking.end(*tasks, other)) == 11
    assert len(asking.issuer.asked) == 11


async def test_unknown_tokens_leave_threads_to_known_ones():
    asking = Asking()
    tasks = [asking.ask(f"t{number}", f"{number}") for number in range(20)]
    await asking.issuer.wait_for(questions.THREADS_FOR_UNKNOWN)
    tasks += [asking.ask(f"known{number}", None) for number in range(2)]
    await asking.issuer.wait_for(2)

    assert sorted(asking.issuer.asked[-2:]) == ["known0", "known1"]
    assert len(asking.issuer.asked) == questions.THREADS
    await asking.end(*tasks)


async def test_the_address_with_the_fewest_requests_is_next():
    asking = Asking()
    tasks = [asking.ask(f"a{number}", "a") for number in range(9)]
    await asking.issuer.wait_for(3)
    tasks += [asking.ask(f"b{number}", "b") for number in range(9)]
    await asking.issuer.wait_for(3)
    tasks.append(asking.ask("c", "c"))
    await asking.queue.ask("known", lambda: None, None)
    assert "c" not in asking.issuer.asked
    asking.issuer.answer("a0")
    await asking.issuer.wait_for(1)

    assert asking.issuer.asked[6:] == ["c"]
    await asking.end(*tasks)


async def test_the_queue_is_bounded_for_each_address_and_in_all():
    asking = Asking()
    most = questions.MAX_WAITING_PER_ADDRESS + questions.THREADS_PER_ADDRESS
    tasks = [asking.ask(f"a{number}", "a") for number in range(most)]
    await asking.issuer.wait_for(questions.THREADS_PER_ADDRESS)
    with pytest.raises(IntrospectionQueueFull):
        await asking.ask("one too many", "a")
    waiting = questions.MAX_WAITING_PER_ADDRESS
    free = questions.THREADS_FOR_UNKNOWN - questions.THREADS_PER_ADDRESS
    many = range(questions.MAX_WAITING - waiting + free)
    tasks += [asking.ask(f"b{number}", f"b{number}") for number in many]
    await asking.issuer.wait_for(free)
    with pytest.raises(IntrospectionQueueFull):
        await asking.ask("one too many", "c")

    known = asking.ask("known", None)
    assert set(await asking.end(*tasks, known)) >= {"known", "a0", "b0"}
    assert await asking.ask("one more", "a") == "one more"


async def test_an_abandoned_request_is_not_sent():
    asking = Asking()
    tasks = [asking.ask(f"a{number}") for number in range(3)]
    await asking.issuer.wait_for(3)
    gone = asking.ask("gone")
    left, stays = asking.ask("shared"), asking.ask("shared")
    await asyncio.sleep(0)
    gone.cancel()
    left.cancel()
    await asyncio.sleep(0)

    assert (await asking.end(*tasks, stays))[-1] == "shared"
    assert sorted(asking.issuer.asked) == ["a0", "a1", "a2", "shared"]


async def test_a_request_queued_for_too_long_is_not_sent():
    asking = Asking(max_wait_s=0)
    tasks = [asking.ask(f"a{number}") for number in range(5)]

    answers = await asking.end(*tasks)

    assert all(isinstance(each, IntrospectionQueueFull) for each in answers)
    assert asking.issuer.asked == []


async def test_a_failed_request_fails_for_all_waiters_and_frees_its_thread():
    queue = QuestionQueue(LIMIT_S)

    def fail() -> None:
        raise OSError("away")

    for _ in range(3):
        tasks = [asyncio.create_task(queue.ask("t", fail, "a")) for _ in range(20)]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, OSError) for each in answers)
    assert await queue.ask("t", lambda: 1, "a") == 1
