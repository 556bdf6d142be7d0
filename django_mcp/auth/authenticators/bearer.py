"""What authenticators of bearer tokens have in common: one look at the header, and a short memory."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from django_mcp.auth.authenticator import Authenticator, Rejection
from django_mcp.auth.credentials import KEY_START, find_bearer_token
from django_mcp.auth.principal import Principal
from django_mcp.auth.scopes import are_covered
from django_mcp.auth.verdicts import MAX_AGE_S, Verdicts
from django_mcp.server.exchange.exchange import Exchange

__all__ = ["BearerAuthenticator"]


class BearerAuthenticator(Authenticator):
    """Knows one kind of bearer token. Subclasses implement `verify`, and may narrow `is_mine`.

    A subclass names the `authorization_servers` that issue its tokens. If the site hands the tokens out
    by other means, as it does API keys, it sets `needs_authorization_server` to False instead.

    Args:
        cache_s: seconds for which a verdict is remembered, 2 at most.
    """

    needs_authorization_server = True

    def __init__(self, *, cache_s: float = MAX_AGE_S) -> None:
        self._verdicts = Verdicts(cache_s)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        token = self.find_token(exchange)
        if token is None:
            return None
        # Kept by its digest: what is remembered outlives the request, and no token should.
        key = (hashlib.sha256(token.encode("latin-1", "replace")).digest(), self.variant(exchange))
        found = self._verdicts.find(key)
        if found is None and self.is_mine(token):
            changes = self._verdicts.changes
            found = self._check_scopes(await self.verify(token, exchange))
            # What was forgotten meanwhile may have been read before it changed.
            if found is not None and changes == self._verdicts.changes:
                self._verdicts.remember(key, found)
            if isinstance(found, Principal):
                # What is remembered keeps its user to itself.
                found = found.for_request()
        return found

    def _check_scopes(self, found: Principal | Rejection | None) -> Principal | Rejection | None:
        if not isinstance(found, Principal) or not self.required_scopes:
            return found
        scopes = found.auth.scopes if found.auth is not None else frozenset()
        return found if are_covered(self.required_scopes, scopes) else _TOO_FEW_SCOPES

    def challenge(self, exchange: Exchange) -> str | None:
        """See `Authenticator.challenge`."""
        return "Bearer"

    def find_token(self, exchange: Exchange) -> str | None:
        """Return the token that is presented; None: there is none."""
        return find_bearer_token(exchange.headers)

    def is_mine(self, token: str) -> bool:
        """Tell by its form alone whether a token is of this kind: any but our API keys.

        What is not is left to the authenticators that come after.
        """
        return not token.startswith(KEY_START)

    def variant(self, exchange: Exchange) -> Hashable:
        """Return what the verdict depends on besides the token: the resource it must be for, say."""
        return None

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        """Return whose token it is; None: of another kind, after all."""
        raise NotImplementedError


_TOO_FEW_SCOPES = Rejection(
    reason="The token has not the scopes that every call here needs",
    error="insufficient_scope",
    status=403,
)
