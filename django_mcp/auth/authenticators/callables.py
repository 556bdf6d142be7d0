"""Authentication by a function of the site's own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import PermissionDenied

from django_mcp.auth.authenticator import Authenticator, Rejection
from django_mcp.auth.principal import AuthInfo, Principal, make_key
from django_mcp.auth.reasking import RECHECK_S, Reasker
from django_mcp.handlers.threads import run_in_pool
from django_mcp.protocol.headers import Headers
from django_mcp.registry.arguments import is_async_callable
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

__all__ = ["REFUSED", "CallableAuthenticator", "Presented", "to_principal"]


class CallableAuthenticator(Authenticator):
    """Asks a function or another callable, with or without `async`, whom a request is from.

    It gets the HTTP request, without its body, or the exchange if its parameter is called
    `exchange`. It returns a user, a `Principal`, a `Rejection`, or None when it does not know; to
    refuse it may raise Django's `PermissionDenied`. A user may then do all that the user may; a
    `Principal` with an `AuthInfo` has the scopes that this names.

    Args:
        function: such a function.
        kind: how to call its kind of credentials.
        challenge: what to say in `WWW-Authenticate`, such as `Basic realm="shop"`.
        recheck_s: seconds between two questions about a request by which something is open, so that
            it ends with what the function goes by; None: that is asked once.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        kind: str = "callable",
        challenge: str | None = None,
        recheck_s: float | None = RECHECK_S,
    ) -> None:
        self.kind = kind
        self._function = function
        self._challenge = challenge
        self._reasker = Reasker(self._ask_again, recheck_s)
        self._wants_exchange = next(iter(inspect.signature(function).parameters), "") == "exchange"

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        presented = Presented.find(exchange)
        given: Any = exchange
        if presented is not None and not self._wants_exchange:
            given = presented.build_request()
        return to_principal(await self._ask(given), self, presented=presented)

    async def find_ended(self, principals: Collection[Principal]) -> set[Principal]:
        """See `Authenticator.find_ended`: also those whom the function would not let in now."""
        found = await self._reasker.find_ended(principals)
        return found | await self.find_withdrawn(principals)

    async def _ask_again(self, presented: Presented) -> Principal | Rejection | None:
        request = presented.build_request()
        given = presented.rebuild(request) if self._wants_exchange else request
        return to_principal(await self._ask(given), self)

    async def _ask(self, given: Any) -> Any:
        try:
            if is_async_callable(self._function):
                return await cast(Awaitable[Any], self._function(given))
            return await run_in_pool(partial(self._function, given))
        except PermissionDenied:
            return REFUSED

    def challenge(self, exchange: Exchange) -> str | None:
        """See `Authenticator.challenge`."""
        return self._challenge


@dataclass(frozen=True, slots=True, eq=False)
class Presented:
    """What a request came with, to be judged again while something is open by it.

    Attributes:
        build_request: returns the HTTP request, as it came.
        address: from where it came.
        url_kwargs: what its URL captured.
    """

    build_request: Callable[[], HttpRequest]
    address: str | None
    url_kwargs: Mapping[str, Any]

    @classmethod
    def find(cls, exchange: Exchange) -> Presented | None:
        """Return what came with an exchange; None where there is no HTTP request."""
        build = exchange.build_request
        return None if build is None else cls(build, exchange.address, exchange.url_kwargs)

    def rebuild(self, request: HttpRequest) -> Exchange:
        """Return an exchange as it was before its credentials were taken off."""
        return Exchange(
            headers=Headers.from_mapping(request.headers),
            address=self.address,
            build_request=self.build_request,
            url_kwargs=self.url_kwargs,
        )


REFUSED = Rejection(reason="The credentials are not valid", error=None)


def to_principal(
    found: Any,
    source: Authenticator,
    scopes: Iterable[str] | None = None,
    *,
    presented: Presented | None = None,
) -> Principal | Rejection | None:
    """Return what an answer means: a principal for a user, everything else as it is.

    Args:
        found: the answer.
        source: who gave it.
        scopes: what the credentials of a user are good for; None: for all that the user may do.
        presented: by which `source` can ask again.
    """
    from django_mcp.auth.users import is_active

    if found is None or isinstance(found, Rejection):
        return found
    if isinstance(found, Principal):
        return _add_presented(found, presented) if is_active(found.user) else REFUSED
    user = found
    if not is_active(user):
        return REFUSED
    if not user.is_authenticated:
        return None
    return Principal(
        key=make_key(source.kind, user.pk),
        user=user,
        auth=AuthInfo(
            subject=str(user.pk),
            authenticator=source.kind,
            scopes=frozenset(scopes or ()),
            has_all_scopes=scopes is None,
        ),
        source=source,
        handle=presented,
    )


def _add_presented(principal: Principal, presented: Presented | None) -> Principal:
    if principal.handle is not None or principal.source is not None:
        # Its authenticator knows how to check it again.
        return principal
    # It may be given for many requests, each of which presents its own credentials.
    found = principal.for_request()
    found.handle = presented
    return found
