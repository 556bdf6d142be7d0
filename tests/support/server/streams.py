"""A client of a session that reads streams and answers requests of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode, encode
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply
from tests.support.wire import WireClient, headers_for, message

LIMIT_S = 10.0


class LiveSink:
    """Passes on what is sent during the exchange; event ids beside the messages."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[tuple[str | None, dict[str, Any] | None]] = asyncio.Queue()
        self.is_closed = False

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        assert not self.is_closed
        self.items.put_nowait((event_id, decode(message)))

    async def prime(self, event_id: str | None) -> None:
        assert not self.is_closed
        self.items.put_nowait((event_id, None))

    async def hang_up(self, retry_ms: int) -> None:
        self.is_closed = True
        self.items.put_nowait((None, {"retry": retry_ms}))

    async def next(self) -> tuple[str | None, dict[str, Any] | None]:
        return await asyncio.wait_for(self.items.get(), LIMIT_S)

    async def message(self) -> dict[str, Any]:
        """Return the next message, past priming events."""
        while True:
            _, found = await self.next()
            if found is not None:
                return found


class Open:
    """One exchange that is being answered."""

    def __init__(self, exchange: Exchange, sink: LiveSink, task: asyncio.Task[Reply]) -> None:
        self.exchange = exchange
        self.sink = sink
        self.task = task

    async def reply(self) -> Reply:
        return await asyncio.wait_for(asyncio.shield(self.task), LIMIT_S)

    async def answer(self) -> dict[str, Any]:
        body: dict[str, Any] = decode((await self.reply()).body or b"null")
        return body

    def leave(self) -> None:
        """Disconnect, as a client whose connection breaks does."""
        self.exchange.channel.is_disconnected = True
        if self.exchange.channel.cancels_on_disconnect:
            self.task.cancel()


class StreamClient(WireClient):
    """A `WireClient` that can inspect a running exchange."""

    def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = "call"
    ) -> Open:
        request = message(method, params, revision=self.revision, id=id)
        return self.run(
            self.server.engine.answer, headers_for(request, self.revision), encode(request)
        )

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Open:
        return self.begin("tools/call", {"name": name, "arguments": arguments or {}, **more})

    def listen(self, last_event_id: str | None = None) -> Open:
        headers = {"accept": "text/event-stream", "mcp-protocol-version": self.revision.name}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        return self.run(self.server.engine.open_stream, headers, b"")

    def run(self, entry: Callable[..., Any], headers: dict[str, str], body: bytes) -> Open:
        if self.session_id is not None:
            headers["mcp-session-id"] = self.session_id
        sink = LiveSink()
        exchange = Exchange(
            body=body,
            headers=Headers([(k.encode(), v.encode()) for k, v in headers.items()]),
            caller=Caller(principal=self.principal, url_kwargs=self.url_kwargs, tenant=self.tenant),
            channel=Channel(can_stream=True, sink=sink, event_stream=sink),
        )
        return Open(exchange, sink, asyncio.create_task(entry(exchange)))

    async def respond(self, request: Mapping[str, Any], **outcome: Any) -> Reply:
        """Post the answer to a request of the server's."""
        return await self.tell({"jsonrpc": "2.0", "id": request["id"], **outcome})

    async def tell(self, body: Mapping[str, Any]) -> Reply:
        headers = {"mcp-protocol-version": self.revision.name}
        if self.session_id is not None:
            headers["mcp-session-id"] = self.session_id
        reply = await self.post(encode(body), headers)
        assert (reply.status, reply.body) == (202, None)
        return reply

    @asynccontextmanager
    async def standalone(self) -> AsyncIterator[Open]:
        """Keep the session's stream open while the block runs."""
        stream = self.listen()
        await stream.sink.next()
        try:
            yield stream
        finally:
            stream.leave()
            await asyncio.wait((stream.task,))
