"""Opaque tokens of an external issuer, checked by introspection (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django_mcp.auth.authenticators.bearer import BearerAuthenticator
from django_mcp.auth.authenticators.claims import (
    FindUser,
    UserFinder,
    audiences_of,
    check_audience,
    to_auth_info,
)
from django_mcp.auth.authenticators.fetch import FetchError, check_url, fetch_json
from django_mcp.auth.authenticators.introspection_queue import QuestionQueue, QueueFull
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.auth.reasking import RECHECK_S, Reasker
from django_mcp.auth.verdicts import MAX_AGE_S
from django_mcp.execution.expiring import Expiring
from django_mcp.process import Warner
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import network_of

logger = logging.getLogger("django_mcp")

INACTIVE_CACHE_S: Final = 10.0
"""An inactive token does not become active, but an issuer's replica may learn of a new one late."""

KNOWN_S: Final = 3600.0
"""How long a token that was good is preferred to unknown ones when it has to be asked about again."""

MAX_KEYS: Final = 10_000
"""Tokens remembered as good, and as inactive."""


class IntrospectionAuthenticator(BearerAuthenticator):
    """Accepts the tokens of an issuer, which is asked about each token.

    It sends every bearer token that no authenticator before it accepted to the issuer, so name it last.
    Tokens that have something open are checked again.

    Args:
        url: the issuer's introspection endpoint.
        client_id, client_secret: the credentials of this server at the issuer.
        audience: what `aud` of the answer must contain exactly.
        issuer: what `iss` of the answer must be, if there is one. Clients get it as well.
        user_field, user_claim, find_user: as for `JWTAuthenticator`.
        required_scopes: the scopes that every token must have.
        timeout_s: for the answer.
        cache_s: seconds for which a result is cached, 2 at most.
        inactive_cache_s: seconds for which the issuer is not asked again about an inactive token.
        recheck_s: seconds between two checks of a token that has something open; None: that stays open
            until the token's `exp`.

    Raises:
        ValueError: an address is not https, or there is no audience.
    """

    kind = "introspection"

    def __init__(
        self,
        *,
        url: str,
        client_id: str,
        client_secret: str,
        audience: str | Sequence[str],
        issuer: str,
        user_field: str | None = None,
        user_claim: str = "sub",
        find_user: FindUser | None = None,
        required_scopes: Sequence[str] = (),
        timeout_s: float = 5.0,
        cache_s: float = MAX_AGE_S,
        inactive_cache_s: float = INACTIVE_CACHE_S,
        recheck_s: float | None = RECHECK_S,
    ) -> None:
        super().__init__(cache_s=cache_s)
        self._reasker = Reasker(self._ask_again, recheck_s)
        self._url = check_url(url, "url")
        self._issuer = check_url(issuer, "issuer")
        self._credentials = (client_id, client_secret)
        self._audience = frozenset(check_audience(audience))
        self._users = UserFinder(field=user_field, claim=user_claim, function=find_user)
        self._timeout_s = timeout_s
        self._trouble = Warner()
        self._queue = QuestionQueue(max_wait_s=timeout_s)
        self._inactive_cache_s = inactive_cache_s
        self._known: Expiring[bool] = Expiring(MAX_KEYS)
        self._inactive: Expiring[bool] = Expiring(MAX_KEYS)
        self.authorization_servers = (issuer,)
        self.required_scopes = tuple(required_scopes)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        found = await super().authenticate(exchange)
        token = self.find_token(exchange)
        if isinstance(found, Principal) and token is not None:
            # Only here: the cached principal holds no token.
            found.handle = _Token(token)
        return found

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        return await self._introspect(token, network_of(exchange.address or ""))

    async def _ask_again(self, token: _Token) -> Principal | Rejection | None:
        return await self._introspect(token.text, None)

    async def _introspect(self, token: str, address: str | None) -> Principal | Rejection | None:
        """Ask about a token. `address` is the client's; None for a token that has something open."""
        # Caches hold digests and no tokens.
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        if self._inactive.get(key):
            return _INACTIVE
        answer = await self._ask(token, key, None if self._known.get(key) else address)
        refusal = answer if isinstance(answer, Rejection) else self._judge(answer)
        if refusal is not None:
            self._note_refusal(key, refusal)
            return refusal
        auth = to_auth_info(self.kind, answer)
        if isinstance(auth, Rejection):
            return auth
        self._known.set(key, True, KNOWN_S)
        return await self._users.to_principal(auth, issuer=self._issuer, source=self)

    async def _ask(self, token: str, key: bytes, address: str | None) -> Any:
        ask = partial(
            fetch_json,
            self._url,
            timeout_s=self._timeout_s,
            form={"token": token, "token_type_hint": "access_token"},
            credentials=self._credentials,
        )
        try:
            return await self._queue.ask(key, ask, address)
        except FetchError as error:
            logger.warning("Could not ask %s about a token: %s", self._issuer, error)
            return _UNANSWERED
        except QueueFull:
            self._trouble.warn("Did not ask %s about a token: too many others wait", self._issuer)
            return _BUSY

    def _note_refusal(self, key: bytes, refusal: Rejection) -> None:
        if refusal.status < 500:
            self._known.discard(key)
        if refusal is _INACTIVE:
            self._inactive.set(key, True, self._inactive_cache_s)

    def _judge(self, answer: Any) -> Rejection | None:
        if not isinstance(answer, dict) or answer.get("active") is not True:
            return _INACTIVE
        if answer.get("iss", self._issuer) != self._issuer:
            return Rejection(reason="The token is of another issuer")
        if not self._audience & audiences_of(answer):
            return Rejection(reason="The token is for somebody else")
        expires_at = answer.get("exp")
        if isinstance(expires_at, int | float) and expires_at <= time.time():
            return Rejection(reason="The token has expired")
        return None


@dataclass(frozen=True, slots=True)
class _Token:
    """A token that has something open. It stays in memory, and is never written out."""

    text: str = field(repr=False)


_INACTIVE = Rejection(reason="The token is unknown to its issuer, or no longer valid")
_BUSY = Rejection(
    reason="Too many tokens are being checked now: try again later", error=None, status=503
)
_UNANSWERED = Rejection(
    reason="The issuer of the token cannot be asked now", error=None, status=503
)
