"""The least that could answer the measured requests: bare ASGI and JSON, no library, no checks.

What a call costs beyond this is ours; what it costs up to this is the server's and the machine's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = (b"content-type", b"application/json")
EVENTS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
CALL_RESULT = (
    b'{"jsonrpc":"2.0","id":1000000000,"result":{"content":[{"type":"text","text":"hello world"}],'
    b'"isError":false,"resultType":"complete"}}'
)
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


def _tool(number: int) -> dict[str, Any]:
    properties = {
        "name": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "active": {"type": "boolean", "default": True},
    }
    return {
        "name": f"filler_{number}",
        "description": f"A tool that only fills the list, number {number}.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["name"]},
    }


HUNDRED_TOOLS = encode([_tool(number) for number in range(100)])


async def application(scope: Message, receive: Receive, send: Send) -> None:
    """Answer tools/call of echo, aecho and progress, and tools/list."""
    if scope["type"] != "http":
        return
    request = decode(await _body(receive))
    number, params = request["id"], request["params"]
    if request["method"] == "tools/list":
        listed = b'{"jsonrpc":"2.0","id":%d,"result":{"tools":%s}}' % (number, HUNDRED_TOOLS)
        await _answer(send, listed)
    elif params["name"] == "progress":
        await _stream(send, number, params)
    else:
        content = [{"type": "text", "text": params["arguments"]["text"]}]
        result = {"content": content, "isError": False, "resultType": "complete"}
        await _answer(send, encode({"jsonrpc": "2.0", "id": number, "result": result}))


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _answer(send: Send, body: bytes) -> None:
    headers = [JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _stream(send: Send, number: int, params: Message) -> None:
    token, total = params["_meta"]["progressToken"], params["arguments"]["count"]
    await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
    for done in range(1, total + 1):
        progress = {"progressToken": token, "progress": done, "total": total}
        await _event(send, {"method": "notifications/progress", "params": progress}, more=True)
    content = [{"type": "text", "text": "done"}]
    await _event(send, {"id": number, "result": {"content": content}}, more=False)


async def _event(send: Send, message: Message, *, more: bool) -> None:
    frame = b"event: message\ndata: %s\n\n" % encode({"jsonrpc": "2.0", **message})
    await send({"type": "http.response.body", "body": frame, "more_body": more})
