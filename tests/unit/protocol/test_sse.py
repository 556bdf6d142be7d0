"""Server-sent events, out and in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol import sse
from tests.support.events import Event, Parser

LINES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]))


def read(stream: bytes) -> list[Event]:
    return Parser().feed(stream)


def test_a_message_is_one_event_of_three_lines():
    assert sse.event(b'{"id":1}') == b'event: message\ndata: {"id":1}\n\n'


def test_the_id_comes_before_the_data():
    assert sse.event(b"{}", id="a/7") == b"id: a/7\nevent: message\ndata: {}\n\n"


def test_comments_are_ignored_by_readers():
    parser = Parser()

    assert parser.feed(sse.COMMENT + b": still here\n\n") == []
    assert parser.comments == 2


def test_a_priming_event_has_an_id_and_empty_data():
    assert sse.priming("s1/0") == b"id: s1/0\ndata:\n\n"
    assert read(sse.priming("s1/0")) == [Event(data="", id="s1/0")]


def test_the_endpoint_event_contains_the_post_url():
    assert sse.endpoint("/messages?s=1") == b"event: endpoint\ndata: /messages?s=1\n\n"


@pytest.mark.parametrize("end", ["\n", "\r", "\0"])
def test_a_field_cannot_inject_another_field(end):
    text = f"x{end}data: forged"

    for write in (
        lambda: sse.event(b"", id=text),
        lambda: sse.priming(text),
        lambda: sse.endpoint(text),
    ):
        with pytest.raises(ValueError, match="one line"):
            write()


def test_a_negative_time_is_rejected():
    with pytest.raises(ValueError, match="negative"):
        sse.retry(-1)


@given(LINES, st.none() | LINES)
def test_sse_events_round_trip(text, id):
    (found,) = read(sse.event(text.encode(), id=id))

    assert found == Event(data=text, id=id)


WORDS = (b"data", b"event", b"id", b"retry", b":", b" ", b"7", b"\xc3\xa9", b"\0", b"\xff")
ENDS = (b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"data: x\n\n", b"id: 1\r\rdata:\n\n")
PIECES = st.sampled_from((*WORDS, *ENDS))


@given(st.lists(PIECES), st.data())
def test_a_stream_can_be_split_anywhere(pieces, data):
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    whole, parts = Parser(), Parser()

    expected = whole.feed(stream)
    found = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for event in parts.feed(stream[start:end])
    ]

    assert found == expected
    assert parts.last_event_id == whole.last_event_id
    assert (parts.retry_ms, parts.comments) == (whole.retry_ms, whole.comments)


@given(st.binary())
def test_any_bytes_can_be_read_one_by_one(stream):
    parser = Parser()

    found = [event for byte in stream for event in parser.feed(bytes([byte]))]

    assert found == read(stream)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [Event(data="a")]),
        (b"data:a\n\n", [Event(data="a")]),
        (b"data:  a\n\n", [Event(data=" a")]),
        (b"data\n\n", [Event(data="")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event(data="a")]),
        (b"data: a\ndata: b\n\n", [Event(data="a\nb")]),
        (b"data: a\r\rdata: b\r\n\r\n", [Event(data="a"), Event(data="b")]),
        (b"event: x\n\ndata: a\n\n", [Event(data="a")]),
        (b"event: x\ndata: a\n\n", [Event(data="a", event="x")]),
        (b"id: 1\nid: \0\ndata: a\n\n", [Event(data="a", id="1")]),
        (b"retry: 1x\ndata: a\n\n", [Event(data="a")]),
        (b"unknown: 1\n: comment\ndata: a\n\n", [Event(data="a")]),
        (b"data: unfinished\n", []),
    ],
)
def test_a_stream_is_parsed_like_in_browsers(stream, expected):
    assert read(stream) == expected


def test_the_last_id_outlives_its_event():
    parser = Parser()

    parser.feed(b"id: 5\ndata: a\n\ndata: b\n\nretry: 20\n\n")

    assert parser.last_event_id == "5"
    assert parser.retry_ms == 20
