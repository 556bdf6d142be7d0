"""The base class of authenticators of bearer tokens, with a short cache."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.credentials import KEY_START, find_bearer_token
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.auth.scopes import are_covered
from django_mcp.auth.verdicts import MAX_AGE_S, Verdicts
from django_mcp.server.exchange.exchange import Exchange


class BearerAuthenticator(Authenticator):
    """Accepts one kind of bearer token. Subclasses implement `verify`, and may narrow `is_mine`.

    A subclass names the `authorization_servers` that issue its tokens. If the site hands the tokens out
    by other means, as it does API keys, it sets `needs_authorization_server` to False instead.

    Args:
        cache_s: seconds for which a result is cached, 2 at most.
    """

    needs_authorization_server = True

    def __init__(self, *, cache_s: float = MAX_AGE_S) -> None:
        self._verdicts = Verdicts(cache_s)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        token = self.find_token(exchange)
        if token is None:
            return None
        # The cache outlives the request, so it holds the digest and not the token.
        key = (hashlib.sha256(token.encode("latin-1", "replace")).digest(), self.variant(exchange))
        found = self._verdicts.find(key)
        if found is None and self.is_mine(token):
            changes = self._verdicts.changes
            found = self._check_scopes(await self.verify(token, exchange))
            # A result that was dropped meanwhile may have been read before the change.
            if found is not None and changes == self._verdicts.changes:
                self._verdicts.remember(key, found)
            if isinstance(found, Principal):
                # The cached principal does not share its user.
                found = found.for_request()
        return found

    def _check_scopes(self, found: Principal | Rejection | None) -> Principal | Rejection | None:
        if not isinstance(found, Principal) or not self.required_scopes:
            return found
        scopes = found.auth.scopes if found.auth is not None else frozenset()
        return found if are_covered(self.required_scopes, scopes) else _TOO_FEW_SCOPES

    def challenge(self, exchange: Exchange) -> str | None:
        return "Bearer"

    def find_token(self, exchange: Exchange) -> str | None:
        """Return the token of a request, if there is one."""
        return find_bearer_token(exchange.headers)

    def is_mine(self, token: str) -> bool:
        """Return whether a token may be of this kind, by its form: all but API keys.

        Other tokens are left to the next authenticators.
        """
        return not token.startswith(KEY_START)

    def variant(self, exchange: Exchange) -> Hashable:
        """Return what the result depends on besides the token, such as the requested resource."""
        return None

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        """Return the principal of a token; None if the token is of another kind after all."""
        raise NotImplementedError


_TOO_FEW_SCOPES = Rejection(
    reason="The token lacks scopes that every call of this server needs",
    error="insufficient_scope",
    status=403,
)
