"""A large result counts as soon as it is encoded, however long it waits for the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.execution import threads
from django_mcp.protocol import meta as keys
from django_mcp.server.exchange import pending
from django_mcp.server.exchange.pending import PART_BYTES
from django_mcp.servers import MCPServer
from django_mcp.transports.http.consumer import MCPConsumer
from tests.support.http.harness import GONE, LIMIT_S, Conversation, http_scope, part, talk, until

LARGE = 4 * PART_BYTES
ROOM_BYTES = 6 * PART_BYTES
"""Room for one such result and not for two."""

NEWEST = "2026-07-28"
WITH_BATCHES = "2025-03-26"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        yield
    assert pending._meter._used == {}


def make_server(name: str) -> MCPServer:
    return MCPServer(
        name,
        public=True,
        mode="stateless",
        max_pending_bytes_per_principal=ROOM_BYTES,
        max_result_bytes=LARGE + 1024,
    )


def app_of(server: MCPServer) -> Any:
    return MCPConsumer.as_asgi(server=server)


def call(tool: str, arguments: dict[str, Any], id: int = 1, **meta: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def ask(app: Any, tool: str, **arguments: Any) -> Conversation:
    meta: dict[str, Any] = {keys.PROTOCOL_VERSION: NEWEST, keys.CLIENT_CAPABILITIES: {}}
    body = json.dumps(call(tool, arguments, **meta)).encode()
    headers = {"mcp-protocol-version": NEWEST, "mcp-method": "tools/call", "mcp-name": tool}
    return Conversation(app, http_scope(headers=headers), part(body))


async def test_results_of_threads_count_before_the_event_loop_takes_them():
    server = make_server("in work")
    is_held, is_next = threading.Event(), threading.Event()

    @server.tool(read_only=True)
    def large(number: int) -> str:
        if number == 1:
            is_held.wait(LIMIT_S)
        else:
            # The one thread has encoded the other result.
            is_next.set()
        return "x" * LARGE

    @server.tool(read_only=True)
    async def hold_the_loop() -> bool:
        is_held.set()
        return is_next.wait(LIMIT_S)

    app = app_of(server)
    first, second = ask(app, "large", number=1), ask(app, "large", number=2)
    holding = ask(app, "hold_the_loop")
    for each in (first, second, holding):
        await each.end()
    later = await ask(app, "large", number=3).end()

    assert json.loads(holding.body)["result"]["content"][0]["text"] == "true"
    assert [first.status, second.status, later.status] == [200, 429, 200]
    assert "its answer was dropped" in json.loads(second.body)["error"]["message"]


async def test_results_of_one_batch_count_together():
    server = make_server("in a batch")

    @server.tool(read_only=True)
    def large() -> str:
        return "x" * LARGE

    messages = [call("large", {}, id) for id in (1, 2)]
    scope = http_scope(headers={"mcp-protocol-version": WITH_BATCHES})
    talked = await talk(app_of(server), scope, part(json.dumps(messages).encode()))

    assert talked.status == 200
    answers = json.loads(talked.body)
    assert [each["id"] for each in answers] == [1, 2]
    assert ["result" in each for each in answers].count(True) == 1


async def test_a_result_that_nobody_waits_for_does_not_count():
    server = make_server("abandoned")
    has_begun, may_end = threading.Event(), threading.Event()

    @server.tool(read_only=True)
    def large() -> str:
        has_begun.set()
        may_end.wait(LIMIT_S)
        return "x" * LARGE

    left = ask(app_of(server), "large")
    await until(has_begun.is_set)
    left.put(GONE)
    await left.end()
    may_end.set()
    await until(lambda: not threads.find_pool_states()["SYNC_THREADS"].running)

    assert pending._meter._used == {}


async def test_a_result_that_is_sent_counts_until_its_client_has_read_it():
    server = make_server("read")

    @server.tool(read_only=True)
    async def large() -> str:
        return "x" * LARGE

    app = app_of(server)
    answers = [await ask(app, "large").end() for _ in range(3)]

    assert [each.status for each in answers] == [200, 200, 200]
    assert pending._meter._used == {}
