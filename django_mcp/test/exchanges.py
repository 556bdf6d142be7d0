"""Send requests to an endpoint as an ASGI server does: through the consumer, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import Resolver404, get_resolver

from django_mcp.endpoints.mounts import find_path
from django_mcp.protocol import sse
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.view import MCPView

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.server import MCPServer


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """The endpoint of requests.

    Attributes:
        server: its server.
        path: as a client would write it.
        url_kwargs: what the URLconf captured of it.
    """

    server: MCPServer
    path: str
    url_kwargs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """The HTTP response, with its messages.

    Attributes:
        status: its code.
        headers: by name in lower case.
        messages: the JSON-RPC messages in its body, or in its events, in order.
    """

    status: int
    headers: Mapping[str, str]
    messages: list[JSONObject]


def find_endpoint(server: MCPServer, path: str | None) -> Endpoint:
    """Return the endpoint of a server or, with a path, the one in the URLconf.

    Raises:
        ValueError: there is no endpoint at the path.
    """
    if path is not None:
        try:
            match = get_resolver().resolve(path)
        except Resolver404:
            raise ValueError(f"The URLconf has nothing at {path!r}.") from None
        if not isinstance(match.func, MCPView):
            raise ValueError(f"{path!r} leads to no MCP endpoint, but to {match.func!r}.")
        return Endpoint(server=match.func.server, path=path, url_kwargs=match.kwargs)
    # A server need not be mounted to be tested.
    return Endpoint(server=server, path=find_path(server) or "/mcp", url_kwargs={})


class LoggedIn:
    """Wraps a server with a fixed principal in place of its authentication."""

    def __init__(self, server: MCPServer, principal: Any) -> None:
        self._server = server
        self._principal = principal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def authenticate(self, exchange: Exchange) -> None:
        """Set the principal of the request."""
        # The gate sends the challenges for missing scopes, for a fixed principal as well.
        exchange.gate = getattr(self._server, "gate", None)
        exchange.principal = self._principal


async def exchange(
    endpoint: Endpoint,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    principal: Any,
    on_message: Callable[[JSONObject], Awaitable[None]],
    presence: Presence | None = None,
) -> Response:
    """Send a request and return its response when it is over.

    Args:
        endpoint: its target.
        method: the HTTP method.
        headers: of the request, in any case.
        body: of the request.
        principal: who is logged in; None: authenticate by the headers.
        on_message: called with each message as it arrives.
        presence: allows the client to disconnect before the end.
    """
    server: Any = endpoint.server
    if principal is not None:
        server = LoggedIn(server, principal)
    client = _Client(body, on_message, presence or Presence())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": endpoint.path,
        "raw_path": endpoint.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers.items()
        ],
        "client": ("127.0.0.1", 40000),
        "server": ("testserver", 80),
        "url_route": {"args": (), "kwargs": dict(endpoint.url_kwargs)},
    }
    await MCPConsumer(server=server)(scope, client.receive, client.send)
    return await client.finish()


class Presence:
    """The client's side of a long request: whether the response has started, and disconnecting.

    Attributes:
        has_begun: set with the first byte of the response.
        has_left: set by the client.
    """

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.has_left = asyncio.Event()


class _Client:
    """The client's side of a request: sends the body, and parses the response as it arrives."""

    def __init__(
        self, body: bytes, on_message: Callable[[JSONObject], Awaitable[None]], presence: Presence
    ) -> None:
        self._body: bytes | None = body
        self._on_message = on_message
        self._presence = presence
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parser: sse.Parser | None = None
        self._received = b""
        self._messages: list[JSONObject] = []

    async def receive(self) -> Any:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._presence.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message["headers"]
            }
            if self._headers.get("content-type", "").startswith("text/event-stream"):
                self._parser = sse.Parser()
            self._presence.has_begun.set()
            return
        chunk = message.get("body", b"")
        if self._parser is None:
            self._received += chunk
            return
        for event in self._parser.feed(chunk):
            if event.data:
                await self._take(decode(event.data))

    async def finish(self) -> Response:
        if self._received:
            try:
                found = decode(self._received)
            except JSONDecodeError:
                found = None
            for message in found if isinstance(found, list) else [found]:
                if isinstance(message, dict):
                    await self._take(message)
        return Response(status=self._status, headers=self._headers, messages=self._messages)

    async def _take(self, message: JSONObject) -> None:
        self._messages.append(message)
        await self._on_message(message)
