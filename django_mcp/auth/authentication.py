"""The authentication of one server: its authenticators in order, and the refusal if none accepts."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.challenges import unauthorized
from django_mcp.auth.principal import (
    STRIPPED_HEADERS,
    Principal,
    Rejection,
    find_bearer_token,
    find_fault,
    has_authorization,
)
from django_mcp.auth.scopes import are_covered
from django_mcp.execution.outages import Breaker, Unmigrated, Warner, is_outage, is_unmigrated
from django_mcp.execution.threads import loan_for_authentication, run_in_pool, through_breaker
from django_mcp.process import Expiring
from django_mcp.protocol.errors import invalid_request
from django_mcp.protocol.headers import Headers
from django_mcp.registry.problems import find_near
from django_mcp.registry.signatures import is_async_callable
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.request_checks import find_wait_s, too_many

MAX_WAITING = 10_000
"""Addresses that a process remembers; beyond that the first ones are forgotten."""

TIMEOUT_S = 10.0
"""How long a request waits for an authenticator's thread."""

_trouble = Warner()


class Authentication:
    """Authenticates requests by their headers alone.

    A server that is not public and has no authenticators refuses all requests: it is not configured yet.

    Attributes:
        authenticators: asked in this order.
        is_public: requests without credentials are anonymous. Bad credentials are still refused.
        remedy: how to configure a server that has neither; only the log and developers see it.
    """

    def __init__(
        self,
        server: Engine,
        authenticators: Sequence[Authenticator],
        *,
        is_public: bool = False,
        remedy: str = "",
    ) -> None:
        self.server = server
        self.authenticators = tuple(authenticators)
        self.is_public = is_public
        self.remedy = remedy
        self._waiting: Expiring[float] = Expiring(MAX_WAITING)
        self._closed = Warner()
        self._askers = tuple(
            (authenticator, _to_asker(authenticator)) for authenticator in self.authenticators
        )

    @property
    def required_scopes(self) -> tuple[str, ...]:
        """Scopes that every token needs, whatever it is used for."""
        scopes = [
            scope
            for authenticator in self.authenticators
            for scope in authenticator.required_scopes
        ]
        return tuple(dict.fromkeys(scopes))

    async def authenticate(self, exchange: Exchange) -> Reply | None:
        """Set the exchange's principal, or return the refusal.

        Afterwards the exchange's headers hold no credentials any more.
        """
        exchange.caller.authentication = self
        if not (self._askers or self.is_public):
            return self._refuse_closed()
        waits = self._find_wait(exchange)
        if waits is not None:
            return waits
        headers = exchange.headers or Headers([])
        fault = find_fault(headers)
        if fault is not None:
            return await self._refuse(exchange, fault)
        for authenticator, ask in self._askers:
            outcome = await ask(exchange)
            if outcome is None:
                continue
            if isinstance(outcome, Rejection) or not outcome.is_usable:
                return await self._refuse(
                    exchange, outcome if isinstance(outcome, Rejection) else _DEACTIVATED
                )
            if outcome.source is None:
                # By which it is checked later.
                outcome.source = authenticator
            exchange.caller.principal = outcome
            _forget_credentials(headers)
            return None
        if has_authorization(headers):
            is_bearer = find_bearer_token(headers) is not None
            is_other = self._takes_bearer(exchange) and not is_bearer
            return await self._refuse(exchange, _NOT_BEARER if is_other else _UNKNOWN_KIND)
        if not self.is_public:
            hint = f": {_SEND_BEARER}" if self._takes_bearer(exchange) else ""
            return unauthorized(exchange, f"Authentication is needed{hint}")
        _forget_credentials(headers)
        return None

    def _refuse_closed(self) -> Reply:
        self._closed.warn(
            "Refused a request: this server has no authenticators and is not public. %s",
            self.remedy,
        )
        # Other people do not need to know how the site is configured.
        remedy = self.remedy if site_settings.DEBUG else ""
        message = f"This server is not configured to accept requests. {remedy}".strip()
        return refusal_reply(invalid_request(message), 403)

    def _takes_bearer(self, exchange: Exchange) -> bool:
        challenges = (authenticator.challenge(exchange) for authenticator in self.authenticators)
        return any((text or "").startswith("Bearer") for text in challenges)

    async def _refuse(self, exchange: Exchange, rejection: Rejection) -> Reply:
        # If credentials cannot be checked, that is not the client's fault.
        waits = await self._count_failure(exchange) if rejection.status < 500 else None
        if waits is not None:
            # No reason has credentials in it.
            waits.note = str(rejection.reason)
            return waits
        return unauthorized(
            exchange, rejection.reason, error=rejection.error, status=rejection.status
        )

    def _find_wait(self, exchange: Exchange) -> Reply | None:
        """Return the refusal of an address that sent too many bad credentials, whatever it sends now."""
        if not self._waiting or not exchange.caller.address:
            return None
        until_s = self._waiting.get(network_of(exchange.caller.address))
        wait_s = 0.0 if until_s is None else until_s - self.server.ports.clock()
        return refusal_reply(too_many(wait_s)) if wait_s > 0 else None

    async def _count_failure(self, exchange: Exchange) -> Reply | None:
        """Count one more failure; return the refusal if the limit in `THROTTLE` is reached."""
        rate = self.server.derived.failures
        if rate is None or not exchange.caller.address:
            return None
        network = network_of(exchange.caller.address)
        try:
            wait_s = await find_wait_s(self.server, [(f"failures {network}", rate)])
        except StoreUnavailable as error:
            # Without a count, a client could continue guessing.
            return refusal_reply(error.to_refusal())
        if wait_s is None:
            return None
        self._waiting.set(network, self.server.ports.clock() + wait_s, wait_s)
        return refusal_reply(too_many(wait_s))


_DEACTIVATED = Rejection(reason="The account was deactivated")
_UNREADABLE = Rejection(reason="Credentials cannot be checked now", error=None, status=503)
_UNMIGRATED = Rejection(reason=Unmigrated.message, error=None, status=503)
_TOO_FEW_SCOPES = Rejection(
    reason="The token lacks scopes that every call of this server needs",
    error="insufficient_scope",
    status=403,
)
_UNKNOWN_KIND = Rejection(
    reason="This server accepts no such credentials: check that the key or token is complete, and is "
    "for this server"
)
_SEND_BEARER = "send Authorization: Bearer, followed by a key or token"
_NOT_BEARER = Rejection(reason=f"This scheme is not accepted here: {_SEND_BEARER}")


def _forget_credentials(headers: Headers) -> None:
    # The session's cookie is among the others; those are still in the HTTP request.
    for name in (*STRIPPED_HEADERS, "cookie"):
        headers.discard(name)


def _to_asker(authenticator: Authenticator) -> Callable[[Exchange], Awaitable[Any]]:
    """Return a function that asks an authenticator, and rejects if its database is down or scopes lack."""
    # One each, since others may need no database, or another one.
    breaker = Breaker(f"What {type(authenticator).__name__} reads", timeout_s=TIMEOUT_S)
    authenticate = authenticator.authenticate
    is_async = is_async_callable(authenticate)

    async def ask(exchange: Exchange) -> Any:
        with through_breaker(breaker):
            try:
                if is_async:
                    with loan_for_authentication(exchange):
                        return await authenticate(exchange)
                return await run_in_pool(partial(authenticate, exchange))
            except Unmigrated:
                return _UNMIGRATED
            except StoreUnavailable:
                return _UNREADABLE
            except Exception as error:
                if not is_outage(error):
                    raise
                # It queried the database without `run_in_pool`.
                _trouble.warn("Credentials cannot be checked: %r", error)
                return _UNMIGRATED if is_unmigrated(error) else _UNREADABLE

    wanted = authenticator.required_scopes

    async def ask_with_scopes(exchange: Exchange) -> Any:
        outcome = await ask(exchange)
        if not isinstance(outcome, Principal):
            return outcome
        auth = outcome.auth
        is_enough = auth is not None and (auth.has_all_scopes or are_covered(wanted, auth.scopes))
        return outcome if is_enough else _TOO_FEW_SCOPES

    return ask_with_scopes if wanted else ask


def load_authenticators(entries: Iterable[Any]) -> list[Authenticator]:
    """Return the authenticators of a setting or option: dotted paths, classes or instances.

    Raises:
        ImproperlyConfigured: an entry is not an authenticator; the text names it.
    """
    loaded = []
    for entry in entries:
        try:
            authenticator = import_string(entry) if isinstance(entry, str) else entry
        except ImportError as error:
            message = f"{entry} cannot be imported: {error}.{_suggest(entry)}"
            raise ImproperlyConfigured(message) from error
        try:
            authenticator = authenticator() if isinstance(authenticator, type) else authenticator
        except (TypeError, ValueError) as error:
            message = f"{entry} cannot be made without arguments: {error}"
            raise ImproperlyConfigured(message) from error
        if not isinstance(authenticator, Authenticator):
            message = f"{entry!r} is no django_mcp.auth.authenticators.Authenticator"
            if hasattr(authenticator, "authenticate_header"):
                # As the authentication classes of Django REST framework have it.
                message += ". DRFAuthenticator of django_mcp.contrib.drf takes such a class"
            raise ImproperlyConfigured(message)
        loaded.append(authenticator)
    return loaded


def _suggest(path: str) -> str:
    """Return a question with the authenticator that a wrong path may mean."""
    from django_mcp.auth import authenticators

    module, _, name = path.rpartition(".")
    for home in (module, authenticators.__name__):
        known = getattr(sys.modules.get(home), "__all__", ())
        for near in find_near(name, known):
            return f" Did you mean {home}.{near}?"
    return ""
