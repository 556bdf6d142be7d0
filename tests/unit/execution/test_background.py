"""The thread of a background writer."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from django_mcp.execution.background import BackgroundWriter


class Writer(BackgroundWriter[list[int]]):
    def __init__(self) -> None:
        super().__init__("refused-once", "numbers")
        self.queue: deque[int] = deque()
        self.stored: list[int] = []
        self.has_stored = threading.Event()

    def put(self, number: int) -> None:
        self.queue.append(number)
        self._wake()

    def _take(self) -> list[int] | None:
        return [self.queue.popleft()] if self.queue else None

    def _store(self, batch: list[int]) -> None:
        self.stored += batch
        if len(self.stored) == 2:
            self.has_stored.set()

    def _gather(self) -> None:
        self._is_filled.wait()


def test_a_thread_that_the_system_refused_once_is_started_with_a_later_entry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    writer = Writer()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", refuse)
        writer.put(1)
    assert "could not be started" in caplog.text
    writer.put(2)

    assert writer.has_stored.wait(30)
    writer.stop()
    assert writer.stored == [1, 2]
