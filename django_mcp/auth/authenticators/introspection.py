"""Opaque tokens of an external issuer, which is asked about each (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django_mcp.auth.authenticator import Rejection
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
from django_mcp.auth.authenticators.recent_keys import RecentKeys
from django_mcp.auth.principal import Principal
from django_mcp.auth.reasking import RECHECK_S, Reasker
from django_mcp.auth.verdicts import MAX_AGE_S
from django_mcp.process import Warner
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import network_of

__all__ = ["IntrospectionAuthenticator"]

logger = logging.getLogger("django_mcp")

INACTIVE_CACHE_S: Final = 10.0
"""An inactive token does not become active, but an issuer's replica may learn of a new one late."""

KNOWN_S: Final = 3600.0
"""How long a token that was good is preferred to unknown ones when it has to be asked about again."""

MAX_KEYS: Final = 10_000
"""Tokens remembered as good, and as inactive."""


class IntrospectionAuthenticator(BearerAuthenticator):
    """Knows the tokens of an issuer that answers for them.

    Every bearer token that nobody before it knew is sent to the issuer, so it stands last. It is asked
    again about the tokens of what stays open.

    Args:
        url: the issuer's introspection endpoint.
        client_id, client_secret: by which the issuer knows this server.
        audience: what `aud` of the answer must hold, to the letter.
        issuer: what `iss` of the answer must be where it says one; told to clients as well.
        user_field, user_claim, find_user: as for `JWTAuthenticator`.
        required_scopes: what every token must be good for.
        timeout_s: for the answer.
        cache_s: seconds for which a verdict is remembered, 2 at most.
        inactive_cache_s: seconds for which the issuer is not asked again about a token that it called
            inactive.
        recheck_s: seconds between two questions about a token by which something is open; None: that
            stays open until the token's `exp`.

    Raises:
        ValueError: an address is not https, or nobody is named as audience.
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
        self._known = RecentKeys(max_age_s=KNOWN_S, max_keys=MAX_KEYS)
        self._inactive = RecentKeys(max_age_s=inactive_cache_s, max_keys=MAX_KEYS)
        self.authorization_servers = (issuer,)
        self.required_scopes = tuple(required_scopes)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        found = await super().authenticate(exchange)
        token = self.find_token(exchange)
        if isinstance(found, Principal) and token is not None:
            # On the request's own: what is remembered of a verdict has no token in it.
            found.handle = _Token(token)
        return found

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        """See `BearerAuthenticator.verify`."""
        return await self._introspect(token, network_of(exchange.address or ""))

    async def find_ended(self, principals: Collection[Principal]) -> set[Principal]:
        """See `Authenticator.find_ended`: also those whose token the issuer has taken back."""
        found = await self._reasker.find_ended(principals)
        return found | await self.find_withdrawn(principals)

    async def _ask_again(self, token: _Token) -> Principal | Rejection | None:
        return await self._introspect(token.text, None)

    async def _introspect(self, token: str, address: str | None) -> Principal | Rejection | None:
        """Return whose token it is.

        Args:
            token: what the issuer is asked about.
            address: from where it came; None: from a client that something is open for.
        """
        # Tokens are remembered by their digests, so that memory holds none.
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        if key in self._inactive:
            return _INACTIVE
        answer = await self._ask(token, key, None if key in self._known else address)
        refusal = answer if isinstance(answer, Rejection) else self._judge(answer)
        if refusal is not None:
            self._note_refusal(key, refusal)
            return refusal
        auth = to_auth_info(self.kind, answer)
        if isinstance(auth, Rejection):
            return auth
        self._known.add(key)
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
            self._inactive.add(key)

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
    """In memory for as long as something is open by it, and never written out."""

    text: str = field(repr=False)


_INACTIVE = Rejection(reason="The token is unknown to its issuer, or no longer valid")
_BUSY = Rejection(
    reason="Too many tokens are being checked now: try again later", error=None, status=503
)
_UNANSWERED = Rejection(
    reason="The issuer of the token cannot be asked now", error=None, status=503
)
