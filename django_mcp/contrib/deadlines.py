"""Deadlines of whole exchanges over sockets, whose own timeout starts anew with each byte."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def hanging_up_at(deadline: float) -> Iterator[Callable[[socket.socket], None]]:
    """Yield what takes a connection, to end it at a deadline, also while another thread reads from it.

    What was read by then may look whole, so look at the clock afterwards.

    Args:
        deadline: of `time.monotonic()`.
    """
    watched: list[socket.socket] = []

    def hang_up() -> None:
        for connection in watched:
            try:
                # This ends a read that waits in another thread, unlike close().
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def watch(connection: socket.socket) -> None:
        # A copy: TLS takes the connection from its object.
        copied = socket.fromfd(connection.fileno(), connection.family, connection.type)
        watched.append(copied)
        if time.monotonic() >= deadline:
            raise TimeoutError

    timer = threading.Timer(max(deadline - time.monotonic(), 0.01), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        timer.join()
        for connection in watched:
            connection.close()
