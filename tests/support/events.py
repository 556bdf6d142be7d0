"""Parse server-sent events."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import Any

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True):
    """One event; `id` and `retry_ms` are set only if its own block had them."""

    data: str
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class Parser:
    """Parse a stream of events from chunks of any size.

    A block is kept until its end, so its size is not bounded.

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


def _is_number(value: str) -> bool:
    # A reconnection time of more than nine digits is over eleven days.
    return value.isascii() and value.isdigit() and len(value) <= 9
