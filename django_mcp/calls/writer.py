"""Write calls in batches, from one thread of each process, and send `tool_called`.

The queue is bounded: if the database cannot keep up, calls are dropped and a log message gives
their number. The rest of the queue is written when the process ends.
"""

from __future__ import annotations

import atexit
from collections import deque

from django_mcp.calls.call import RecordedCall
from django_mcp.execution.background import QUEUE_FULL, BackgroundWriter, send_signal
from django_mcp.process import PerProcess
from django_mcp.signals import tool_called

MAX_QUEUED = 10_000
BATCH = 1000
FLUSH_EVERY_S = 1.0

_Item = tuple[RecordedCall, bool, bool]


class _Writer(BackgroundWriter[list[_Item]]):
    def __init__(self) -> None:
        super().__init__("django-mcp-calls", "Calls")
        self._queue: deque[_Item] = deque()

    def put(self, item: _Item) -> None:
        queue = self._queue
        queued = len(queue)
        if queued >= MAX_QUEUED:
            self._drop(1, QUEUE_FULL)
            return
        queue.append(item)
        if queued == 0:
            self._wake()
        elif queued >= BATCH:
            self._is_due.set()

    def _take(self) -> list[_Item]:
        queue = self._queue
        return [queue.popleft() for _ in range(min(len(queue), BATCH))]

    def _store(self, batch: list[_Item]) -> None:
        calls = [call for call, is_recorded, _ in batch if is_recorded]
        try:
            if calls:
                # Loads models, which servers that record calls must not.
                from django_mcp.calls.rows import insert

                insert(calls)
        except Exception as error:  # noqa: BLE001 - the top of this thread's loop
            self._drop(len(calls), error)
        for call, _, is_told in batch:
            if is_told:
                send_signal(tool_called, call.server, call=call)

    def _gather(self) -> None:
        self._is_filled.wait()
        self._is_due.wait(FLUSH_EVERY_S)


_writer = PerProcess(_Writer, settings=("DJANGO_MCP", "DATABASES"), close=_Writer.stop)


def put(call: RecordedCall, *, is_recorded: bool, is_told: bool) -> None:
    """Queue a call, to be written, sent to receivers, or both. Takes a microsecond."""
    (_writer.current or _writer.get()).put((call, is_recorded, is_told))


def flush_calls() -> None:
    """Write the calls that are queued in this process now, from this thread.

    It is for the end of a process, and for tests with `SYNC_THREADS` 0, which have no writer thread;
    otherwise the thread does it every second.
    """
    _writer.get().flush()


atexit.register(flush_calls)
