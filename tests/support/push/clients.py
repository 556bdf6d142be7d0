"""Clients over real sockets that listen for changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.events import Parser
from tests.support.http.rawhttp import RawClient, Response, connect, head, post
from tests.support.sites import Running
from tests.support.wire import V2025_11_25, V2026_07_28, headers_for, message

LIMIT_S = 12.0
RETRY_EVERY_S = 0.3


async def ask(site: Running, request: dict[str, Any], **headers: str) -> Response:
    revision = V2026_07_28 if "_meta" in request.get("params", {}) else V2025_11_25
    found = {**headers_for({"method": "", **request}, revision), **headers}
    async with connect(site.host, site.port) as client:
        return await client.ask(post("/mcp", json.dumps(request).encode(), found))


async def call(site: Running, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool without a session, and return the result."""
    request = message("tools/call", {"name": name, "arguments": arguments}, revision=V2026_07_28)
    return response_of(await ask(site, request))["result"]


def response_of(answer: Response) -> dict[str, Any]:
    """Return the response in an answer, which is the last event if the server took long enough to open a stream."""
    is_json = "json" in answer.headers["content-type"]
    found: dict[str, Any] = answer.json if is_json else json.loads(answer.events[-1].data)
    return found


async def open_session(site: Running, capabilities: dict[str, Any] | None = None) -> str:
    params = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    answer = await ask(site, message("initialize", params, revision=V2025_11_25))
    assert answer.status == 200, answer.body
    return answer.headers["mcp-session-id"]


class Listener:
    """A stream that is open; every wait is bounded."""

    def __init__(self, client: RawClient, response: Response) -> None:
        self.client = client
        self.response = response
        self.retry_ms: int | None = None
        self._parser = Parser()
        self._waiting: list[dict[str, Any]] = []
        self._chunks = client.chunks()
        self._reading: asyncio.Task[bytes | None] | None = None

    async def next(self, limit_s: float = LIMIT_S) -> dict[str, Any] | None:
        """Return the next message; None at the end of the stream."""
        async with asyncio.timeout(limit_s):
            while not self._waiting:
                chunk = await self._chunk()
                if chunk is None:
                    return None
                for event in self._parser.feed(chunk):
                    if event.data:
                        self._waiting.append(json.loads(event.data))
                if b"retry:" in chunk:
                    self.retry_ms = int(chunk.split(b"retry:")[1].split()[0])
        return self._waiting.pop(0)

    async def _chunk(self) -> bytes | None:
        # Reading continues where waiting for it timed out.
        if self._reading is None:
            self._reading = asyncio.ensure_future(anext(self._chunks, None))
        await asyncio.wait((self._reading,))
        chunk, self._reading = self._reading.result(), None
        return chunk

    async def until(self, method: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        found = await self.next(limit_s)
        while found is not None and found.get("method") != method:
            found = await self.next(limit_s)
        assert found is not None
        return found


@asynccontextmanager
async def listening(site: Running, *uris: str, **more: str) -> AsyncIterator[Listener]:
    """Listen as a client of 2026-07-28 does."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": list(uris)}
    request = message(
        "subscriptions/listen", {"notifications": wanted}, revision=V2026_07_28, id="listen"
    )
    async with connect(site.host, site.port) as client:
        headers = {**headers_for(request, V2026_07_28), **more}
        await client.send(post("/mcp", json.dumps(request).encode(), headers))
        listener = Listener(client, await client.read_head())
        await listener.until("notifications/subscriptions/acknowledged")
        yield listener


@asynccontextmanager
async def standalone(site: Running, session: str) -> AsyncIterator[Listener]:
    """Open the standalone stream of a session."""
    headers = {
        "Host": "localhost",
        "Accept": "text/event-stream",
        "MCP-Protocol-Version": V2025_11_25.name,
        "Mcp-Session-Id": session,
    }
    async with connect(site.host, site.port) as client:
        await client.send(head("GET", "/mcp", headers))
        listener = Listener(client, await client.read_head())
        assert listener.response.status == 200
        yield listener


async def receive_within(listener: Listener, tell: Any, limit_s: float) -> float:
    """Notify repeatedly until it is received; return the seconds that took."""
    begun = time.monotonic()
    while True:
        await tell()
        try:
            await listener.until("notifications/resources/updated", RETRY_EVERY_S)
        except TimeoutError:
            assert time.monotonic() - begun < limit_s, "nothing was received"
            continue
        return time.monotonic() - begun
