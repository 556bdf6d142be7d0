"""Find the session that a request over HTTP belongs to."""

from __future__ import annotations

from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, try_later
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.json import encode
from django_mcp.protocol.messages import Batch, Malformed, Message, Request
from django_mcp.protocol.revisions import has_handshake
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.exchange import Exchange, key_of
from django_mcp.server.services.services import Services

MAX_TOKEN = 128
"""Characters of a session id that is looked up. Those of this package are shorter."""

BASE_BYTES = 2048
VALUE_BYTES = 64
"""Estimated memory of a session, and of each JSON value in its client details."""


def memory_size(session: Session) -> int:
    """Return about how many bytes of memory a session takes without its subscriptions."""
    details = encode([session.client_info, session.client_capabilities])
    values = details.count(b",") + details.count(b"{") + details.count(b"[")
    return BASE_BYTES + len(details) + VALUE_BYTES * values


async def load_session(
    server: Services, exchange: Exchange, message: Message | Batch
) -> Refusal | None:
    """Set the connection of an exchange to the session that its headers name, or return a refusal.

    For headers that `may_have_session`. A message whose body is of a stateless revision has none,
    nor has the handshake that opens one.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    headers = exchange.headers
    if headers is None or isinstance(message, Malformed) or _is_stateless(message):
        return None
    token = headers.get(SESSION_ID)
    if isinstance(message, Request) and message.method == "initialize":
        is_open = token is not None and await find_session(server, exchange, token) is not None
        return _ALREADY_OPEN if is_open else None
    if token is None:
        return NO_SESSION_ID
    session = await find_session(server, exchange, token)
    if session is None:
        return UNKNOWN_SESSION
    exchange.connection = session
    return None


def _is_stateless(message: Message | Batch) -> bool:
    """Return whether the body of a message names a stateless revision."""
    meta = message.params.get("_meta") if isinstance(message, Request) else None
    version = meta.get(keys.PROTOCOL_VERSION) if type(meta) is dict else None
    return version is not None and not has_handshake(version)


async def find_session(
    server: Services, exchange: Exchange, token: str, *, transport: str = "http"
) -> Session | None:
    """Return the session with this id if it is open, and of this principal, server and transport."""
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    session = server.sessions.peek(token)
    if session is None or (server.options.require_initialized and not session.is_initialized):
        # Another process may have received `notifications/initialized`.
        session = await server.sessions.find(token)
    if (
        session is not None
        and not session.is_ended
        and session.transport == transport
        and session.principal_key == key_of(exchange.principal)
        and session.server_name == server.options.name
    ):
        return session
    return None


NO_SESSION_ID = Refusal(
    code=INVALID_REQUEST,
    message="The header Mcp-Session-Id is missing: send initialize first",
    status=400,
)
UNKNOWN_SESSION = Refusal(
    code=INVALID_REQUEST,
    message="There is no such session: send initialize again",
    status=404,
)
SESSIONS_FULL = try_later("The server has as many sessions as MAX_SESSIONS allows: try again later")
ALREADY_INITIALIZED = Refusal(
    code=INVALID_REQUEST, message="This connection is initialized already", status=400
)
_ALREADY_OPEN = Refusal(
    code=INVALID_REQUEST,
    message="This session is open already: leave Mcp-Session-Id out to open another",
    status=400,
)
