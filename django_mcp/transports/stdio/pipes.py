"""The two pipes to the client: lines in and out, each with a thread of its own.

Blocking reads and writes in threads work on every platform, which watching pipes does not.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from typing import Any

__all__ = ["LineReader", "LineSplitter", "LineWriter", "TooLong", "take_pipes"]

READ_BYTES = 64 * 1024
MAX_WAITING_LINES = 1024
"""Lines read ahead of those that were begun; more are left in the pipe."""

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes that wait for a client that does not read; senders wait beyond that."""

ATOMIC_BYTES = min(getattr(select, "PIPE_BUF", 512), 4096)
"""What a pipe that is ready takes at once, without blocking."""


class TooLong:
    """Stands in place of a line that was too long to be kept."""


def take_pipes() -> tuple[int, int]:
    """Return descriptors of the client's pipes, and keep everybody else away from them.

    From now on what prints, logs or inherits descriptors 0 and 1 reads nothing and writes to
    stderr, whatever its language.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    for each in (reading, writing):
        os.set_inheritable(each, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        for each in (reading, writing):
            msvcrt.setmode(each, os.O_BINARY)
    return reading, writing


class LineSplitter:
    """Cuts what comes over a pipe into lines, without their ends; blank ones are left out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._is_too_long = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | type[TooLong]]:
        """Return the lines that `data` completes; no data is the end, and ends a line as well."""
        if self._is_first:
            # Some shells put a byte order mark before what they pipe.
            data = data.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        *whole, rest = data.split(b"\n")
        found = [self._end(piece) for piece in whole]
        self._add(rest)
        if not data:
            found.append(self._end(b""))
        return [line for line in found if line is not None]

    def _add(self, piece: bytes) -> None:
        if not self._is_too_long:
            self._rest += piece
            if len(self._rest) > self._max_bytes:
                self._is_too_long = True
                self._rest.clear()

    def _end(self, piece: bytes) -> bytes | type[TooLong] | None:
        self._add(piece)
        line, is_too_long = bytes(self._rest).strip(b"\r \t"), self._is_too_long
        self._rest.clear()
        self._is_too_long = False
        return TooLong if is_too_long else line or None


class LineReader:
    """Reads lines in a thread and hands them to the event loop, at most some ahead of it.

    Iterate with `next`: bytes without their line end, `TooLong`, and at last None.
    """

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes | type[TooLong] | None] = deque()
        self._arrived = asyncio.Event()
        self._has_room = threading.Semaphore(MAX_WAITING_LINES)
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    async def next(self) -> bytes | type[TooLong] | None:
        """Return the next line; None at the end of input."""
        while not self._lines:
            self._arrived.clear()
            await self._arrived.wait()
        self._has_room.release()
        return self._lines.popleft()

    def _read(self) -> None:
        lines = LineSplitter(self._max_bytes)
        data = b"?"
        while data:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError:
                data = b""
            found: list[bytes | type[TooLong] | None] = [*lines.feed(data)]
            if not data:
                found.append(None)
            if found and not self._hand_over(found):
                return

    def _hand_over(self, lines: list[bytes | type[TooLong] | None]) -> bool:
        for _ in lines:
            self._has_room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._take, lines)
        except RuntimeError:
            # The loop is closed: nobody reads any more.
            return False
        return True

    def _take(self, lines: list[bytes | type[TooLong] | None]) -> None:
        self._lines.extend(lines)
        self._arrived.set()


class LineWriter:
    """Writes lines whole and in order; senders wait while the client does not read.

    What the pipe takes at once is written by the sender itself, the rest by a thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._thread: threading.Thread | None = None
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLOUT)
        self.is_broken = False
        self.broken = asyncio.Event()

    async def write(self, line: bytes) -> None:
        """Write a line; its end is added."""
        await self._has_room.wait()
        if self.is_broken:
            return
        data = line + b"\n"
        with self._wake:
            if not self._queue and len(data) <= ATOMIC_BYTES and self._is_ready():
                self._put(data)
                return
            self._queue.append(data)
            self._is_empty.clear()
            self._queued_bytes += len(data)
            if self._queued_bytes > MAX_QUEUED_BYTES:
                self._has_room.clear()
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="mcp-stdout", daemon=True)
            self._thread.start()

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, for a while."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_empty.wait()
        except TimeoutError:
            pass

    def _is_ready(self) -> bool:
        return self._poll is not None and any(
            event == select.POLLOUT for _, event in self._poll.poll(0)
        )

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # The client has gone; there is nobody to tell.
            self.is_broken = True
            self._loop.call_soon_threadsafe(self._break)

    def _break(self) -> None:
        self.broken.set()
        self._has_room.set()
        self._is_empty.set()

    def _write(self) -> None:
        while not self.is_broken:
            with self._wake:
                while not self._queue:
                    self._wake.wait()
                data = self._queue[0]
            self._put(data)
            with self._wake:
                self._queue.popleft()
                self._queued_bytes -= len(data)
            try:
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:
                # The loop is closed: nobody writes any more.
                return

    def _look(self) -> None:
        if self._queued_bytes <= MAX_QUEUED_BYTES:
            self._has_room.set()
        if not self._queue:
            self._is_empty.set()
