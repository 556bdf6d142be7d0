"""A bounded, fair queue for questions to the issuer of tokens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["QuestionQueue", "QueueFull"]

THREADS: Final = 8
"""Questions that are asked at the same time."""

THREADS_FOR_UNKNOWN: Final = 6
"""Questions about unknown tokens that are asked at the same time; known tokens have the rest."""

THREADS_PER_ADDRESS: Final = 3
"""Questions about unknown tokens from one address that are asked at the same time."""

MAX_WAITING: Final = 200
"""Questions about unknown tokens that wait for a thread."""

MAX_WAITING_PER_ADDRESS: Final = 50
"""Questions about unknown tokens from one address that wait for a thread."""

MAX_WAITING_KNOWN: Final = 1000
"""Questions about known tokens that wait for a thread."""


class QueueFull(Exception):
    """A question was not asked: too many others wait, or it waited for too long."""


@dataclass(eq=False, slots=True)
class _Question:
    """One question, and those who wait for its answer.

    Attributes:
        address: from where an unknown token came; None: the token is known.
    """

    key: Hashable
    ask: Callable[[], Any]
    address: str | None
    expires_at: float
    answers: list[Future[Any]] = field(default_factory=list)


class QuestionQueue:
    """Asks questions about tokens in threads of its own, about each token once at a time.

    Questions about tokens that were good before are asked first. The others follow by address: the one
    with the fewest questions under way is next. So many junk tokens delay neither known clients nor new
    clients at other addresses.

    Args:
        max_wait_s: how long a question may wait for a thread.
    """

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s = max_wait_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="django-mcp-introspect")
        self._lock = threading.Lock()
        self._open: dict[Hashable, _Question] = {}
        self._waiting: dict[_Question, None] = {}
        self._waiting_of: Counter[str | None] = Counter()
        self._running_of: Counter[str | None] = Counter()

    async def ask(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> Any:
        """Return the answer to a question.

        Args:
            key: the token that it is about.
            ask: asks it, in a thread.
            address: from where an unknown token came; None: the token is known.

        Raises:
            QueueFull: it was not asked.
        """
        answer: Future[Any] = Future()
        with self._lock:
            question = self._find_or_add(key, ask, address)
            question.answers.append(answer)
        self._start()
        try:
            return await asyncio.wrap_future(answer)
        finally:
            with self._lock:
                self._forget_abandoned(question, answer)

    def _find_or_add(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> _Question:
        question = self._open.get(key)
        if question is not None:
            return question
        if not self._has_room(address):
            raise QueueFull
        expires_at = time.monotonic() + self._max_wait_s
        question = _Question(key=key, ask=ask, address=address, expires_at=expires_at)
        self._open[key] = question
        self._waiting[question] = None
        self._waiting_of[address] += 1
        return question

    def _has_room(self, address: str | None) -> bool:
        if address is None:
            return self._waiting_of[None] < MAX_WAITING_KNOWN
        unknown = len(self._waiting) - self._waiting_of[None]
        return unknown < MAX_WAITING and self._waiting_of[address] < MAX_WAITING_PER_ADDRESS

    def _forget_abandoned(self, question: _Question, answer: Future[Any]) -> None:
        if answer in question.answers:
            question.answers.remove(answer)
        if not question.answers and question in self._waiting:
            self._stop_waiting(question)
            del self._open[question.key]

    def _stop_waiting(self, question: _Question) -> None:
        del self._waiting[question]
        _decrement(self._waiting_of, question.address)

    def _start(self) -> None:
        """Start as many questions as there are threads for."""
        with self._lock:
            expired = self._take_expired()
            next_ones = []
            while (question := self._find_next()) is not None:
                self._stop_waiting(question)
                self._running_of[question.address] += 1
                next_ones.append(question)
        for question in expired:
            _settle(question.answers, error=QueueFull())
        for question in next_ones:
            self._threads.submit(self._run, question)

    def _take_expired(self) -> list[_Question]:
        now = time.monotonic()
        expired = [each for each in self._waiting if each.expires_at <= now]
        for question in expired:
            self._stop_waiting(question)
            del self._open[question.key]
        return expired

    def _find_next(self) -> _Question | None:
        running = self._running_of.total()
        if running >= THREADS:
            return None
        if self._waiting_of[None]:
            return next(each for each in self._waiting if each.address is None)
        if running - self._running_of[None] >= THREADS_FOR_UNKNOWN:
            return None
        question = min(self._waiting, key=self._running_at, default=None)
        if question is None or self._running_at(question) >= THREADS_PER_ADDRESS:
            return None
        return question

    def _running_at(self, question: _Question) -> int:
        return self._running_of[question.address]

    def _run(self, question: _Question) -> None:
        found, error = None, None
        try:
            found = question.ask()
        except Exception as raised:  # noqa: BLE001 - those who wait raise it on
            error = raised
        with self._lock:
            _decrement(self._running_of, question.address)
            del self._open[question.key]
            answers = list(question.answers)
        _settle(answers, found, error)
        self._start()


def _settle(answers: list[Future[Any]], found: Any = None, error: Exception | None = None) -> None:
    for answer in answers:
        # One whose request ended meanwhile was cancelled.
        if not answer.set_running_or_notify_cancel():
            continue
        if error is None:
            answer.set_result(found)
        else:
            answer.set_exception(error)


def _decrement(counter: Counter[str | None], key: str | None) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
