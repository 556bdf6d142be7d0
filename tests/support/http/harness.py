"""Drive an ASGI application by hand: any message in, every message out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.events import Event, Parser

LIMIT_S = 5.0
JSON_HEADERS = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


def http_scope(
    method: str = "POST",
    headers: dict[str, str] | Iterable[tuple[str, str]] | None = None,
    *,
    asgi: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the scope of a request; `headers` are added to, or replace, those of a good one."""
    if headers is None or isinstance(headers, dict):
        headers = {**JSON_HEADERS, **(headers or {})}.items()
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"} if asgi is None else asgi,
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers if v != ""],
        "client": ("192.0.2.1", 4711),
        "server": ("127.0.0.1", 8000),
        **more,
    }


def part(body: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


async def until(holds: Callable[[], bool]) -> None:
    """Run the event loop until a condition is true."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0)


class Conversation:
    """One request to an application, which runs as a task while the test acts as the server."""

    def __init__(self, app: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self._sent_one = asyncio.Event()
        for message in messages:
            self.incoming.put_nowait(message)
        self.task = asyncio.create_task(app(scope, self.incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self._sent_one.set()

    def put(self, message: dict[str, Any]) -> None:
        self.incoming.put_nowait(message)

    async def end(self) -> Conversation:
        """Wait until the application returns."""
        async with asyncio.timeout(LIMIT_S):
            await self.task
        return self

    async def until_sent(self, count: int) -> None:
        """Wait until the application has sent so many messages."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.sent) < count:
                self._sent_one.clear()
                await self._sent_one.wait()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def events(self) -> list[Event]:
        return Parser().feed(self.body)


async def talk(app: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> Conversation:
    """Return the whole conversation of an application that needs only these messages."""
    return await Conversation(app, scope, *messages).end()
