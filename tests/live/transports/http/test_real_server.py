"""A driver and the core together, over real sockets."""

import json
from typing import Any

import pytest

from django_mcp.protocol.revisions import Revision
from tests.support.http.rawhttp import Response, connect, post
from tests.support.sites import Running
from tests.support.wire import (
    HANDSHAKE,
    META,
    V2025_03_26,
    V2025_11_25,
    V2026_07_28,
    headers_for,
    message,
)

PATHS = pytest.mark.parametrize("path", ["/real", "/real-view"])


def call(
    path: str, name: str, arguments: dict[str, Any], revision: Revision = V2026_07_28, **meta: Any
) -> bytes:
    params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
    request = message("tools/call", params, revision=revision)
    return post(path, json.dumps(request).encode(), headers_for(request, revision))


async def ask(site: Running, raw: bytes) -> Response:
    async with connect(site.host, site.port) as client:
        return await client.ask(raw)


def messages_of(response: Response) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in response.events]


@PATHS
@pytest.mark.parametrize("revision", [*HANDSHAKE, V2026_07_28])
@pytest.mark.parametrize("tool", ["echo", "echo_in_thread"])
async def test_a_call_is_answered_at_each_revision(
    site: Running, path: str, revision: Revision, tool: str
):
    answer = await ask(site, call(path, tool, {"text": "hello"}, revision))

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["result"]["content"][0]["text"] == "hello"


@PATHS
@pytest.mark.parametrize("revision", [V2025_03_26, V2026_07_28])
@pytest.mark.parametrize("tool", ["count", "count_in_thread"])
async def test_progress_is_streamed_before_the_response(
    site: Running, path: str, revision: Revision, tool: str
):
    answer = await ask(site, call(path, tool, {"to": 5}, revision, progressToken="t"))

    assert answer.headers["content-type"] == "text/event-stream"
    *progress, last = messages_of(answer)
    assert [each["params"]["progress"] for each in progress] == [1, 2, 3, 4, 5]
    assert {each["method"] for each in progress} == {"notifications/progress"}
    assert not any("id" in each for each in progress)
    assert last["result"]["content"][0]["text"] == "done"


@PATHS
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
async def test_a_disconnect_cancels_the_call_if_the_revision_says_so(
    site: Running, path: str, revision: Revision
):
    name = f"{path} {revision.name}"
    async with connect(site.host, site.port) as client:
        await client.send(call(path, "hold", {"name": name}, revision))
        await ask(site, call(path, "await_event", {"event": f"{name} runs"}))
    if revision is V2026_07_28:
        seen = await ask(site, call(path, "await_event", {"event": f"{name} was cancelled"}))
    else:
        await ask(site, call(path, "mark", {"event": f"{name} may go"}))
        seen = await ask(site, call(path, "await_event", {"event": f"{name} is done"}))

    assert seen.json["result"]["content"][0]["text"] == "there"


@PATHS
async def test_a_shielded_call_is_cancelled_after_its_shield(site: Running, path: str):
    name = f"shield {path}"
    async with connect(site.host, site.port) as client:
        await client.send(call(path, "hold_shielded", {"name": name}))
        await ask(site, call(path, "await_event", {"event": f"{name} runs"}))
    # When another client's disconnect is noticed, this one's has been noticed as well.
    async with connect(site.host, site.port) as other:
        await other.send(call(path, "hold", {"name": f"other {path}"}))
        await ask(site, call(path, "await_event", {"event": f"other {path} runs"}))
    await ask(site, call(path, "await_event", {"event": f"other {path} was cancelled"}))
    await ask(site, call(path, "mark", {"event": f"{name} may go"}))
    await ask(site, call(path, "await_event", {"event": f"{name} is done"}))

    seen = await ask(site, call(path, "marked", {"name": name}))
    assert seen.json["result"]["structuredContent"] == [
        f"{name} is done",
        f"{name} may go",
        f"{name} runs",
    ]


@PATHS
async def test_a_sync_call_detects_a_disconnect_and_is_rolled_back(site: Running, path: str):
    """Its writes are rolled back although it returned."""
    name = f"written {path}"
    await ask(site, call(path, "make_notes", {}))
    async with connect(site.host, site.port) as client:
        await client.send(call(path, "write_and_wait", {"name": name}))
        await ask(site, call(path, "await_mark", {"mark": f"{name} runs"}))
    seen = await ask(site, call(path, "await_mark", {"mark": f"{name} saw it"}))
    left = await ask(site, call(path, "count_notes", {"name": name}))

    assert seen.json["result"]["structuredContent"] is True
    assert left.json["result"]["structuredContent"] == 0


@PATHS
async def test_an_unknown_method_is_not_found_even_with_sse_accepted(site: Running, path: str):
    request = message("no/such", revision=V2026_07_28, id="a")
    raw = post(path, json.dumps(request).encode(), headers_for(request, V2026_07_28))
    answer = await ask(site, raw)

    assert answer.status == 404
    assert answer.json["id"] == "a"
    assert answer.json["error"]["code"] == -32601


DEEP = b"[" * 20_000
BAD_BODIES = {
    "nothing": (b"", -32700),
    "no JSON": (b"hello", -32700),
    "invalid UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
    "a lone surrogate": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
    "brackets without end": (DEEP, -32700),
    "deep nesting": (DEEP + b"]" * 20_000, -32700),
    "deep nesting in params": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + DEEP + b"]" * 20_000 + b"}}",
        -32700,
    ),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "id true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    "id 1.5": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "an empty batch": (b"[]", -32600),
    "a batch of nothing": (b"[1]", -32600),
    "a string": (b'"ping"', -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "no version": (b'{"id":1,"method":"ping"}', -32600),
}


@PATHS
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
@pytest.mark.parametrize(("body", "code"), BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_bad_body_is_a_bad_request(
    site: Running, path: str, revision: Revision, body: bytes, code: int
):
    headers = {"MCP-Protocol-Version": revision.name, "Mcp-Method": "ping"}
    async with connect(site.host, site.port) as client:
        refused = await client.ask(post(path, body, headers))
        after = await client.ask(call(path, "echo", {"text": "still here"}))

    assert refused.status == 400
    assert refused.headers["content-type"] == "application/json"
    assert refused.json["error"]["code"] == code
    assert after.status == 200


@PATHS
async def test_a_number_of_5000_digits_is_answered(site: Running, path: str):
    raw = call(path, "echo", {"text": "x"})
    head, _, body = raw.partition(b"\r\n\r\n")
    body = body.replace(b'"id": 1,', b'"id": ' + b"9" * 5000 + b",")
    length = len(raw.partition(b"\r\n\r\n")[2])
    head = head.replace(b"Content-Length: %d" % length, b"Content-Length: %d" % len(body))
    answer = await ask(site, head + b"\r\n\r\n" + body)

    assert answer.status in (200, 400)
    assert answer.headers["content-type"] == "application/json"


@PATHS
async def test_a_call_that_asks_returns_its_questions(site: Running, path: str):
    """Whether or not something was streamed before."""
    takes_forms: dict[str, Any] = {
        META + "clientCapabilities": {"elicitation": {}},
    }
    quiet = await ask(site, call(path, "count_and_ask", {}, **takes_forms))
    told = await ask(site, call(path, "count_and_ask", {}, progressToken="t", **takes_forms))
    progress, last = messages_of(told)

    assert quiet.headers["content-type"] == "application/json"
    assert quiet.json["result"]["resultType"] == "input_required"
    assert told.headers["content-type"] == "text/event-stream"
    assert "id" not in progress
    assert last["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("path", ["/brisk", "/brisk-view"])
async def test_a_listen_stream_is_kept_alive(site: Running, path: str):
    """A stream or nothing; comments while there are no messages."""
    request = message(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, revision=V2026_07_28
    )
    headers = headers_for(request, V2026_07_28)
    body = json.dumps(request).encode()
    refused = await ask(site, post(path, body, {**headers, "accept": "application/json"}))
    async with connect(site.host, site.port) as client:
        await client.send(post(path, body, {**headers, "accept": "text/event-stream"}))
        found = await client.read_head()
        await client.read_until(b"acknowledged")
        for _ in range(2):
            await client.read_until(b":\n\n")

    assert (refused.status, refused.json["error"]["code"]) == (406, -32600)
    assert (found.status, found.headers["content-type"]) == (200, "text/event-stream")
    assert "public" not in found.headers["cache-control"]
