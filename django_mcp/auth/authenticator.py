"""The base classes of authenticators: each finds the principal of one kind of credentials."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakSet

from django_mcp.auth.principal import KEY_START, Principal, Rejection, find_bearer_token
from django_mcp.auth.recheck import Revalidator
from django_mcp.execution.threads import run_in_pool
from django_mcp.process import Expiring
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest


Verdict: TypeAlias = Principal | Rejection | None


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
    """Scopes that all credentials must have; the server checks them, and the challenge names them."""

    limits_scopes: bool = True
    """Whether its credentials may be limited to scopes; False: they permit everything that their user may do."""

    reads_models: tuple[str, ...] = ()
    """The models of this package that it reads, by their labels, or whole apps. Readiness asks for their tables."""

    _revalidator: Revalidator | None = None
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
        all. The default finds deactivated users; authenticators of this package with `recheck_s` also
        authenticate the others once more. Override it if credentials can end earlier than their user.

        Args:
            for_tasks: these are principals of tasks, which outlive the tokens they began with. Return
                only those that may not act any more with any credentials. The process may know a
                principal by its key and `auth` alone.
        """
        from django_mcp.auth.users import find_users

        wanted = {
            principal: principal.user.pk
            for principal in principals
            if principal.user.pk is not None
        }
        users = await run_in_pool(partial(find_users, set(wanted.values()))) if wanted else {}
        ended = {each for each, pk in wanted.items() if pk not in users}
        if self._revalidator is not None and not for_tasks:
            ended |= await self._revalidator.find_ended(principals)
        return ended


MAX_AGE_S: Final = 2.0
"""How long a result may be used. A revocation without a signal counts that much later."""

MAX_ENTRIES: Final = 4096
"""Results of each kind that are cached; beyond that the oldest are dropped."""


class AuthCache:
    """Caches principals and rejections for `max_age_s` seconds.

    The keys are digests, so no credentials are stored. Rejections are apart from principals, so that
    many wrong credentials displace no principal.
    """

    def __init__(self, max_age_s: float = MAX_AGE_S) -> None:
        self._max_age_s = min(max_age_s, MAX_AGE_S)
        self._good: Expiring[Principal] = Expiring(MAX_ENTRIES)
        self._bad: Expiring[Rejection] = Expiring(MAX_ENTRIES)
        self._changes = 0
        _all.add(self)

    def find(self, key: Hashable) -> Verdict:
        """Return the cached result, if it is still valid."""
        known = self._good.get(key)
        if known is None:
            return self._bad.get(key)
        expires_at = None if known.auth is None else known.auth.expires_at
        return known.for_request() if expires_at is None or time.time() < expires_at else None

    async def learn(self, key: Hashable, ask: Callable[[], Awaitable[Verdict]]) -> Verdict:
        """Return the result of `ask`, and cache it."""
        changes = self._changes
        outcome = await ask()
        # A result that was dropped meanwhile may have been read before the change.
        if outcome is not None and changes == self._changes:
            self.remember(key, outcome)
        # The cached principal does not share its user.
        return outcome.for_request() if isinstance(outcome, Principal) else outcome

    def remember(self, key: Hashable, verdict: Principal | Rejection) -> None:
        """Cache a new result."""
        if isinstance(verdict, Principal):
            self._good.set(key, verdict, self._max_age_s)
        elif verdict.status in (401, 403):
            self._bad.set(key, verdict, self._max_age_s)

    def forget(self, names: Collection[str] | None) -> None:
        """Drop the principals of clients by their `client_id`; None: all."""
        self._changes += 1
        for key, principal in self._good.find_all():
            if names is None or (principal.auth is not None and principal.auth.client_id in names):
                self._good.discard(key)


_all: WeakSet[AuthCache] = WeakSet()


def forget_cached(names: Collection[str] | None) -> None:
    """Drop the cached principals of this process by their `client_id`; None: all."""
    for cache in list(_all):
        cache.forget(names)


def knows_any(kind: str) -> bool:
    """Return whether this process caches a principal of this kind of authenticator."""
    kept = (principal for cache in list(_all) for _key, principal in cache._good.find_all())
    return any(
        principal.auth is not None and principal.auth.authenticator == kind for principal in kept
    )


class BearerAuthenticator(Authenticator):
    """Accepts one kind of bearer token. Subclasses implement `verify`, and may narrow `is_mine`.

    A subclass names the `authorization_servers` that issue its tokens. If the site hands the tokens out
    by other means, as it does API keys, it sets `needs_authorization_server` to False instead.

    Args:
        cache_s: seconds for which a result is cached, 2 at most.
    """

    needs_authorization_server = True

    def __init__(self, *, cache_s: float = MAX_AGE_S) -> None:
        self._cache = AuthCache(cache_s)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        token = self.find_token(exchange)
        if token is None:
            return None
        # The cache outlives the request, so it holds the digest and not the token.
        key = (hashlib.sha256(token.encode("latin-1", "replace")).digest(), self.variant(exchange))
        ask = partial(self._verify_mine, token, exchange)
        return self._cache.find(key) or await self._cache.learn(key, ask)

    async def _verify_mine(self, token: str, exchange: Exchange) -> Verdict:
        return await self.verify(token, exchange) if self.is_mine(token) else None

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
