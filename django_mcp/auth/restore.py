"""Store the principals of tasks, and restore them in the process that runs a task.

No credentials are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.principal import AuthInfo, Principal, user_of
from django_mcp.auth.recheck import recheck
from django_mcp.execution.threads import run_in_pool
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.exchange.exchange import ANONYMOUS

MAX_CLAIMS_BYTES = 16 * 1024
"""Size of the claims stored with a task, as JSON; larger claims are left out. Our own limit."""


def describe(principal: Any) -> JSONObject | None:
    """Return a description for `revive`; None for an anonymous caller."""
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
    """Return the principal of a description; None if it may not act any more.

    Args:
        described: the result of `describe`.
        authenticators: those of the server.
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
        # The site no longer has this authenticator, so it does not accept such credentials.
        return None
    source = source or Authenticator()
    principal = Principal(key=described["key"], user=user, auth=auth, source=source)
    return None if await recheck([principal], for_tasks=True) else principal


def _describe_auth(auth: AuthInfo) -> JSONObject:
    tools = auth.allowed_tools
    return {
        **{each.name: getattr(auth, each.name) for each in fields(AuthInfo)},
        "scopes": sorted(auth.scopes),
        "allowed_tools": None if tools is None else sorted(tools),
        "claims": _storable(auth.claims),
    }


def _storable(claims: Mapping[str, Any]) -> JSONObject:
    try:
        text = encode(dict(claims))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A custom authenticator may put anything there.
        return {}
    found: JSONObject = decode(text) if len(text) <= MAX_CLAIMS_BYTES else {}
    return found


def _read_auth(described: JSONObject) -> AuthInfo:
    tools = described["allowed_tools"]
    read = {
        "scopes": frozenset(described["scopes"]),
        "allowed_tools": None if tools is None else frozenset(tools),
        "claims": MappingProxyType(described["claims"]),
    }
    return AuthInfo(**{**described, **read})


def _find_user(pk: str) -> Any | None:
    from django_mcp.auth.users import find_users

    return next(iter(find_users([pk]).values()), None)
