"""The two pipes to the client: lines in and out, each with a thread of its own.

Blocking reads and writes in threads work on every platform, which watching pipes does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

__all__ = [
    "Line",
    "LineReader",
    "LineSplitter",
    "LineWriter",
    "TooLong",
    "end_on_signals",
    "size_of",
    "take_pipes",
]

READ_BYTES = 64 * 1024
MAX_AHEAD_BYTES = 4 * 1024 * 1024
"""What is read ahead of what was begun; the rest is left in the pipe."""

LINE_BYTES = 256
"""What a line is counted as beyond its length, so that short ones are bounded as well."""

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes that wait for a client that does not read; senders wait beyond that."""

ATOMIC_BYTES = min(getattr(select, "PIPE_BUF", 512), 4096)
"""What a pipe that is ready takes at once, without blocking."""


class TooLong:
    """Stands in place of a line that was too long to be kept."""


Line: TypeAlias = bytes | type[TooLong]


def size_of(line: Line) -> int:
    """Return what a line that waits is counted as."""
    return LINE_BYTES + (len(line) if isinstance(line, bytes) else 0)


@cache
def take_pipes() -> tuple[int, int]:
    """Return descriptors of the client's pipes, and keep everybody else away from them.

    From the first call on what prints, logs or inherits descriptors 0 and 1 reads nothing and
    writes to stderr, whatever its language.

    Raises:
        SystemExit: the process was started without one of them.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # Their numbers belong to whatever was opened since.
        raise SystemExit("mcp_stdio needs a standard input and output, and one of them is closed.")
    reading, writing = os.dup(0), os.dup(1)
    for each in (reading, writing):
        os.set_inheritable(each, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # Started without a stderr.
        os.dup2(nothing, 1)
    os.close(nothing)
    # What was printed while the site was loaded may still wait here; it is no message either.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if sys.platform == "win32":
        import msvcrt

        for each in (reading, writing):
            msvcrt.setmode(each, os.O_BINARY)
    return reading, writing


def end_on_signals() -> None:
    """Have the process end with status 0 when it is told to before it serves; it has done nothing."""
    # Elsewhere than in the main thread no signal arrives.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(0))


class LineSplitter:
    """Cuts what comes over a pipe into lines, without their ends; blank ones are left out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._is_too_long = False
        self._is_first = True

    def feed(self, data: bytes) -> list[Line]:
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
                # Its memory is given back at once.
                self._rest = bytearray()

    def _end(self, piece: bytes) -> Line | None:
        self._add(piece)
        line, is_too_long = bytes(self._rest).strip(b"\r \t"), self._is_too_long
        if self._rest:
            self._rest = bytearray()
        self._is_too_long = False
        return TooLong if is_too_long else line or None


class LineReader:
    """Reads lines in a thread and hands them to the event loop, a bounded way ahead of it.

    Args:
        descriptor: of the pipe.
        max_bytes: of a line.
        on_lines: called on the loop with lines as they come; with None at the end of input. It
            has each of them given back by `release` when it is done with it.
    """

    def __init__(
        self, descriptor: int, max_bytes: int, on_lines: Callable[[Sequence[Line] | None], None]
    ) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._on_lines = on_lines
        self._loop = asyncio.get_running_loop()
        self._ahead_bytes = 0
        self._may_read = threading.Condition()

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def release(self, size: int) -> None:
        """Read on, since lines of that size, as `size_of` counts, wait no longer."""
        with self._may_read:
            self._ahead_bytes -= size
            self._may_read.notify()

    def _read(self) -> None:
        splitter = LineSplitter(self._max_bytes)
        data = b"?"
        while data:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError:
                data = b""
            lines = splitter.feed(data)
            if lines and not self._hand_over(lines):
                return
        self._hand_over(None)

    def _hand_over(self, lines: Sequence[Line] | None) -> bool:
        with self._may_read:
            self._ahead_bytes += sum(map(size_of, lines or ()))
        try:
            self._loop.call_soon_threadsafe(self._on_lines, lines)
        except RuntimeError:
            # The loop is closed: nobody reads any more.
            return False
        if self._ahead_bytes > MAX_AHEAD_BYTES:
            with self._may_read:
                while self._ahead_bytes > MAX_AHEAD_BYTES:
                    self._may_read.wait()
        return True


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
        await self.wait_for_room()
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

    async def wait_for_room(self) -> None:
        """Wait while more than enough waits for the client to read it."""
        # All that wait are woken together, and the first may fill it again.
        while not self._has_room.is_set():
            await self._has_room.wait()

    async def wait_until_empty(self) -> None:
        """Wait until nothing waits for the client any more."""
        await self._is_empty.wait()

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_empty.wait()

    def _is_ready(self) -> bool:
        # Where the client has gone as well: the write then says so at once.
        return self._poll is not None and bool(self._poll.poll(0))

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # The client has gone; there is nobody to tell.
            self.is_broken = True
            self._call(self._break)

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
            if not self._call(self._look):
                return

    def _call(self, function: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            # The loop is closed: nobody writes any more.
            return False
        return True

    def _look(self) -> None:
        with self._wake:
            waiting = self._queued_bytes
        if waiting <= MAX_QUEUED_BYTES:
            self._has_room.set()
        if not waiting:
            self._is_empty.set()
