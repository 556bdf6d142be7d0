"""Sessions: the connections of handshake revisions over HTTP, and which one a request belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import PROTOCOL_VERSION, SESSION_ID, Headers
from django_mcp.protocol.json import encode
from django_mcp.protocol.messages import Batch, Malformed, Message, Request
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.exchange.admission import is_stateless
from django_mcp.server.exchange.connection import Session

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.services.services import Services

MAX_TOKEN = 128
"""Characters of a session id that is worth looking up. Ours are shorter."""


BASE_BYTES = 2048
VALUE_BYTES = 64
"""Estimated memory of a session without its client details, and of each JSON value in those."""


def memory_size(session: Session) -> int:
    """Return about how many bytes of memory a session takes, without its subscriptions."""
    details = encode([session.client_info, session.client_capabilities])
    values = details.count(b",") + details.count(b"{") + details.count(b"[")
    return BASE_BYTES + len(details) + VALUE_BYTES * values


def allowed_methods(server: Services, headers: Headers | None, *, can_push: bool) -> bytes:
    """Return the HTTP methods that the endpoint serves; see `MCPServer.allowed_methods`.

    Source: RFC 9110 section 10.2.1.
    """
    named = headers.get(PROTOCOL_VERSION) if headers is not None else None
    revision = find_revision(named)
    if not server.keeps_sessions or (revision is not None and revision.is_stateless):
        return b"POST, OPTIONS"
    return b"GET, POST, DELETE, OPTIONS" if can_push else b"POST, DELETE, OPTIONS"


async def join_session(
    server: Services, exchange: Exchange, message: Message | Batch
) -> Refusal | None:
    """Set the connection of an exchange to the session it names, or say why it cannot be served.

    To be asked where `may_have_session`. A message whose body is of a stateless revision has none,
    and neither has the handshake that opens one.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    headers = exchange.headers
    if headers is None or isinstance(message, Malformed) or _needs_none(headers, message):
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


def join_at_hand(
    server: Services, exchange: Exchange, headers: Headers, message: Message | Batch
) -> bool:
    """Do as `join_session` does, if that takes no query of the store; return whether it did.

    For the commonest message by far, a request on a session that was used a moment ago.
    """
    if type(message) is not Request or message.method == "initialize":
        return False
    token = headers.get(SESSION_ID)
    if token is None or _needs_none(headers, message):
        return False
    session = server.sessions.peek(token) if is_token(token) else None
    if session is None or not _is_for(session, server, exchange):
        return False
    if server.options.require_initialized and not session.is_initialized:
        # Another process may have heard that it is.
        return False
    exchange.connection = session
    return True


def is_token(token: str) -> bool:
    """Return whether a session id is worth looking up."""
    return len(token) <= MAX_TOKEN and token.isascii()


def _is_for(
    session: Session, server: Services, exchange: Exchange, transport: str = "http"
) -> bool:
    return (
        not session.is_ended
        and session.transport == transport
        and session.principal_key == getattr(exchange.principal, "key", None)
        and session.server_name == server.options.name
    )


def _needs_none(headers: Headers, message: Message | Batch) -> bool:
    if not isinstance(message, Request):
        return False
    meta = message.params.get("_meta")
    version = meta.get(keys.PROTOCOL_VERSION) if type(meta) is dict else None
    if version is None:
        # By the header alone it `may_have_session`.
        return False
    return is_stateless(message.method, headers.get(PROTOCOL_VERSION), version)


async def find_session(
    server: Services, exchange: Exchange, token: str, *, transport: str = "http"
) -> Session | None:
    """Return the session with this id; None when it is unknown, ended or somebody else's.

    One that another transport carries is unknown as well.
    """
    sessions = server.sessions
    if not is_token(token):
        return None
    session = sessions.peek(token) or await sessions.find(token)
    is_theirs = session is not None and _is_for(session, server, exchange, transport)
    return session if is_theirs else None


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
NO_STORE = Refusal(
    code=INTERNAL_ERROR,
    message="The server cannot look this up now: try again",
    status=503,
    headers=((b"retry-after", b"2"),),
)
SESSIONS_FULL = Refusal(
    code=INTERNAL_ERROR,
    message="The server has as many sessions as MAX_SESSIONS allows: try again later",
    status=503,
    headers=((b"retry-after", b"10"),),
)
ALREADY_INITIALIZED = Refusal(
    code=INVALID_REQUEST, message="This connection is initialized already", status=400
)
_ALREADY_OPEN = Refusal(
    code=INVALID_REQUEST,
    message="This session is open already: leave Mcp-Session-Id out to open another",
    status=400,
)
