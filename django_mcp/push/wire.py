"""The hub's messages between processes: packed into few texts, and unpacked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from django_mcp.execution.outages import Warner
from django_mcp.protocol.json import JSONObject, decode, encode

MAX_MESSAGE_BYTES = 64 * 1024
"""Maximum size of a text. A larger message is dropped, with a line in the log."""

SLICE = 64
"""Messages that are handled before other work of the event loop has its turn."""

_oversized = Warner()


def pack(messages: Iterable[JSONObject]) -> list[str]:
    """Return messages in as few texts of `MAX_MESSAGE_BYTES` as they fit into."""
    texts: list[list[bytes]] = []
    size_bytes = MAX_MESSAGE_BYTES
    for message in messages:
        part = encode(message)
        if len(part) + 2 > MAX_MESSAGE_BYTES:
            _oversized.warn(
                "Dropped a message to other processes that is too large: %s", message["kind"]
            )
            continue
        if size_bytes + len(part) + 2 > MAX_MESSAGE_BYTES:
            texts.append([])
            size_bytes = 0
        texts[-1].append(part)
        size_bytes += len(part) + 1
    return [f"[{b','.join(parts).decode()}]" for parts in texts]


def unpack(body: Any) -> list[JSONObject]:
    """Return the messages in a text; none if it has another form."""
    if not isinstance(body, str) or len(body) > MAX_MESSAGE_BYTES:
        return []
    try:
        content = decode(body.encode())
    except ValueError:
        return []
    messages = content if isinstance(content, list) else [content]
    return [message for message in messages if isinstance(message, dict)]


async def hand_over(body: Any, receive: Callable[[JSONObject], None]) -> None:
    """Call `receive` with each message in a text, and let other work of the event loop run in between."""
    for number, message in enumerate(unpack(body)):
        receive(message)
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
