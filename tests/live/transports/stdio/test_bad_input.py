"""Bad input: each line gets the right error or none, and the next one is served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_mcp.transports.stdio.pipes import LineSplitter, TooLong
from tests.support.stdio.process import Process
from tests.support.wire import V2025_11_25, V2026_07_28, message

LIMIT = 1_000_000
"""MAX_BODY_BYTES of the site."""


@pytest.fixture(scope="module")
def client() -> Iterator[Process]:
    with Process() as process:
        process.initialize()
        yield process


def memory_kb(client: Process) -> int:
    """The most memory that the process ever had."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"junk", -32700),
        (b"{", -32700),
        (b"\xff\xfe{}", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}', -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b"null", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b"[" * 50_000, -32700),
        # More values than a message may have: it is not decoded.
        (b"[" * 100_000, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_junk_is_rejected_and_reading_continues(client: Process, line: bytes, code: int) -> None:
    client.write(line + b"\n")
    error = client.read()
    assert error["error"]["code"] == code
    assert "id" not in error
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "data",
    [b"%b\r\n", b"\n\n \n%b\n", b"  %b\t\n", b"\r\n%b\r\n\r\n"],
    ids=["crlf", "blank lines", "blanks", "blank crlf lines"],
)
def test_other_line_endings_and_blank_lines(client: Process, data: bytes) -> None:
    client.write(data % json.dumps(message("ping", revision=V2025_11_25, id="p")).encode())
    assert client.read() == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_a_byte_order_mark_before_the_first_line() -> None:
    with Process() as fresh:
        fresh.write(b"\xef\xbb\xbf")
        assert fresh.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("half", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":1,', "error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "result"),
    ],
    ids=["half a message", "no line end"],
)
def test_half_a_line_at_the_end_of_input(half: bytes, answered: str) -> None:
    with Process() as fresh:
        fresh.write(half)
        fresh.close_input()
        (answer,) = fresh.read_rest()
        assert answered in answer
        assert fresh.wait() == 0


def test_a_line_of_fifty_megabytes_is_rejected_and_not_buffered(client: Process) -> None:
    before_kb = memory_kb(client)
    chunk = b"x" * 1_000_000
    client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"')
    for _ in range(50):
        client.write(chunk)
    client.write(b'"}}\n')
    error = client.read()["error"]
    assert error["code"] == -32600
    assert str(LIMIT) in error["message"]
    assert client.ask("ping")["result"] == {}
    assert memory_kb(client) - before_kb < 16_000


def test_thousands_of_requests_at_once_are_all_answered(client: Process) -> None:
    tools = ("aecho", "echo")
    ids = [f"p{number}" for number in range(4000)]
    lines = [
        message(
            "tools/call",
            {"name": tools[number % 2], "arguments": {"text": each}},
            revision=(V2025_11_25, V2026_07_28)[number % 3 == 0],
            id=each,
        )
        for number, each in enumerate(ids)
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    found: dict[Any, str] = {}
    for start in range(0, len(data), 32_000):
        client.write(data[start : start + 32_000])
        while len(found) < start // 200:
            answer = client.read()
            found[answer["id"]] = answer["result"]["content"][0]["text"]
    while len(found) < len(ids):
        answer = client.read()
        found[answer["id"]] = answer["result"]["content"][0]["text"]
    assert found == {each: each for each in ids}


def test_a_duplicate_id_in_flight_is_rejected(client: Process) -> None:
    params = {"name": "wait_for_ever", "arguments": {}}
    client.begin("tools/call", params, id="twice")
    client.wait_for_noise("waiting")
    refused = client.ask("tools/call", params, id="twice")
    assert refused["error"]["code"] == -32600
    client.tell("notifications/cancelled", requestId="twice")
    echo = {"name": "aecho", "arguments": {"text": "x"}}
    # Until the handler has ended.
    while "error" in client.ask("tools/call", echo, id="twice"):
        pass


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "ask-1", "result": {}},
        {"id": 999, "error": {"code": 1, "message": "m"}},
        {"id": None, "error": {"code": 1, "message": "m"}},
    ],
    ids=["result", "error", "no id"],
)
def test_unexpected_responses_are_ignored(client: Process, answer: dict[str, Any]) -> None:
    client.send({"jsonrpc": "2.0", **answer})
    assert client.ask("ping")["result"] == {}


def test_no_work_is_done_for_a_stalled_client() -> None:
    with Process() as client:
        client.initialize()
        ids = [client.begin_call("blob", size=20_000) for _ in range(4000)]
        found = []
        for _ in ids:
            found.append(client.read()["id"])
            # Running and queued requests, and the buffers of the pipe and this client.
            assert client.noise.count("made") <= len(found) + 1024 + 300
        assert sorted(found) == ids


def test_a_client_that_never_reads_is_dropped() -> None:
    with Process() as client:
        client.initialize()
        for _ in range(500):
            client.begin_call("blob", size=100_000)
        client.close_input()
        assert client.wait() == 0
        assert "Traceback" not in client.noise


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_can_be_split_anywhere(size: int) -> None:
    data = b"\xef\xbb\xbfone\r\n\n  \ntwo two\n" + b"x" * 50 + b"\nthree\nfour"
    splitter = LineSplitter(20)
    # The byte order mark is looked for only in the first chunk.
    found = splitter.feed(data[:3])
    for start in range(3, len(data), size):
        found += splitter.feed(data[start : start + size])
    assert found + splitter.feed(b"") == [b"one", b"two two", TooLong, b"three", b"four"]
