"""The HTTP requests that are measured, as the bytes that go over the socket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
# Stands for the request's id: ten digits, so that each request has another id and the same length.
ID = 1_000_000_000
CLIENT = {"name": "benchmarks", "version": "1"}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One POST: its path, and its bytes around the ten digits of the id."""

    path: str
    before: bytes
    after: bytes

    def numbered(self, number: int) -> bytes:
        return b"%s%d%s" % (self.before, ID + number, self.after)


def request(
    port: int,
    method: str,
    params: dict[str, Any],
    *,
    revision: str,
    path: str = "/mcp",
    close: bool = False,
    session: str | None = None,
) -> Request:
    """Build the request of one revision; `close` asks the server to close the connection after it."""
    modern = revision == MODERN
    headers = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
    }
    if session is not None:
        headers["Mcp-Session-Id"] = session
    if modern:
        params = {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}
        headers["Mcp-Method"] = method
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    if close:
        headers["Connection"] = "close"
    message = {"jsonrpc": "2.0", "id": ID, "method": method, "params": params}
    body = json.dumps(message, separators=(",", ":")).encode()
    headers["Content-Length"] = str(len(body))
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    before, after = (head.encode() + b"\r\n" + body).split(str(ID).encode())
    return Request(path=path, before=before, after=after)


def call(port: int, tool: str, arguments: dict[str, Any], *, revision: str, **how: Any) -> Request:
    """Build a tools/call."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if "progress_token" in how:
        params["_meta"] = {"progressToken": how.pop("progress_token")}
    return request(port, "tools/call", params, revision=revision, **how)


def handshake(port: int) -> Request:
    """Build the request that opens a session."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
    return request(port, "initialize", params, revision=LEGACY)


def initialized(port: int, session: str) -> bytes:
    """Build the notification that ends the handshake."""
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    return _head(port, "POST", session, len(body)) + body


def standalone_stream(port: int, session: str) -> bytes:
    """Build the request for the stream of a session."""
    return _head(port, "GET", session, 0)


def _head(port: int, verb: str, session: str, length: int) -> bytes:
    lines = [
        f"{verb} /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: text/event-stream, application/json" if length else "Accept: text/event-stream",
        f"MCP-Protocol-Version: {LEGACY}",
        f"Mcp-Session-Id: {session}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
