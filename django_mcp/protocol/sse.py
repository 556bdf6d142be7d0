"""Write server-sent events, and parse them for the test kit.

The writer makes one event per JSON-RPC message; the transports and the revision decide when to
send a comment, a retry time or an id.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Event", "Parser", "comment", "endpoint", "event", "priming"]

_LINE_ENDS = "\r\n\0"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def event(
    data: bytes,
    *,
    event: str | None = "message",
    id: str | None = None,
    retry_ms: int | None = None,
) -> bytes:
    """Return one event as bytes for the stream.

    Args:
        data: the payload; usually one line of JSON, but any line ends are kept.
        event: the event's name; without it, readers assume `message`.
        id: the value that a client sends back as `Last-Event-ID`.
        retry_ms: how long the client waits before it reconnects, in milliseconds.

    Raises:
        ValueError: a name or id holds a line end or NUL, or the time is negative.

    Source: WHATWG HTML section 9.2; 2025-11-25 basic/transports.
    """
    if event == "message" and id is None and retry_ms is None:
        head = b"event: message\n"
    else:
        head = _head(event, id, retry_ms)
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_lines(data))
    return b"%bdata: %b\n\n" % (head, data)


def comment(text: str = "") -> bytes:
    """Return a comment, which keeps an idle stream open and which readers ignore.

    Raises:
        ValueError: the text holds a line end or NUL.
    """
    # The blank line dispatches nothing, and helps readers that split the stream at blank lines.
    return f":{_one_line('comment', text)}\n\n".encode()


def priming(id: str, retry_ms: int | None = None) -> bytes:
    """Return the event that gives a client an id to resume from before the first message.

    Its data is empty, which clients of revisions other than 2025-11-25 try to parse as JSON.

    Source: 2025-11-25 basic/transports, Sending Messages to the Server.
    """
    return _head(None, id, retry_ms) + b"data:\n\n"


def retry(retry_ms: int) -> bytes:
    """Return the reconnection time for a client, which readers ignore.

    Source: 2025-11-25 basic/transports, Sending Messages to the Server.
    """
    return _head(None, None, retry_ms) + b"\n"


def endpoint(uri: str) -> bytes:
    """Return the first event of the HTTP+SSE transport, with the URL that the client posts to.

    Source: 2024-11-05 basic/transports, HTTP with SSE.
    """
    return event(_one_line("endpoint", uri).encode(), event="endpoint")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
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

    __slots__ = (
        "_block",
        "_has_begun",
        "_partial_line",
        "_was_carriage_return",
        "comments",
        "last_event_id",
        "retry_ms",
    )

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []
        self._was_carriage_return = False
        self._has_begun = False
        self._block = _Block()
        self.last_event_id: str | None = None
        self.retry_ms: int | None = None
        self.comments = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes, in order."""
        if not chunk:
            return []
        if self._was_carriage_return and chunk.startswith(b"\n"):
            # The CR at the end of the last chunk has ended the line already.
            chunk = chunk[1:]
            self._was_carriage_return = False
            if not chunk:
                return []
        self._was_carriage_return = chunk.endswith(b"\r")
        first, *others = _lines(chunk)
        self._partial_line.append(first)
        events: list[Event] = []
        for line in others:
            found = self._end_line(b"".join(self._partial_line))
            if found is not None:
                events.append(found)
            self._partial_line = [line]
        return events

    def _end_line(self, line: bytes) -> Event | None:
        if not self._has_begun:
            self._has_begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._end_block()
        if line.startswith(b":"):
            self.comments += 1
            return None
        name, _, value = line.decode("utf-8", "replace").partition(":")
        self._set_field(name, value.removeprefix(" "))
        return None

    def _set_field(self, name: str, value: str) -> None:
        if name == "data":
            self._block.data.append(value)
        elif name == "event":
            self._block.event = value
        elif name == "id" and "\0" not in value:
            self._block.id = self.last_event_id = value
        elif name == "retry" and _is_number(value):
            self._block.retry_ms = self.retry_ms = int(value)

    def _end_block(self) -> Event | None:
        block, self._block = self._block, _Block()
        if not block.data:
            return None
        return Event(
            data="\n".join(block.data),
            event=block.event or "message",
            id=block.id,
            retry_ms=block.retry_ms,
        )


class _Block:
    """The fields of the event being read."""

    __slots__ = ("data", "event", "id", "retry_ms")

    def __init__(self) -> None:
        self.data: list[str] = []
        self.event = ""
        self.id: str | None = None
        self.retry_ms: int | None = None


def _head(event: str | None, id: str | None, retry_ms: int | None) -> bytes:
    head = ""
    if id is not None:
        head += f"id: {_one_line('id', id)}\n"
    if event is not None:
        head += f"event: {_one_line('event', event)}\n"
    if retry_ms is not None:
        if retry_ms < 0:
            raise ValueError(f"retry_ms is {retry_ms}: a time cannot be negative")
        head += f"retry: {retry_ms:d}\n"
    return head.encode()


def _one_line(field: str, text: str) -> str:
    if any(end in text for end in _LINE_ENDS):
        raise ValueError(f"The {field} of an event must be one line without NUL: {text!r}")
    return text


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _is_number(value: str) -> bool:
    # A reconnection time of more than nine digits is over eleven days.
    return value.isascii() and value.isdigit() and len(value) <= 9
