"""Checks of a request that ask the ports of its server: its session, the scopes of its token, and its rate."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable

from django_mcp.log import logger
from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import (
    SESSION_NOT_FOUND,
    TOO_MANY_REQUESTS,
    Refusal,
    invalid_request,
    try_later,
)
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.messages import Batch, Malformed, Message, Request
from django_mcp.protocol.revisions import has_handshake
from django_mcp.registry.access import Rate
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.visibility import Guarded
from django_mcp.server.services import ServedCall, Services

MAX_TOKEN = 128
"""Characters of a session id that is looked up. Those of this package are shorter."""


def note_hidden(call: ServedCall, entry: Entry, uri: str | None = None) -> None:
    """Log why an entry is unknown to the caller: as a warning on a site with `DEBUG`, else at the level DEBUG."""
    level = logging.WARNING if call.server.ports.shows_faults else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    why = call.exchange.caller.explain_hidden(entry, uri)
    if why is not None:
        logger.log(level, "%s. The client is told that it is unknown", why)


async def load_session(
    server: Services, exchange: Exchange, message: Message | Batch
) -> Refusal | None:
    """Set the connection of an exchange to the session that its headers name, or return a refusal.

    For headers that `may_have_session`. A message whose body is of a stateless revision has none,
    nor has the handshake that opens one. Source: 2025-11-25 basic/transports "Session Management".
    """
    headers = exchange.headers
    if headers is None or isinstance(message, Malformed):
        return None
    meta = message.params.get("_meta") if isinstance(message, Request) else None
    version = meta.get(keys.PROTOCOL_VERSION) if type(meta) is dict else None
    if version is not None and not has_handshake(version):
        return None
    token = headers.get(SESSION_ID)
    session = None
    if token is not None:
        # `find_session` peeks too, but its coroutine takes 2 % of the instructions of a call on a session.
        session = _peek(server, exchange, token) or await find_session(server, exchange, token)
    if isinstance(message, Request) and message.method == "initialize":
        return None if session is None else _ALREADY_OPEN
    if session is None:
        return NO_SESSION_ID if token is None else UNKNOWN_SESSION
    exchange.connection = session
    return None


def _peek(
    server: Services, exchange: Exchange, token: str, transport: str = "http"
) -> Session | None:
    """Return what `find_session` does, if this process has read the session lately."""
    session = (
        server.ports.sessions.peek(token) if token.isascii() and len(token) <= MAX_TOKEN else None
    )
    if session is None or (server.options.require_initialized and not session.is_initialized):
        # Another process may have received `notifications/initialized`.
        return None
    return session if _is_of(session, server, exchange, transport) else None


def _is_of(session: Session, server: Services, exchange: Exchange, transport: str) -> bool:
    return (
        not session.is_ended
        and session.transport == transport
        and session.principal_key == key_of(exchange.caller.principal)
        and session.server_name == server.options.name
    )


async def find_session(
    server: Services, exchange: Exchange, token: str, *, transport: str = "http"
) -> Session | None:
    """Return the session with this id if it is open, and of this principal, server and transport."""
    session = _peek(server, exchange, token, transport)
    if session is None and token.isascii() and len(token) <= MAX_TOKEN:
        session = await server.ports.sessions.find(token)
    is_found = session is not None and _is_of(session, server, exchange, transport)
    return session if is_found else None


NO_SESSION_ID = invalid_request(
    "The header Mcp-Session-Id is missing: send initialize first, or name a revision without sessions in "
    "MCP-Protocol-Version. This MCP endpoint is for AI clients",
    400,
)
UNKNOWN_SESSION = Refusal(
    code=SESSION_NOT_FOUND, message="There is no such session: send initialize again", status=404
)
SESSIONS_FULL = try_later("The server has as many sessions as MAX_SESSIONS allows: try again later")
ALREADY_INITIALIZED = invalid_request("This connection is initialized already", 400)
_ALREADY_OPEN = invalid_request(
    "This session is open already: leave Mcp-Session-Id out to open another", 400
)


def check_scopes(call: ServedCall, *guarded: Guarded) -> Refusal | None:
    """Return the refusal of a token that lacks scopes of the entries or extensions, or None."""
    visible = call.exchange.caller.visible
    scopes: tuple[str, ...] = ()
    for guarded_entry in guarded:
        scopes += visible.scopes_of(guarded_entry)
    return call.server.ports.access.check_scopes(call.exchange, scopes) if scopes else None


async def check_rate(call: ServedCall, rates: dict[str, Rate]) -> Refusal | None:
    """Count a request of a caller and of an address; return the refusal of one too many, or None."""
    exchange = call.exchange
    counted = []
    if "principal" in rates:
        counted.append((f"caller {exchange.caller.quota_key}", rates["principal"]))
    if "address" in rates and exchange.caller.address:
        counted.append((f"address {network_of(exchange.caller.address)}", rates["address"]))
    return await _check_rates(call.server, counted) if counted else None


async def check_tool_rate(call: ServedCall, entry: ToolEntry, rate: Rate) -> Refusal | None:
    """Count a call of a tool by one caller; return the refusal of one too many, or None."""
    counted = [(f"tool {entry.name} {call.exchange.caller.quota_key}", rate)]
    return await _check_rates(call.server, counted)


async def _check_rates(server: Services, counted: Iterable[tuple[str, Rate]]) -> Refusal | None:
    wait_s = await find_wait_s(server, counted)
    return None if wait_s is None else too_many(wait_s)


async def find_wait_s(server: Services, counted: Iterable[tuple[str, Rate]]) -> float | None:
    """Count one more for each subject, by windows of the clock; return how long to wait, or None."""
    now = server.ports.clock()
    limits, keys = [], []
    for subject, rate in counted:
        window = int(now // rate.period_s)
        text = "\n".join((server.options.name, subject, str(rate.period_s), str(window)))
        # Some caches accept only short plain keys, and what a client sent is neither.
        keys.append((hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), rate.period_s))
        limits.append((rate.limit, (window + 1) * rate.period_s - now))
    counts = await server.ports.counter(keys)
    waits = [wait_s for (limit, wait_s), count in zip(limits, counts, strict=True) if count > limit]
    return max(waits) if waits else None


def too_many(seconds: float) -> Refusal:
    """Return the refusal of a request over a rate limit, with the time to wait."""
    wait_s = max(1, math.ceil(seconds))
    message = f"Too many requests: try again in {wait_s} s"
    data = {"retryAfterS": wait_s}
    return try_later(message, wait_s, code=TOO_MANY_REQUESTS, status=429, data=data)
