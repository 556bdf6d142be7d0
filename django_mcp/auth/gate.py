"""The gate of one server: its authenticators in order, and the refusal if none accepts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_mcp.auth.authenticator import Authenticator, Rejection
from django_mcp.auth.challenges import unauthorized
from django_mcp.auth.credentials import STRIPPED_HEADERS, find_fault, has_authorization
from django_mcp.auth.failures import FailedAttempts
from django_mcp.handlers.threads import lease_for_authentication, run_in_pool, through_breaker
from django_mcp.process import Warner
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.messages import encode_error
from django_mcp.registry.arguments import is_async_callable
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.services.ports import StoreUnavailable

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["Gate", "load_authenticators"]

logger = logging.getLogger("django_mcp")

TIMEOUT_S = 10.0
"""How long a request waits for what an authenticator does in a thread. Our own limit."""

_trouble = Warner()


class Gate:
    """Decides who a request comes from, by its headers alone.

    With no authenticator on a server that is not public it lets nobody in: such a server was not
    set up, and is not open by accident.

    Attributes:
        server: whose gate it is.
        authenticators: asked in this order.
        is_public: requests without credentials are anonymous. Bad credentials are refused all the same.
        remedy: how to open a server that has neither; only the log and developers see it.
    """

    def __init__(
        self,
        server: MCPServer,
        authenticators: Sequence[Authenticator],
        *,
        is_public: bool = False,
        remedy: str = "",
    ) -> None:
        self.server = server
        self.authenticators = tuple(authenticators)
        self.is_public = is_public
        self.remedy = remedy
        self._failures = FailedAttempts(server)
        self._closed = Warner()
        self._askers = tuple((each, _to_asker(each)) for each in self.authenticators)

    @property
    def realm(self) -> str:
        """The server's name, for challenges."""
        return self.server.options.name

    @property
    def required_scopes(self) -> tuple[str, ...]:
        """Scopes that every token needs, whatever it is used for."""
        found = [scope for each in self.authenticators for scope in each.required_scopes]
        return tuple(dict.fromkeys(found))

    async def authenticate(self, exchange: Exchange) -> Reply | None:
        """Set the exchange's principal, or return the refusal.

        Afterwards the exchange's headers hold no credentials any more.
        """
        exchange.gate = self
        if not (self._askers or self.is_public):
            return self._refuse_closed()
        waits = self._failures.find_refusal(exchange)
        if waits is not None:
            return waits
        headers = exchange.headers or Headers([])
        fault = find_fault(headers)
        if fault is not None:
            return await self._refuse(exchange, fault)
        for authenticator, ask in self._askers:
            found = await ask(exchange)
            if found is None:
                continue
            if isinstance(found, Rejection) or not found.is_usable:
                return await self._refuse(
                    exchange, found if isinstance(found, Rejection) else _DEACTIVATED
                )
            if found.source is None:
                # Its authenticator does not say how to check later whether it is still valid.
                found.source = authenticator
            exchange.principal = found
            _forget_credentials(headers)
            return None
        if has_authorization(headers):
            return await self._refuse(exchange, _UNKNOWN_KIND)
        if not self.is_public:
            return unauthorized(exchange)
        _forget_credentials(headers)
        return None

    def _refuse_closed(self) -> Reply:
        self._closed.warn("Refused a request because the server is closed. %s", self.remedy)
        # Strangers do not need to know how the site is configured.
        remedy = self.remedy if site_settings.DEBUG else ""
        refusal = Refusal(code=INVALID_REQUEST, message=f"This server is closed. {remedy}".strip())
        return Reply(403, encode_error(None, refusal))

    async def _refuse(self, exchange: Exchange, rejection: Rejection) -> Reply:
        # Credentials are in no reason, and quoting keeps what else a client wrote on one line.
        logger.info(
            "Refused credentials from %s: %d %r",
            exchange.address,
            rejection.status,
            rejection.reason,
        )
        # When credentials cannot be checked, that is not the client's fault.
        waits = await self._failures.count(exchange) if rejection.status < 500 else None
        return waits or unauthorized(
            exchange, rejection.reason, error=rejection.error, status=rejection.status
        )


_DEACTIVATED = Rejection(reason="The account was deactivated")
_UNREADABLE = Rejection(reason="Credentials cannot be checked now", error=None, status=503)
_UNKNOWN_KIND = Rejection(reason="No such credentials are accepted here")


def _forget_credentials(headers: Headers) -> None:
    # The session's cookie is among the others; those are still in the HTTP request.
    for name in (*STRIPPED_HEADERS, "cookie"):
        headers.discard(name)


def _to_asker(authenticator: Authenticator) -> Callable[[Exchange], Awaitable[Any]]:
    """Return what asks an authenticator, and rejects when no database answers that."""
    # Loads the machinery of databases, which importing a server must not.
    from django_mcp.handlers.breaker import DOWN, Breaker

    # One each: those that need no database, or another one, go on.
    breaker = Breaker(f"What {type(authenticator).__name__} reads", timeout_s=TIMEOUT_S)
    authenticate = authenticator.authenticate
    is_async = is_async_callable(authenticate)

    async def ask(exchange: Exchange) -> Any:
        with through_breaker(breaker):
            try:
                if is_async:
                    with lease_for_authentication(exchange):
                        return await authenticate(exchange)
                return await run_in_pool(partial(authenticate, exchange))
            except StoreUnavailable:
                return _UNREADABLE
            except DOWN as error:
                # It went to the database by a way of its own.
                _trouble.warn("Credentials cannot be checked: %r", error)
                return _UNREADABLE

    return ask


def load_authenticators(entries: Iterable[Any]) -> list[Authenticator]:
    """Return the authenticators that settings or options name: by dotted path, class or instance.

    Raises:
        ImproperlyConfigured: an entry is none; the text says which.
    """
    return [_load(entry) for entry in entries]


def _load(entry: Any) -> Authenticator:
    found = entry
    if isinstance(found, str):
        try:
            found = import_string(found)
        except ImportError as error:
            raise ImproperlyConfigured(f"{entry} cannot be imported: {error}") from error
    if isinstance(found, type):
        try:
            found = found()
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(
                f"{entry} cannot be made without arguments: {error}"
            ) from error
    if not isinstance(found, Authenticator):
        raise ImproperlyConfigured(f"{entry!r} is no django_mcp.auth.Authenticator")
    return found
