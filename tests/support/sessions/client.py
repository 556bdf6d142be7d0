"""A handwritten client of a session: each request goes to the process that a test names."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.events import Event, Parser
from tests.support.sessions.cluster import Cluster

LIMIT_S = 20.0
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Stream:
    """The events of one response, as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._chunks = response.aiter_raw()
        self._parser = Parser()
        self._events: list[Event] = []
        self.last_id: str | None = None

    async def event(self) -> Event:
        """Return the next event; EOFError at the end of the stream."""
        async with asyncio.timeout(LIMIT_S):
            while not self._events:
                try:
                    self._events = self._parser.feed(await anext(self._chunks))
                except (StopAsyncIteration, httpx.HTTPError) as end:
                    raise EOFError from end
        event = self._events.pop(0)
        self.last_id = event.id or self.last_id
        return event

    async def message(self) -> dict[str, Any]:
        """Return the next message, past events without any."""
        while True:
            event = await self.event()
            if event.data:
                found: dict[str, Any] = json.loads(event.data)
                return found

    async def rest(self) -> list[dict[str, Any]]:
        """Return the messages until the end."""
        found = []
        while True:
            try:
                found.append(await self.message())
            except EOFError:
                return found


class Client:
    """One client, perhaps of a user, with at most one session."""

    def __init__(
        self,
        cluster: Cluster,
        http: httpx.AsyncClient,
        *,
        user: str | None = None,
        revision: str = "2025-11-25",
    ) -> None:
        self.cluster = cluster
        self.http = http
        self.revision = revision
        self.session_id: str | None = None
        self.user = user
        self.ids = itertools.count(1)

    def headers(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        found: dict[str, str | None] = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.revision,
            "mcp-session-id": self.session_id,
            "authorization": f"Bearer {self.user}" if self.user else None,
            **(more or {}),
        }
        return {name: value for name, value in found.items() if value is not None}

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params or {}}

    async def send(
        self,
        message: Any,
        *,
        at: int = 0,
        verb: str = "POST",
        **headers: str | None,
    ) -> httpx.Response:
        """Send a message and return the whole response; `headers` with `_` for `-`."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.request(
            verb, self.cluster.url(at), json=message, headers=self.headers(more)
        )

    async def open(
        self, *, at: int = 0, capabilities: Mapping[str, Any] | None = None, is_ready: bool = True
    ) -> None:
        """Initialize, without ending an earlier session."""
        self.session_id = None
        params = {
            "protocolVersion": self.revision,
            "capabilities": EVERYTHING if capabilities is None else capabilities,
            "clientInfo": {"name": "tests", "version": "1"},
        }
        message = self.request("initialize", params)
        answer = await self.send(message, at=at, mcp_protocol_version=None)
        assert answer.status_code == 200, answer.text
        self.session_id = answer.headers["mcp-session-id"]
        if is_ready:
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            answer = await self.send(ready, at=at)
            assert answer.status_code == 202, answer.text

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, at: int = 0
    ) -> dict[str, Any]:
        """Return the answer to a request, whether it is one body or the last of a stream."""
        async with self.stream(self.request(method, params), at=at) as stream:
            return (await stream.rest())[-1]

    async def call(self, tool: str, /, *, at: int = 0, **arguments: Any) -> Any:
        """Return the text that a tool returns."""
        params = {"name": tool, "arguments": arguments}
        answer = await self.ask("tools/call", params, at=at)
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return answer["result"]["content"][0]["text"]

    async def respond(
        self, question: Mapping[str, Any], result: Mapping[str, Any], *, at: int = 0
    ) -> None:
        """Post the answer to a question of the server's."""
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        posted = await self.send(answer, at=at)
        assert (posted.status_code, posted.content) == (202, b"")

    def begin(
        self, tool: str, /, *, at: int = 0, meta: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Any:
        """Call a tool, and yield the stream of its answer."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.stream(self.request("tools/call", params), at=at)

    def listen(self, *, at: int = 0, last_event_id: str | None = None) -> Any:
        """Open the standalone stream, or resume one."""
        return self.stream(None, at=at, last_event_id=last_event_id)

    @asynccontextmanager
    async def stream(
        self, message: Any, *, at: int = 0, last_event_id: str | None = None
    ) -> AsyncIterator[Stream]:
        headers = self.headers({"last-event-id": last_event_id})
        if message is None:
            request = self.http.build_request("GET", self.cluster.url(at), headers=headers)
            request.headers["accept"] = "text/event-stream"
        else:
            url = self.cluster.url(at)
            request = self.http.build_request("POST", url, headers=headers, json=message)
        response = await self.http.send(request, stream=True)
        try:
            if response.headers.get("content-type") != "text/event-stream":
                await response.aread()
                yield Body(response)
            else:
                yield Stream(response)
        finally:
            await response.aclose()


class Body(Stream):
    """A response that is no stream, read as one with a single event."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response)
        self._events = [Event(data=response.text)] if response.content else []

    async def event(self) -> Event:
        if not self._events:
            raise EOFError
        return self._events.pop(0)


@asynccontextmanager
async def connected(
    cluster: Cluster, *, user: str | None = None, revision: str = "2025-11-25", at: int = 0
) -> AsyncIterator[Client]:
    """Yield a client with an open session."""
    # Shorter than the keep-alive of servers, or a request could hit a closed connection.
    limits = httpx.Limits(keepalive_expiry=2.0)
    async with httpx.AsyncClient(timeout=LIMIT_S, limits=limits) as http:
        client = Client(cluster, http, user=user, revision=revision)
        await client.open(at=at)
        yield client
