"""Sessions over HTTP, and the reasons for which they end."""

from __future__ import annotations

from enum import Enum
from typing import Any

from django_mcp.protocol.json import encode
from django_mcp.server.exchange.connection import ConnectionState

BASE_BYTES = 2048
VALUE_BYTES = 64
"""Estimated memory of a session, and of each JSON value in its client details."""


class Closing(Enum):
    """Why a session ended."""

    CLIENT = "the client ended it"
    SITE = "the site ended it"
    STREAM = "its stream is over"
    EVICTED = "it made room for a newer one"
    EXPIRED = "it expired"
    DELETED = "its row was deleted"


class Session(ConnectionState, weakref=True, kw_only=True):
    """A connection that lasts between requests, and may be used by several at once.

    Each process has at most one object for it.

    Attributes:
        key: its public name, in the database and between processes. It gives no access; the client
            has another, secret id.
        principal_key: the principal that opened it and alone may use it.
        is_ended: it has ended, even if this object is still in use.
        opened_s: when it was opened, in seconds since the epoch; 0: not known.
    """

    key: str
    server_name: str
    principal_key: str | None
    quota_key: str = ""
    transport: str = "http"
    was_told_lists: bool = False
    is_ended: bool = False
    opened_s: float = 0.0
    state: Any = None


def memory_size(session: Session) -> int:
    """Return about how many bytes of memory a session takes without its subscriptions."""
    details = encode([session.client_info, session.client_capabilities])
    values = details.count(b",") + details.count(b"{") + details.count(b"[")
    return BASE_BYTES + len(details) + VALUE_BYTES * values
