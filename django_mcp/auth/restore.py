"""Principals of tasks: written down with a task, and made again in the process that runs it.

No credentials are written down, and nothing that would prove who somebody is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.principal import AuthInfo, Principal, user_of
from django_mcp.auth.recheck import find_withdrawn
from django_mcp.handlers.threads import run_in_pool
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.exchange.exchange import ANONYMOUS

__all__ = ["describe", "revive"]

MAX_CLAIMS_BYTES = 16 * 1024
"""Claims kept with a task, as JSON; those of larger or stranger tokens stay behind. Our own limit."""


def describe(principal: Any) -> JSONObject | None:
    """Return what `revive` needs; None for nobody."""
    if principal is ANONYMOUS:
        return None
    user, auth = user_of(principal), getattr(principal, "auth", None)
    source = getattr(principal, "source", None)
    return {
        "source": None if source is None or type(source) is Authenticator else source.kind,
        "key": getattr(principal, "key", None) if isinstance(principal, Principal) else None,
        "user": None if user.pk is None else str(user.pk),
        "auth": None if auth is None else _describe_auth(auth),
    }


async def revive(
    described: JSONObject | None, authenticators: Iterable[Authenticator]
) -> Any | None:
    """Return the principal that was described; None when it may do nothing any more.

    Args:
        described: by `describe`, at another time.
        authenticators: of the server, which know whether its credentials were withdrawn meanwhile.
    """
    if described is None:
        return ANONYMOUS
    user = None
    if described["user"] is not None:
        user = await run_in_pool(partial(_find_user, described["user"]))
        if user is None:
            return None
    if described["key"] is None:
        return user
    auth = None if described["auth"] is None else _read_auth(described["auth"])
    kind = described["source"]
    source = next((each for each in authenticators if each.kind == kind), None)
    if source is None and kind is not None:
        # The site has taken that authenticator away, and lets nobody in by such credentials.
        return None
    source = source or Authenticator()
    principal = Principal(key=described["key"], user=user, auth=auth, source=source)
    return None if await find_withdrawn([principal]) else principal


def _describe_auth(auth: AuthInfo) -> JSONObject:
    tools = auth.allowed_tools
    return {
        "subject": auth.subject,
        "authenticator": auth.authenticator,
        "client_id": auth.client_id,
        "scopes": sorted(auth.scopes),
        "has_all_scopes": auth.has_all_scopes,
        "tools": None if tools is None else sorted(tools),
        "expires_at": auth.expires_at,
        "claims": _storable(auth.claims),
    }


def _storable(claims: Mapping[str, Any]) -> JSONObject:
    try:
        text = encode(dict(claims))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # An authenticator of the site may put anything there.
        return {}
    found: JSONObject = decode(text) if len(text) <= MAX_CLAIMS_BYTES else {}
    return found


def _read_auth(described: JSONObject) -> AuthInfo:
    tools = described["tools"]
    return AuthInfo(
        subject=described["subject"],
        authenticator=described["authenticator"],
        client_id=described["client_id"],
        scopes=frozenset(described["scopes"]),
        has_all_scopes=described["has_all_scopes"],
        claims=MappingProxyType(described["claims"]),
        allowed_tools=None if tools is None else frozenset(tools),
        expires_at=described["expires_at"],
    )


def _find_user(pk: str) -> Any | None:
    from django.contrib.auth import get_user_model

    user = get_user_model()._default_manager.filter(pk=pk).first()
    return user if user is not None and user.is_active else None
