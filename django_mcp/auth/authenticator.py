"""The base classes of authenticators: each finds the principal of one kind of credentials."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.auth.credentials import KEY_START, find_bearer_token
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.auth.recheck import Reasker
from django_mcp.auth.scopes import are_covered
from django_mcp.auth.verdicts import MAX_AGE_S, Verdicts
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest


class Authenticator:
    """Authenticates by one kind of credentials. A server asks its authenticators in order.

    Subclasses implement `authenticate`, with or without `async`; without, it runs in a thread.
    One object serves all requests at the same time.
    """

    kind: str = "custom"
    """Names the kind of credentials, in principals' keys and in `AuthInfo.authenticator`."""

    authorization_servers: tuple[str, ...] = ()
    """Issuers whose tokens are accepted, for the metadata of the protected resource (RFC 9728)."""

    needs_authorization_server: bool = False
    """Whether clients get these credentials from an authorization server.

    A site with such an authenticator and without an authorization server for it does not start.
    """

    is_of_this_site: bool = False
    """Whether this site's own authorization server issues the tokens."""

    required_scopes: tuple[str, ...] = ()
    """Scopes that every token must have; the challenge names them."""

    _reasker: Reasker | None = None
    """Checks the credentials of open streams one by one, if no query can check all at once."""

    def authenticate(self, exchange: Exchange) -> Any:
        """Return the `Principal`, a `Rejection`, or None when there are no credentials of this kind.

        Args:
            exchange: the request without its body, which has not been read.
        """
        raise NotImplementedError

    def find_authorization_servers(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the issuers whose tokens are accepted; this site is named by its own address.

        Args:
            request: the request for the metadata, or the one that is refused.
        """
        return self.authorization_servers

    def names_authorization_server(self) -> bool:
        """Return whether clients can find out where to get a token."""
        is_found_by_request = (
            type(self).find_authorization_servers is not Authenticator.find_authorization_servers
        )
        return is_found_by_request or bool(self.authorization_servers)

    def challenge(self, exchange: Exchange) -> str | None:
        """Return a challenge for `WWW-Authenticate`: a scheme with its parameters.

        `Bearer` alone stands for the server's bearer challenge, with realm, scope and metadata.
        """
        return None

    def find_problems(self) -> list[str]:
        """Return problems of the site's configuration for the system checks; a sentence each."""
        return []

    async def find_ended(
        self, principals: Collection[Principal], *, for_tasks: bool = False
    ) -> set[Principal]:
        """Return those of its principals whose credentials no longer hold.

        Called every few seconds for open streams, running calls and tasks, so it takes one query for
        all. The default finds deactivated users, and what the `_reasker` finds. Override it if
        credentials can end earlier than their user.

        Args:
            for_tasks: these are principals of tasks, which outlive the tokens they began with. Return
                only those that may not act any more with any credentials. The process may know a
                principal by its key and `auth` alone.
        """
        from django_mcp.auth.users import find_without_active_user

        ended = await run_in_pool(partial(find_without_active_user, principals))
        if self._reasker is not None and not for_tasks:
            ended |= await self._reasker.find_ended(principals)
        return ended


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
