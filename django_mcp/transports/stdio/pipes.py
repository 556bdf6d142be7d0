"""The two pipes to the client, which threads read and write line by line."""

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

from django_mcp.server.exchange.timers import call_in_loop, wait_up_to

READ_BYTES = 64 * 1024
MAX_AHEAD_BYTES = 4 * 1024 * 1024
"""How much is read ahead of the lines being served; the rest stays in the pipe."""

LINE_BYTES = 256
"""Added to the length of each line when counted, so that short lines are bounded as well."""

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes buffered for a client that does not read, before senders have to wait."""

ATOMIC_BYTES = min(getattr(select, "PIPE_BUF", 512), 4096)
"""What a ready pipe accepts without blocking."""


class TooLong:
    """Stands in place of a line that was too long to keep."""


Line: TypeAlias = bytes | type[TooLong]


def size_of(line: Line) -> int:
    """Return the counted size of a waiting line."""
    return LINE_BYTES + (len(line) if isinstance(line, bytes) else 0)


@cache
def take_pipes() -> tuple[int, int]:
    """Return descriptors of the client's pipes, and redirect descriptors 0 and 1.

    From the first call on, anything else that uses descriptors 0 and 1 (`print`, logging, child
    processes) reads nothing and writes to stderr.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # Another file may have these numbers by now.
        raise SystemExit("mcp_stdio needs a standard input and output, and one of them is closed.")
    reading, writing = os.dup(0), os.dup(1)
    for pipe in (reading, writing):
        os.set_inheritable(pipe, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # Started without a stderr.
        os.dup2(nothing, 1)
    os.close(nothing)
    # What was printed while the site was loaded may still be buffered; it is not a message.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if sys.platform == "win32":
        import msvcrt

        for end in (reading, writing):
            msvcrt.setmode(end, os.O_BINARY)
    return reading, writing


def end_on_signals() -> None:
    """Make the process exit with status 0 if it gets a signal before it serves."""
    # Only the main thread receives signals.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(0))


class LineSplitter:
    """Split what a pipe delivers into lines without their ends, and drop blank ones."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._is_too_long = False
        self._is_first = True

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that `data` completes; without data, what is left is the last line."""
        if self._is_first:
            # Some shells put a byte order mark before what they pipe.
            data = data.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        *whole, rest = data.split(b"\n")
        messages = [self._end(piece) for piece in whole]
        self._add(rest)
        if not data:
            messages.append(self._end(b""))
        return [line for line in messages if line is not None]

    def _add(self, piece: bytes) -> None:
        if not self._is_too_long:
            self._rest += piece
            if len(self._rest) > self._max_bytes:
                self._is_too_long = True
                # Free its memory at once.
                self._rest = bytearray()

    def _end(self, piece: bytes) -> Line | None:
        self._add(piece)
        line, is_too_long = bytes(self._rest).strip(b"\r \t"), self._is_too_long
        self._rest.clear()
        self._is_too_long = False
        return TooLong if is_too_long else line or None


def _wait_for(descriptor: int, event: str) -> None:
    """Wait until a pipe that does not block is ready; Windows has none."""
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(descriptor, getattr(select, event))
        waiting.poll()


class LineReader:
    """Reads lines in a thread, up to a limit ahead of the event loop that takes them.

    The pipe may be non-blocking, since the program at its other end may share it.

    It calls `on_lines` on the loop with each batch of lines, and with None at the end of input. The
    size of each line must be returned by `release` when the line is done.
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
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def release(self, size: int) -> None:
        """Free the room of lines of that size, as `size_of` counts it."""
        with self._may_read:
            self._ahead_bytes -= size
            self._may_read.notify()

    def _read(self) -> None:
        splitter = LineSplitter(self._max_bytes)
        data = b"?"
        while data:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                _wait_for(self._descriptor, "POLLIN")
                continue
            except OSError:
                data = b""
            lines = splitter.feed(data)
            if lines and not self._hand_over(lines):
                return
        self._hand_over(None)

    def _hand_over(self, lines: Sequence[Line] | None) -> bool:
        with self._may_read:
            self._ahead_bytes += sum(map(size_of, lines or ()))
        # In a closed loop, nothing reads any more.
        if not call_in_loop(self._loop, self._on_lines, lines):
            return False
        if self._ahead_bytes > MAX_AHEAD_BYTES:
            with self._may_read:
                while self._ahead_bytes > MAX_AHEAD_BYTES:
                    self._may_read.wait()
        return True


class LineWriter:
    """Writes lines whole and in order; senders wait while the client does not read.

    The sender itself writes what the pipe accepts at once, a thread the rest.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_empty = asyncio.Event()
        """Set while everything is written."""
        self.is_empty.set()
        self._thread: threading.Thread | None = None
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLOUT)
        self.is_broken = False
        self.broken = asyncio.Event()

    async def send(self, message: bytes) -> None:
        """Write a line; its end is added. See `Sink.send`."""
        await self.wait_for_room()
        if self.is_broken:
            return
        data = message + b"\n"
        with self._wake:
            is_small = not self._queue and len(data) <= ATOMIC_BYTES
            # Also ready if the client has disconnected: the write then fails at once.
            if is_small and self._poll is not None and self._poll.poll(0):
                self._put(data)
                return
            self._queue.append(data)
            self.is_empty.clear()
            self._queued_bytes += len(data)
            if self._queued_bytes > MAX_QUEUED_BYTES:
                self._has_room.clear()
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="mcp-stdout", daemon=True)
            self._thread.start()

    async def wait_for_room(self) -> None:
        """Wait while too much is buffered for the client."""
        # All waiting senders wake together, and the first may fill the buffer again.
        while not self._has_room.is_set():
            await self._has_room.wait()

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, or until the timeout."""
        await wait_up_to(timeout_s, self.is_empty.wait())

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[os.write(self._descriptor, view) :]
                except BlockingIOError:
                    _wait_for(self._descriptor, "POLLOUT")
        except OSError:
            # The client has disconnected.
            self.is_broken = True
            call_in_loop(self._loop, self._break)

    def _break(self) -> None:
        self.broken.set()
        self._has_room.set()
        self.is_empty.set()

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
            # In a closed loop, nothing writes any more.
            if not call_in_loop(self._loop, self._look):
                return

    def _look(self) -> None:
        with self._wake:
            waiting = self._queued_bytes
        if waiting <= MAX_QUEUED_BYTES:
            self._has_room.set()
        if not waiting:
            self.is_empty.set()
