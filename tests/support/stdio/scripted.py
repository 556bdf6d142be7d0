"""The wire clients of the server's tests, with a pipe in place of HTTP: `driver.serve` at its other end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from django_mcp.protocol.json import decode, encode
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.stdio.driver import serve
from tests.support.server.streams import LIMIT_S, LiveSink, Open, StreamClient
from tests.support.wire import HANDSHAKE, META, message

MARK = "mark"
NOBODY = object()


class AnyStatus(int):
    """Replaces the HTTP status, which a pipe does not have: equal to any expected status."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    __hash__ = int.__hash__


class PipeOpen(Open):
    """One exchange on a pipe; `key` is the id of its request."""

    key: Any = None


class PipeClient(StreamClient):
    """Sends the messages of the HTTP tests, line by line."""

    opened: list[PipeClient] = []

    _writing: int | None = None

    async def connect(self) -> None:
        if self._writing is not None:
            return
        reading, self._writing = os.pipe()
        back, writing = os.pipe()

        async def find_principal() -> Any:
            return self.principal

        self._serving = asyncio.create_task(
            serve(self.server.engine, reading, writing, find_principal=find_principal)
        )
        self._descriptors = (reading, writing)
        self._waiting: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._live: list[PipeOpen] = []
        self._unasked: list[bytes] = []
        reader = asyncio.StreamReader(limit=1 << 26)
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(back, "rb", buffering=0)
        )
        self._routing = asyncio.create_task(self._route(reader))
        PipeClient.opened.append(self)

    async def close(self) -> None:
        assert self._writing is not None
        os.close(self._writing)
        await asyncio.wait_for(self._serving, LIMIT_S)
        for each in self._descriptors:
            os.close(each)
        await asyncio.wait_for(self._routing, LIMIT_S)
        self._pipe.close()

    async def _route(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            found = decode(line)
            key = found.get("id") if isinstance(found, dict) else None
            if isinstance(found, dict) and "method" in found:
                stream = self._stream_of(found)
                if stream is not None:
                    await stream.sink.send(line)
                else:
                    self.sink.messages.append(found)
            elif key in self._waiting:
                self._waiting.pop(key).set_result(found)
            else:
                self._unasked.append(line)

    def _stream_of(self, message: Mapping[str, Any]) -> PipeOpen | None:
        """Return what a message belongs to: the listener that it names, else the latest call."""
        meta = (message.get("params") or {}).get("_meta", {})
        for each in self._live:
            if each.key == meta.get(META + "subscriptionId", NOBODY):
                return each
        return self._live[-1] if self._live else None

    def _write(self, body: bytes) -> None:
        assert self._writing is not None
        data = body + b"\n"
        while data:
            data = data[os.write(self._writing, data) :]

    def _expect(self, key: Any) -> asyncio.Future[dict[str, Any]]:
        self._waiting[key] = asyncio.get_running_loop().create_future()
        return self._waiting[key]

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Return the answer to a line, if it has one."""
        await self.connect()
        try:
            sent = decode(body)
        except ValueError:
            sent = None
        if isinstance(sent, dict) and "method" in sent and sent.get("id") is not None:
            answered = self._expect(sent["id"])
            self._write(body)
            found = await asyncio.wait_for(answered, LIMIT_S)
            return Reply(AnyStatus(200), encode(found))
        answered = self._expect(MARK)
        self._write(body)
        # A line without a response is recognized when the following line has one.
        self._write(encode({"jsonrpc": "2.0", "id": MARK, "method": "ping"}))
        await asyncio.wait_for(answered, LIMIT_S)
        unasked, self._unasked = self._unasked, []
        return Reply(AnyStatus(200 if unasked else 202), unasked[0].strip() if unasked else None)

    async def open(
        self, capabilities: Mapping[str, Any] | None = None, *, is_ready: bool = True
    ) -> None:
        if self.session_id is None:
            self.session_id = "pipe"
            params = {
                "protocolVersion": self.revision.name,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "tests", "version": "1"},
            }
            self._last_id += 1
            shake = message("initialize", params, revision=self.revision, id=self._last_id)
            await self.post(encode(shake), {})
            # Otherwise the test does.
            if is_ready and not self.server.engine.options.require_initialized:
                await self.ready()

    async def send(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        drop: str = "",
        **headers: str,
    ) -> tuple[int, dict[str, Any]]:
        if self.revision in HANDSHAKE and method not in ("initialize", "ping"):
            await self.open()
        self._last_id += 1
        request = message(method, params, revision=self.revision, id=self._last_id)
        reply = await self.post(encode(request), {})
        body = decode(reply.body or b"null")
        assert ("result" in body) is not ("error" in body)
        return reply.status, body

    def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = "call"
    ) -> Open:
        body = encode(message(method, params, revision=self.revision, id=id))

        def write() -> asyncio.Future[dict[str, Any]]:
            answered = self._expect(id)
            self._write(body)
            return answered

        # Written at once where that can be, as tests expect of what they begin.
        written = None if self._writing is None else write()

        async def wait() -> Reply:
            await self.connect()
            self._live.append(found)
            try:
                return Reply(AnyStatus(200), encode(await (written or write())))
            finally:
                self._live.remove(found)

        found = PipeOpen(Exchange(), LiveSink(), asyncio.create_task(wait()))
        found.key = id
        return found

    def listen(self, last_event_id: str | None = None) -> Open:
        raise NotImplementedError("a pipe is one stream, which nobody opens or resumes")

    @asynccontextmanager
    async def standalone(self) -> AsyncIterator[Open]:
        """Receive messages outside of calls: the pipe is the session's stream."""
        await self.open()
        ended = asyncio.get_running_loop().create_future()
        stream = PipeOpen(Exchange(), LiveSink(), asyncio.ensure_future(ended))
        self._live.insert(0, stream)
        try:
            yield stream
        finally:
            self._live.remove(stream)

    async def tell(self, body: Mapping[str, Any]) -> Reply:
        reply = await self.post(encode(body), {})
        assert reply.body is None
        return reply


async def close_all() -> None:
    """Close what a test has opened, and wait for the end of each pipe."""
    opened, PipeClient.opened = PipeClient.opened, []
    for client in opened:
        await client.close()


def piped(client: type) -> type:
    """Return a client of the tests as it is with a pipe."""
    if issubclass(PipeClient, client):
        return PipeClient
    return type(f"Piped{client.__name__}", (client, PipeClient), {})
