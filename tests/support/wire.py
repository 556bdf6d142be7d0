"""Messages as clients of each revision send them, and an in-process client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types.methods import validate_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from django_mcp.protocol.headers import Headers, encode_value
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.server import BaseServer

V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28 = REVISIONS
HANDSHAKE = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25)

META = "io.modelcontextprotocol/"
MIRRORED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


def message(
    method: str, params: Mapping[str, Any] | None = None, *, revision: Revision, id: Any = 1
) -> dict[str, Any]:
    """Return a request as a client of `revision` writes it."""
    found: dict[str, Any] = dict(params or {})
    if revision is V2026_07_28:
        found["_meta"] = {
            META + "protocolVersion": revision.name,
            META + "clientInfo": {"name": "tests", "version": "1"},
            META + "clientCapabilities": {},
            **found.get("_meta", {}),
        }
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": found} if found else {})}


def headers_for(request: Mapping[str, Any], revision: Revision) -> dict[str, str]:
    """Return the headers that belong to a request of `revision`."""
    found = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if request["method"] != "initialize":
        # 2024-11-05 has no such header; without a session nothing else identifies it.
        found["mcp-protocol-version"] = revision.name
    if revision is V2026_07_28:
        found["mcp-method"] = request["method"]
        mirrored = request.get("params", {}).get(MIRRORED.get(request["method"], ""))
        if isinstance(mirrored, str):
            found["mcp-name"] = encode_value(mirrored)
    return found


class RecordingSink:
    """Collects the messages that a handler sent before its response."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        self.messages.append(decode(message))

    async def prime(self, event_id: str | None) -> None:
        pass

    async def hang_up(self, retry_ms: int) -> None:
        pass


class WireClient:
    """Sends requests of one revision to a server, as HTTP would bring them, without a socket."""

    def __init__(
        self,
        server: BaseServer,
        revision: Revision,
        *,
        principal: Any = ANONYMOUS,
        streams: bool = True,
        url_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self.revision = revision
        self.principal = principal
        self.streams = streams
        self.url_kwargs = url_kwargs or {}
        self.tenant = ""
        self.sink = RecordingSink()
        self.session_id: str | None = None
        self._last_id = 0

    async def post(
        self,
        body: bytes,
        headers: Mapping[str, str],
    ) -> Reply:
        """Return the reply to a body under exactly these headers."""
        exchange = Exchange(
            body=body,
            headers=Headers([(k.encode(), v.encode()) for k, v in headers.items()]),
            caller=Caller(principal=self.principal, url_kwargs=self.url_kwargs, tenant=self.tenant),
            channel=Channel(
                can_stream=self.streams,
                sink=self.sink if self.streams else None,
                event_stream=self.sink if self.streams else None,
            ),
        )
        return await self.server.engine.answer(exchange)

    async def open(
        self, capabilities: Mapping[str, Any] | None = None, *, is_ready: bool = True
    ) -> None:
        """Open a session, unless there is one, and send `initialized` unless `is_ready` is False."""
        known = self.session_id
        if known is None:
            params = {
                "protocolVersion": self.revision.name,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "tests", "version": "1"},
            }
            await self.send("initialize", params)
            assert self.session_id is not None
            if is_ready:
                await self.ready()

    async def ready(self) -> None:
        """Send `notifications/initialized`."""
        headers = {
            "mcp-session-id": self.session_id or "",
            "mcp-protocol-version": self.revision.name,
        }
        body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        assert (await self.post(body, headers)).status == 202

    async def send(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        drop: str = "",
        **headers: str,
    ) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the body of the answer to a request.

        `headers` are added to the right ones (with `_` for `-`), `drop` names one to leave out.
        """
        is_handshake = method == "initialize"
        if self.revision in HANDSHAKE and self.server.engine.keeps_sessions and not is_handshake:
            await self.open()
        self._last_id += 1
        request = message(method, params, revision=self.revision, id=self._last_id)
        found = headers_for(request, self.revision)
        if self.session_id is not None and not is_handshake:
            found["mcp-session-id"] = self.session_id
        found.update({key.replace("_", "-"): value for key, value in headers.items()})
        found.pop(drop, None)
        reply = await self.post(encode(request), found)
        if is_handshake:
            self.session_id = dict(reply.headers).get(b"mcp-session-id", b"").decode() or None
        assert reply.body is not None
        body = decode(reply.body)
        assert body["jsonrpc"] == "2.0"
        assert body["id"] == self._last_id
        assert ("result" in body) is not ("error" in body)
        return reply.status, body

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request that must succeed, checked against the official types."""
        status, body = await self.send(method, params)
        assert status == 200, body
        assert "result" in body, body
        if self.revision.name in KNOWN_PROTOCOL_VERSIONS:
            validate_server_result(method, self.revision.name, body["result"])
        return body["result"]

    async def error(
        self, method: str, params: Mapping[str, Any] | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the error of a request that must be refused."""
        status, body = await self.send(method, params, **headers)
        assert "error" in body, body
        return status, body["error"]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Return the result of calling a tool."""
        return await self.result(
            "tools/call", {"name": name, "arguments": arguments or {}, **params}
        )
