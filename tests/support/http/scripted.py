"""A server that does what the body tells it to, so that a transport can be tested by itself.

A body is a list of steps, played in order:

    ["call", name]            the name under which `NAME:cancelled`, `NAME:finished` are marked
    ["set", event]            mark an event
    ["wait", event]           wait for one, 10 s at most
    ["ignore", event]         the same, and go on when cancelled
    ["pause", seconds]        let time pass
    ["cancels", bool]         whether the client's end cancels the call
    ["send", message]         send a message ahead of the answer
    ["fail", text]            raise a programming fault
    ["tell", fact]            answer with a fact of the exchange
    ["reply", status, body]   answer
    ["swell", status, size]   answer the request 7 with a text of that size
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.options import Options

WAIT_LIMIT_S = 10.0


class ScriptedServer:
    """Stands where an `MCPServer` stands."""

    authenticate: Any = None
    keeps_sessions = False

    def __init__(self, **options: Any) -> None:
        self.registry = Registry()
        self.options = Options(name="scripted", **options)
        self.events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.exchanges: list[Exchange] = []
        self.ports = SimpleNamespace(instrument=None)

    @property
    def engine(self) -> ScriptedServer:
        return self

    def allowed_methods(self, headers: Any, *, can_push: bool = True) -> bytes:
        return b"POST, OPTIONS"

    async def answer(self, exchange: Exchange) -> Reply:
        self.exchanges.append(exchange)
        name = "call"
        try:
            for step, *arguments in json.loads(exchange.body):
                if step == "call":
                    name = arguments[0]
                elif step == "reply":
                    status, body = arguments
                    return Reply(status, None if body is None else dumps(body))
                elif step == "swell":
                    status, size = arguments
                    return Reply(status, dumps({"id": 7, "result": "x" * size}))
                elif step == "tell":
                    return Reply(200, dumps(self._tell(arguments[0], exchange)))
                else:
                    await getattr(self, f"_{step}")(exchange, *arguments)
            return Reply(200, dumps("done"))
        except asyncio.CancelledError:
            self.events[f"{name}:cancelled"].set()
            raise
        finally:
            self.events[f"{name}:finished"].set()

    async def open_stream(self, exchange: Exchange) -> Reply:
        return Reply(405, dumps("no stream"), ((b"allow", b"POST, OPTIONS"),))

    async def end_session(self, exchange: Exchange) -> Reply:
        return Reply(405, dumps("no session"), ((b"allow", b"POST, OPTIONS"),))

    async def _send(self, exchange: Exchange, message: Any) -> None:
        if exchange.channel.sink is not None:
            await exchange.channel.sink.send(dumps(message))

    async def _set(self, exchange: Exchange, name: str) -> None:
        self.events[name].set()

    async def _wait(self, exchange: Exchange, name: str) -> None:
        async with asyncio.timeout(WAIT_LIMIT_S):
            await self.events[name].wait()

    async def _pause(self, exchange: Exchange, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _cancels(self, exchange: Exchange, does: bool) -> None:
        exchange.channel.cancels_on_disconnect = does

    async def _ignore(self, exchange: Exchange, name: str) -> None:
        try:
            await self._wait(exchange, name)
        except asyncio.CancelledError:
            pass

    async def _fail(self, exchange: Exchange, text: str) -> None:
        raise RuntimeError(text)

    def _tell(self, fact: str, exchange: Exchange) -> Any:
        if fact == "request":
            request = exchange.caller.build_request() if exchange.caller.build_request else None
            assert request is not None
            return [request.method, request.path, request.headers["x-test"], len(request.body)]
        if fact == "can_stream":
            return [exchange.channel.can_stream, exchange.channel.sink is not None]
        if fact == "size":
            return len(exchange.body)
        if fact == "marked":
            return sorted(name for name, event in self.events.items() if event.is_set())
        return getattr(exchange.caller if fact == "principal" else exchange.channel, fact)


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def script(*steps: Any) -> bytes:
    return dumps(list(steps))
