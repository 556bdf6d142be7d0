"""Write server-sent events, one per JSON-RPC message.

The transports and the revision decide when to send a comment, a retry time or an id.
"""

from __future__ import annotations


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


def _one_line(text: str) -> bytes:
    if any(end in text for end in "\r\n\0"):
        raise ValueError(f"A field of an event must be one line without NUL: {text!r}")
    return text.encode()
