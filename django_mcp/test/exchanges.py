"""Send requests to an endpoint as an ASGI server does: through the consumer, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.endpoints.mounts import find_path, resolve
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.server import BaseServer
from django_mcp.transports.http.view import MCPView


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedResponse:
    """The HTTP response, with its messages.

    Attributes:
        status: its code.
        headers: by name in lower case.
        messages: the JSON-RPC messages in its body, or in its events, in order.
        caller: who the server took the client for; None: the request was refused before that was known.
    """

    status: int
    headers: Mapping[str, str]
    messages: list[JSONObject]
    caller: Caller | None


def find_endpoint(
    server: BaseServer, path: str | None
) -> tuple[BaseServer, str, Mapping[str, Any]]:
    """Return a server and its path or, with a path, those in the URLconf and what it captured.

    Raises:
        ValueError: there is no endpoint at the path.
    """
    if path is not None:
        match = resolve(path)
        if match is None:
            raise ValueError(f"The URLconf has nothing at {path!r}.")
        if not isinstance(match.func, MCPView):
            raise ValueError(f"{path!r} leads to no MCP endpoint, but to {match.func!r}.")
        return match.func.server, path, match.kwargs
    # A server need not be mounted to be tested.
    return server, find_path(server) or "/mcp", {}


class ObservedServer:
    """A server for one request, which keeps the caller, and may have a fixed principal for its authentication."""

    def __init__(self, server: BaseServer, principal: Any | None) -> None:
        self._engine = server.engine
        self._principal = principal
        self.caller: Caller | None = None

    @property
    def engine(self) -> Any:
        """This object, which has everything else of the server's engine."""
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def authenticate(self) -> Any:
        """What authenticates the request; None: everybody is anonymous."""
        return self._engine.authenticate if self._principal is None else self._set_principal

    def answer(self, exchange: Exchange) -> Any:
        """Return the engine's reply, to be awaited."""
        self.caller = exchange.caller
        return self._engine.answer(exchange)

    async def _set_principal(self, exchange: Exchange) -> None:
        # The authentication sends the challenges for missing scopes, for a fixed principal as well.
        exchange.caller.authentication = getattr(self._engine, "authentication", None)
        exchange.caller.principal = self._principal


class ClientSide:
    """The client's side of a request: sends the body, and parses the response as it arrives.

    Args:
        on_message: called with each message as it arrives.

    Attributes:
        body: of the request.
        has_begun: set with the first byte of the response.
        has_left: set by the client, to disconnect before the end.
    """

    def __init__(self, on_message: Callable[[JSONObject], Awaitable[None]]) -> None:
        self.body: bytes | None = b""
        self.has_begun = asyncio.Event()
        self.has_left = asyncio.Event()
        self._on_message = on_message
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_stream = False
        self._received = b""
        self._messages: list[JSONObject] = []

    async def receive(self) -> Any:
        body, self.body = self.body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message["headers"]
            }
            content_type = self._headers.get("content-type", "")
            self._is_stream = content_type.startswith("text/event-stream")
            self.has_begun.set()
            return
        self._received += message.get("body", b"")
        if self._is_stream:
            # The server writes each message on one line, the last of its event.
            *events, self._received = self._received.split(b"\n\n")
            for event in events:
                data = event.partition(b"\ndata: ")[2]
                if data:
                    await self._take(decode(data))

    async def finish(self, caller: Caller | None) -> ReceivedResponse:
        if self._received and not self._is_stream:
            try:
                content = decode(self._received)
            except JSONDecodeError:
                content = None
            for message in content if isinstance(content, list) else [content]:
                if isinstance(message, dict):
                    await self._take(message)
        return ReceivedResponse(
            status=self._status, headers=self._headers, messages=self._messages, caller=caller
        )

    async def _take(self, message: JSONObject) -> None:
        self._messages.append(message)
        await self._on_message(message)
