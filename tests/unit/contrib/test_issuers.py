"""Documents of issuers: the whole answer has one deadline."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from django_mcp.contrib.issuers import FetchError, fetch_json

STATUS, HEADERS, BODY = b"HTTP/1.1 200 OK\r\n", b"X-Long: a\r\n\r\n", b"[1]" + b" " * 20


@contextmanager
def dripping(answer: list[bytes], slow: int) -> Iterator[tuple[str, threading.Event]]:
    """Serve an answer, one part of which comes byte by byte, and tell when all of it is sent."""
    pause, sent = threading.Event(), threading.Event()

    def serve() -> None:
        connection, _address = server.accept()
        with connection:
            connection.recv(4096)
            try:
                for index, part in enumerate(answer):
                    for byte in part if index == slow else ():
                        connection.sendall(bytes([byte]))
                        pause.wait(0.05)
                    if index != slow:
                        connection.sendall(part)
                sent.set()
            except OSError:
                return  # the other side has hung up

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", sent
        thread.join()


@pytest.mark.parametrize("slow", [0, 1, 2], ids=["status", "headers", "body"])
def test_an_answer_that_drips_ends_at_the_deadline(slow: int):
    with (
        dripping([STATUS, HEADERS, BODY], slow) as (url, sent),
        pytest.raises(FetchError, match="did not answer"),
    ):
        fetch_json(url, timeout_s=0.3)
    assert not sent.is_set()


def test_an_answer_within_the_deadline_is_taken():
    with dripping([STATUS, HEADERS, BODY], 1) as (url, _sent):
        assert fetch_json(url, timeout_s=60) == [1]
