"""Principals from the claims of other issuers' tokens: audience, scopes, and the account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from django_mcp.auth.principal import AuthInfo, Principal, Rejection, make_key
from django_mcp.execution.threads import run_in_pool

Claims: TypeAlias = Mapping[str, Any]

FindUser: TypeAlias = Callable[[Claims], Any]
"""Returns the user of claims, or None. Runs in a thread and may query the database."""


def check_audience(audience: Any) -> list[str]:
    """Return the accepted audiences, given as one or several names.

    Raises:
        ValueError: there are none.
    """
    names = [audience] if isinstance(audience, str) else audience
    found = list(names) if isinstance(names, Iterable) else []
    if not found or not all(isinstance(each, str) and each for each in found):
        raise ValueError("audience must name the audience of tokens, such as this server's address")
    return found


def audiences_of(claims: Claims) -> frozenset[str]:
    """Return the audiences of a token: `aud`, a string or a list (RFC 7519 section 4.1.3)."""
    found = claims.get("aud", ())
    every = found if isinstance(found, list) else [found]
    return frozenset(each for each in every if isinstance(each, str))


def scopes_of(claims: Claims) -> frozenset[str]:
    """Return the scopes of a token: `scope`, or `scp` as Microsoft and Okta call it."""
    found = claims.get("scope", claims.get("scp", ""))
    words = found if isinstance(found, list) else str(found).split()
    return frozenset(each for each in words if isinstance(each, str))


def to_auth_info(kind: str, claims: Claims) -> AuthInfo | Rejection:
    """Return the information of verified claims."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        return Rejection(reason="The token names no subject")
    client_id = claims.get("client_id", claims.get("azp"))
    expires_at = _to_seconds(claims.get("exp"))
    if expires_at is None and claims.get("exp") is not None:
        # A stream opened with it would never end.
        return Rejection(reason="The token's exp is no number")
    return AuthInfo(
        subject=subject,
        client_id=client_id if isinstance(client_id, str) else None,
        scopes=scopes_of(claims),
        # A copy, since the cache hands it out several times.
        claims=MappingProxyType(dict(claims)),
        expires_at=expires_at,
        authenticator=kind,
    )


def _to_seconds(value: Any) -> float | None:
    """Return the seconds of a NumericDate (RFC 7519 section 2); None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


class UserFinder:
    """Finds the account of claims.

    Args:
        field: the field of the user model that is compared with `claim`.
        claim: the claim that identifies the user; its issuer must guarantee it.
    """

    def __init__(self, *, field: str | None, claim: str, function: FindUser | None) -> None:
        self._field = field
        self._claim = claim
        self._function = function

    async def to_principal(
        self, auth: AuthInfo, *, issuer: str, source: Any
    ) -> Principal | Rejection:
        """Return the principal; without `field` or `function` it has no account on this site."""
        user = None
        if self._function is not None or self._field is not None:
            user = await run_in_pool(partial(self._find, auth.claims))
            if user is None:
                return _NO_ACCOUNT
        who = f"{issuer} {auth.subject}" if user is None else user.pk
        key = make_key(auth.authenticator, who, auth.client_id)
        return Principal(key=key, user=user, auth=auth, source=source)

    def _find(self, claims: Claims) -> Any:
        from django.contrib.auth import get_user_model

        from django_mcp.auth.users import is_active

        if self._function is not None:
            user = self._function(claims)
        else:
            value = claims.get(self._claim)
            if not isinstance(value, str) or not value:
                return None
            users = get_user_model()._default_manager
            # Two of them are an error, so neither is taken.
            found = list(users.filter(**{str(self._field): value})[:2])
            user = found[0] if len(found) == 1 else None
        return user if user is not None and is_active(user) else None


_NO_ACCOUNT = Rejection(reason="The token's subject has no active account here")
