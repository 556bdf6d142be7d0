"""Opaque tokens of an external issuer, checked by introspection (RFC 7662) in a bounded, fair queue."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django_mcp.auth.authenticator import MAX_AGE_S, BearerAuthenticator
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.auth.recheck import RECHECK_S, Revalidator
from django_mcp.contrib.issuers import (
    Audiences,
    FetchError,
    FindUser,
    UserFinder,
    check_url,
    fetch_json,
    to_auth_info,
)
from django_mcp.execution.outages import Warner
from django_mcp.process import Expiring
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import network_of

__all__ = ["IntrospectionAuthenticator"]

THREADS: Final = 8
"""Questions that are asked at the same time."""

THREADS_FOR_UNKNOWN: Final = 6
"""Questions about unknown tokens that are asked at the same time; known tokens have the rest."""

THREADS_PER_ADDRESS: Final = 3
"""Questions about unknown tokens from one address that are asked at the same time."""

MAX_WAITING: Final = 200
"""Questions about unknown tokens that wait for a thread."""

MAX_WAITING_PER_ADDRESS: Final = 50
"""Questions about unknown tokens from one address that wait for a thread."""

MAX_WAITING_KNOWN: Final = 1000
"""Questions about known tokens that wait for a thread."""


class IntrospectionQueueFull(Exception):
    """A question was not asked: too many others wait, or it waited for too long."""


@dataclass(eq=False, slots=True)
class _Question:
    """One question, and how many wait for its answer."""

    key: Hashable
    ask: Callable[[], Any]
    address: str | None
    expires_at: float
    answer: Future[Any] = field(default_factory=Future)
    waiters: int = 0


class QuestionQueue:
    """Asks questions about tokens in threads of its own, about each token once at a time.

    Questions about tokens that were good before are asked first. The others follow by address: the one
    with the fewest questions under way is next. So many junk tokens delay neither known clients nor new
    clients at other addresses.

    Args:
        max_wait_s: how long a question may wait for a thread.
    """

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s = max_wait_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="django-mcp-introspect")
        self._lock = threading.Lock()
        self._open: dict[Hashable, _Question] = {}
        self._waiting: dict[_Question, None] = {}
        self._running: set[_Question] = set()

    async def ask(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> Any:
        """Return the answer to a question.

        Args:
            key: the token that it is about.
            ask: asks it, in a thread.
            address: from where an unknown token came; None: the token is known.

        Raises:
            QueueFull: it was not asked.
        """
        with self._lock:
            question = self._open.get(key) or self._add(key, ask, address)
            question.waiters += 1
        self._start()
        try:
            # Others wait for the same answer, so cancelling this one must not cancel it.
            return await asyncio.shield(asyncio.wrap_future(question.answer))
        finally:
            with self._lock:
                question.waiters -= 1
                if not question.waiters and question in self._waiting:
                    del self._waiting[question], self._open[key]

    def _add(self, key: Hashable, ask: Callable[[], Any], address: str | None) -> _Question:
        waiting = Counter(lookup.address for lookup in self._waiting)
        if address is None:
            has_room = waiting[None] < MAX_WAITING_KNOWN
        else:
            is_busy = waiting.total() - waiting[None] >= MAX_WAITING
            has_room = not is_busy and waiting[address] < MAX_WAITING_PER_ADDRESS
        if not has_room:
            raise IntrospectionQueueFull
        question = _Question(key, ask, address, time.monotonic() + self._max_wait_s)
        self._open[key] = question
        self._waiting[question] = None
        return question

    def _start(self) -> None:
        """Start as many questions as there are threads for."""
        with self._lock:
            now = time.monotonic()
            expired = [lookup for lookup in self._waiting if lookup.expires_at <= now]
            for question in expired:
                del self._waiting[question], self._open[question.key]
            started = []
            while (lookup_due := self._find_next()) is not None:
                del self._waiting[lookup_due]
                self._running.add(lookup_due)
                started.append(lookup_due)
        for question in expired:
            question.answer.set_exception(IntrospectionQueueFull())
        for question in started:
            self._threads.submit(self._run, question)

    def _find_next(self) -> _Question | None:
        running = Counter(lookup.address for lookup in self._running)
        if running.total() >= THREADS:
            return None
        known = next((lookup for lookup in self._waiting if lookup.address is None), None)
        if known is not None or running.total() - running[None] >= THREADS_FOR_UNKNOWN:
            return known
        lookup = min(self._waiting, key=lambda each: running[each.address], default=None)
        return (
            lookup if lookup is not None and running[lookup.address] < THREADS_PER_ADDRESS else None
        )

    def _run(self, question: _Question) -> None:
        try:
            settle = partial(question.answer.set_result, question.ask())
        except Exception as error:  # noqa: BLE001 - raised again where the answer is awaited
            settle = partial(question.answer.set_exception, error)
        with self._lock:
            self._running.discard(question)
            del self._open[question.key]
        settle()
        self._start()


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
        audience: what `aud` of the answer must contain exactly, as for `JWTAuthenticator`.
        issuer: what `iss` of the answer must be, if there is one. Clients get it as well.
        user_field, user_claim, find_user: as for `JWTAuthenticator`.
        required_scopes: the scopes that every token must have.
        timeout_s: for the answer.
        cache_s: seconds for which a result is cached, 2 at most.
        inactive_cache_s: seconds for which the issuer is not asked again about an inactive token.
        recheck_s: seconds between two checks of a token that has something open; None: that stays open
            until the token's `exp`.

    Raises:
        ValueError: an address is not https, there is no audience, or users can change the claim
            `user_claim`.
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
        self._revalidator = Revalidator(self._ask_again, recheck_s)
        self._url = check_url(url, "url")
        self._issuer = check_url(issuer, "issuer")
        self._credentials = (client_id, client_secret)
        self._audiences = Audiences(audience)
        self._users = UserFinder(field=user_field, claim=user_claim, function=find_user)
        self._timeout_s = timeout_s
        self._trouble, self._outage = Warner(), Warner()
        self._queue = QuestionQueue(max_wait_s=timeout_s)
        self._inactive_cache_s = inactive_cache_s
        self._known: Expiring[bool] = Expiring(MAX_KEYS)
        self._inactive: Expiring[bool] = Expiring(MAX_KEYS)
        self.authorization_servers = (issuer,)
        self.required_scopes = tuple(required_scopes)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        principal = await super().authenticate(exchange)
        token = self.find_token(exchange)
        if isinstance(principal, Principal) and token is not None:
            # Only here: the cached principal holds no token.
            principal.handle = _Token(token)
        return principal

    def variant(self, exchange: Exchange) -> str | None:
        """Return the resource that a token for an address has to be for."""
        return self._audiences.find_resource(exchange)

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        address = network_of(exchange.caller.address or "")
        return await self._introspect(token, address, exchange)

    async def _ask_again(self, token: _Token) -> Principal | Rejection | None:
        return await self._introspect(token.text, None, Exchange())

    async def _introspect(
        self, token: str, address: str | None, exchange: Exchange
    ) -> Principal | Rejection | None:
        """Ask about a token. `address` is the client's; None for a token that has something open."""
        # Caches hold digests and no tokens.
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        if self._inactive.get(key):
            return _INACTIVE
        answer = await self._ask(token, key, None if self._known.get(key) else address)
        refusal = answer if isinstance(answer, Rejection) else self._judge(answer, exchange)
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
            self._outage.warn("Could not ask %s", f"{self._issuer} about a token: {error}")
            return _UNANSWERED
        except IntrospectionQueueFull:
            self._trouble.warn("Did not ask %s about a token: too many others wait", self._issuer)
            return _BUSY

    def _note_refusal(self, key: bytes, refusal: Rejection) -> None:
        if refusal.status < 500:
            self._known.discard(key)
        if refusal is _INACTIVE:
            self._inactive.set(key, True, self._inactive_cache_s)

    def _judge(self, answer: Any, exchange: Exchange) -> Rejection | None:
        if not isinstance(answer, dict) or answer.get("active") is not True:
            return _INACTIVE
        if not _is_access_token(answer):
            return Rejection(reason="The token is no access token")
        if answer.get("iss", self._issuer) != self._issuer:
            return Rejection(reason="The token is of another issuer")
        elsewhere = self._audiences.judge(answer, exchange)
        if elsewhere is not None:
            return elsewhere
        expires_at = answer.get("exp")
        if isinstance(expires_at, int | float) and expires_at <= time.time():
            return Rejection(reason="The token has expired")
        return None


def _is_access_token(answer: Mapping[str, Any]) -> bool:
    """Return whether an issuer that tells what a token is for calls it one to use.

    Ory Hydra and Amazon say so in `token_use`, others in `token_type`, Keycloak in `typ`.
    """
    use, token_type, typ = (
        str(answer.get(name) or "").lower() for name in ("token_use", "token_type", "typ")
    )
    return (
        use in ("", "access", "access_token")
        and token_type not in ("refresh_token", "id_token")
        and typ not in ("refresh", "offline", "id")
    )


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
