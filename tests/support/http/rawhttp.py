"""One raw HTTP connection, which can send what no client library would."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.events import Event, Parser

LIMIT_S = 10.0


@dataclass(kw_only=True, slots=True)
class Response:
    """A response, as far as it was read; header names in lower case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Event]:
        return Parser().feed(self.body)


def head(method: str, path: str, headers: Mapping[str, str] | list[tuple[str, str]]) -> bytes:
    items = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in items)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a good POST; `headers` are added to, or with "" leave out, those it needs."""
    found = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
    }
    own = {name.lower() for name in headers or {}}
    found = {name: value for name, value in found.items() if name.lower() not in own}
    found.update(headers or {})
    return head("POST", path, {name: value for name, value in found.items() if value}) + body


class RawClient:
    """A connection to a server on this machine; every wait is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def ask(self, raw: bytes) -> Response:
        await self.send(raw)
        return await self.read()

    async def read(self, method: str = "POST") -> Response:
        """Read a whole response."""
        async with asyncio.timeout(LIMIT_S):
            response = await self.read_head()
            if method == "HEAD" or response.status in (204, 304):
                return response
            if response.headers.get("transfer-encoding") == "chunked":
                async for chunk in self.chunks():
                    response.body += chunk
            elif "content-length" in response.headers:
                response.body = await self.reader.readexactly(
                    int(response.headers["content-length"])
                )
            else:
                response.body = await self.reader.read()
            return response

    async def read_head(self) -> Response:
        async with asyncio.timeout(LIMIT_S):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        response = Response(status=int(first.split(" ")[1]))
        for line in lines:
            name, _, value = line.partition(":")
            response.headers[name.lower()] = value.strip()
        return response

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readuntil(b"\r\n")

    async def read_until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.readuntil(mark)

    async def is_closed(self) -> bool:
        """Return whether the server closes the connection, by waiting for it."""
        async with asyncio.timeout(LIMIT_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Close abruptly: with RST, not FIN."""
        found: socket.socket = self.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@asynccontextmanager
async def connect(host: str, port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(host, port, limit=2**22)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        client.close()
