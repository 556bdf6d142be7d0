"""A bounded, fair queue for questions to the issuer of tokens, and a memory of what it answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

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
    """One question, and how many wait for its answer.

    Attributes:
        address: from where an unknown token came; None: the token is known.
    """

    key: Hashable
    ask: Callable[[], Any]
    address: str | None
    expires_at: float
    answer: Future[Any] = field(default_factory=Future)
    waiters: int = 0


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
        self._running: set[_Question] = set()

    async def ask(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> Any:
        """Return the answer to a question.

        Args:
            key: the token that it is about.
            ask: asks it, in a thread.
            address: from where an unknown token came; None: the token is known.

        Raises:
            QueueFull: it was not asked.
        """
        with self._lock:
            question = self._open.get(key) or self._add(key, ask, address)
            question.waiters += 1
        self._start()
        try:
            # Others wait for the same answer, so cancelling this one must not cancel it.
            return await asyncio.shield(asyncio.wrap_future(question.answer))
        finally:
            with self._lock:
                question.waiters -= 1
                if not question.waiters and question in self._waiting:
                    del self._waiting[question], self._open[key]

    def _add(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> _Question:
        waiting = Counter(each.address for each in self._waiting)
        if address is None:
            has_room = waiting[None] < MAX_WAITING_KNOWN
        else:
            is_busy = waiting.total() - waiting[None] >= MAX_WAITING
            has_room = not is_busy and waiting[address] < MAX_WAITING_PER_ADDRESS
        if not has_room:
            raise QueueFull
        question = _Question(key, ask, address, time.monotonic() + self._max_wait_s)
        self._open[key] = question
        self._waiting[question] = None
        return question

    def _start(self) -> None:
        """Start as many questions as there are threads for."""
        with self._lock:
            now = time.monotonic()
            expired = [each for each in self._waiting if each.expires_at <= now]
            for question in expired:
                del self._waiting[question], self._open[question.key]
            started = []
            while (found := self._find_next()) is not None:
                del self._waiting[found]
                self._running.add(found)
                started.append(found)
        for question in expired:
            question.answer.set_exception(QueueFull())
        for question in started:
            self._threads.submit(self._run, question)

    def _find_next(self) -> _Question | None:
        running = Counter(each.address for each in self._running)
        if running.total() >= THREADS:
            return None
        known = next((each for each in self._waiting if each.address is None), None)
        if known is not None or running.total() - running[None] >= THREADS_FOR_UNKNOWN:
            return known
        found = min(self._waiting, key=lambda each: running[each.address], default=None)
        return found if found is not None and running[found.address] < THREADS_PER_ADDRESS else None

    def _run(self, question: _Question) -> None:
        try:
            settle = partial(question.answer.set_result, question.ask())
        except Exception as error:  # noqa: BLE001 - raised again where the answer is awaited
            settle = partial(question.answer.set_exception, error)
        with self._lock:
            self._running.discard(question)
            del self._open[question.key]
        settle()
        self._start()
