"""Write server-sent events, and parse them for the test kit.

The writer makes one event per JSON-RPC message; the transports and the revision decide when to
send a comment, a retry time or an id.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import Any

from msgspec import Struct


def event(data: bytes, *, id: str | None = None) -> bytes:
    """Return the event of one JSON-RPC message, which is one line.

    Args:
        data: the message.
        id: the value that a client sends back as `Last-Event-ID`.

    Raises:
        ValueError: the id holds a line end or NUL.

    Source: WHATWG HTML section 9.2; 2025-11-25 basic/transports.
    """
    if id is None:
        return b"event: message\ndata: %b\n\n" % data
    return b"id: %b\nevent: message\ndata: %b\n\n" % (_one_line(id), data)


COMMENT = b":\n\n"
"""A comment, which keeps an idle stream open and which readers ignore.

The blank line dispatches nothing, and helps readers that split the stream at blank lines.
"""


def priming(id: str) -> bytes:
    """Return the event that gives a client an id to resume from before the first message.

    Its data is empty, which clients of revisions other than 2025-11-25 try to parse as JSON.

    Source: 2025-11-25 basic/transports, Sending Messages to the Server.
    """
    return b"id: %b\ndata:\n\n" % _one_line(id)


def retry(retry_ms: int) -> bytes:
    """Return the reconnection time for a client, which readers ignore.

    Source: 2025-11-25 basic/transports, Sending Messages to the Server.
    """
    if retry_ms < 0:
        raise ValueError(f"retry_ms is {retry_ms}: a time cannot be negative")
    return b"retry: %d\n\n" % retry_ms


def endpoint(uri: str) -> bytes:
    """Return the first event of the HTTP+SSE transport, with the URL that the client posts to.

    Source: 2024-11-05 basic/transports, HTTP with SSE.
    """
    return b"event: endpoint\ndata: %b\n\n" % _one_line(uri)


class Event(Struct, frozen=True, kw_only=True):
    """One event; `id` and `retry_ms` are set only if its own block had them."""

    data: str
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class Parser:
    """Parse a stream of events from chunks of any size.

    It is for tests and the test kit: a block is kept until its end, so its size is not bounded.

    Attributes:
        last_event_id: the newest id, the value for `Last-Event-ID`.
        retry_ms: the newest reconnection time, in milliseconds.
        comments: the number of comment lines, which are usually keep-alives.

    Source: WHATWG HTML sections 9.2.5 and 9.2.6.
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8-sig")("replace").decode
        self._line = ""
        self._was_carriage_return = False
        self._fields: dict[str, Any] = {}
        self.last_event_id: str | None = None
        self.retry_ms: int | None = None
        self.comments = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes, in order."""
        if self._was_carriage_return:
            # The CR at the end of the last chunk has ended the line already.
            self._was_carriage_return = not chunk
            chunk = chunk.removeprefix(b"\n")
        if chunk:
            self._was_carriage_return = chunk.endswith(b"\r")
        text = self._decode(chunk).replace("\r\n", "\n").replace("\r", "\n")
        first, *others = text.split("\n")
        *ended, self._line = (self._line + first, *others)
        return [event for line in ended if (event := self._end_line(line)) is not None]

    def _end_line(self, line: str) -> Event | None:
        if not line:
            return self._end_block()
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if colon and not name:
            self.comments += 1
        elif name == "data":
            self._fields.setdefault("data", []).append(value)
        elif name == "event":
            self._fields["event"] = value
        elif name == "id" and "\0" not in value:
            self._fields["id"] = self.last_event_id = value
        elif name == "retry" and _is_number(value):
            self._fields["retry_ms"] = self.retry_ms = int(value)
        return None

    def _end_block(self) -> Event | None:
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        name = fields.pop("event", "") or "message"
        return Event(data="\n".join(fields.pop("data")), event=name, **fields)


def _one_line(text: str) -> bytes:
    if any(end in text for end in "\r\n\0"):
        raise ValueError(f"A field of an event must be one line without NUL: {text!r}")
    return text.encode()


def _is_number(value: str) -> bool:
    # A reconnection time of more than nine digits is over eleven days.
    return value.isascii() and value.isdigit() and len(value) <= 9
