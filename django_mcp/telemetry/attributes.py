"""The attributes of spans and metrics. Source: the semantic conventions of OpenTelemetry for MCP, November 2026.

Those that begin with `django_mcp.` are ours.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TypeAlias

from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.json import encode
from django_mcp.protocol.messages import Request
from django_mcp.protocol.sanitize import clean
from django_mcp.registry.entries import PromptEntry, ResourceEntry, TemplateEntry
from django_mcp.server.exchange.session import Session
from django_mcp.telemetry.operation import OTHER, Operation

Attributes: TypeAlias = dict[str, str | int]

SCOPE = ("django_mcp", sys.modules["django_mcp"].__version__)
"""The name and the version of what makes spans and metrics. The package is above this module, and is loaded."""

MAX_DETAIL_CHARS = 4096
"""Of one argument, of all arguments of a tool, of a URI and of a result."""

MAX_BODY_BYTES = 64 * 1024
"""The arguments of a larger request are not encoded again."""

_SESSION_ID = SESSION_ID.encode()

_RESULT = b'"result":'


def find_common(operation: Operation) -> Attributes:
    """Return the attributes that spans and metrics have in common, whose values are few."""
    found: Attributes = {"django_mcp.server.name": operation.server}
    entry = operation.entry
    if operation.is_task:
        found["gen_ai.operation.name"] = "execute_tool"
        found["gen_ai.tool.name"] = OTHER if entry is None else entry.name
    else:
        found["mcp.method.name"] = operation.method
        if operation.method == "tools/call":
            found["gen_ai.operation.name"] = "execute_tool"
            found["gen_ai.tool.name"] = OTHER if entry is None else entry.name
        elif operation.method == "prompts/get":
            found["gen_ai.prompt.name"] = OTHER if entry is None else entry.name
    if operation.revision is not None:
        found["mcp.protocol.version"] = operation.revision
    if operation.transport is not None:
        found["network.transport"] = operation.transport
        if operation.transport == "tcp":
            found["network.protocol.name"] = "http"
            if operation.http_version is not None:
                found["network.protocol.version"] = operation.http_version
    if operation.code is not None:
        found["rpc.response.status_code"] = str(operation.code)
    error_type = operation.error_type
    if error_type is not None:
        found["error.type"] = error_type
    found["django_mcp.outcome"] = operation.outcome
    return found


def find_own(operation: Operation, details: frozenset[str]) -> Attributes:
    """Return the attributes of a span alone, while the operation has its exchange."""
    found: Attributes = {}
    exchange, message = operation.exchange, operation.message
    if isinstance(message, Request):
        found["jsonrpc.request.id"] = clean(str(message.id), 200)
    session = _find_session(operation)
    if session:
        found["mcp.session.id"] = session if "session_id" in details else shorten(session)
    if "client_address" in details and exchange is not None and exchange.caller.address:
        found["client.address"] = exchange.caller.address
        client = (operation.scope or {}).get("client")
        if client and client[1]:
            found["client.port"] = client[1]
    if isinstance(operation.entry, ResourceEntry | TemplateEntry):
        found["django_mcp.resource.name"] = operation.entry.name
    if operation.reference:
        found["django_mcp.error.reference"] = operation.reference
    return found


def _find_session(operation: Operation) -> str:
    """Return the public key of the session of an operation, also of one that it has opened."""
    call, exchange, reply = operation.call, operation.exchange, operation.reply
    connection = None if exchange is None else exchange.connection
    # The handshake of HTTP+SSE is on a connection that is a session from its beginning.
    if call is not None and not isinstance(connection, Session):
        connection = call.connection
        token = None if reply is None else dict(reply.headers).get(_SESSION_ID)
        if token is not None:
            connection = call.server.ports.sessions.peek(token.decode()) or connection
    return connection.key if isinstance(connection, Session) else ""


def shorten(session: str) -> str:
    """Return a digest of the public key of a session, which tells the calls of one from those of others."""
    return hashlib.sha256(session.encode()).hexdigest()[:16]


def find_content(operation: Operation, details: frozenset[str]) -> Attributes:
    """Return what the details admit of the content of a message, cut to a length."""
    found: Attributes = {}
    call, reply = operation.call, operation.reply
    params = {} if call is None else call.params
    if "resource_uri" in details and operation.method.startswith("resources/"):
        uri = params.get("uri")
        if type(uri) is str:
            found["mcp.resource.uri"] = clean(uri, MAX_DETAIL_CHARS)
    arguments = params.get("arguments")
    if "arguments" in details and operation.entry is not None and type(arguments) is dict:
        if isinstance(operation.entry, PromptEntry):
            for name in operation.entry.argument_names:
                if type(arguments.get(name)) is str:
                    value = clean(arguments[name], MAX_DETAIL_CHARS)
                    found[f"gen_ai.prompt.variable.{name}"] = value
        elif operation.method == "tools/call":
            is_small = call is not None and len(call.exchange.body) <= MAX_BODY_BYTES
            found["gen_ai.tool.call.arguments"] = _cut(encode(arguments)) if is_small else "…"
    body = None if reply is None else reply.body
    if (
        "results" in details
        and operation.method == "tools/call"
        and body
        and operation.code is None
    ):
        found["gen_ai.tool.call.result"] = _cut(body.partition(_RESULT)[2][:-1])
    return found


def _cut(encoded: bytes) -> str:
    return clean(encoded[: 4 * MAX_DETAIL_CHARS].decode("utf-8", "replace"), MAX_DETAIL_CHARS)
