"""Authentication by a function of the site."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import PermissionDenied

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.named_scopes import names_scopes
from django_mcp.auth.principal import AuthInfo, Principal, Rejection, make_key
from django_mcp.auth.recheck import RECHECK_S, Revalidator
from django_mcp.execution.threads import run_in_pool
from django_mcp.protocol.headers import Headers
from django_mcp.registry.problems import describe_source
from django_mcp.registry.signatures import is_async_callable
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest


class CallableAuthenticator(Authenticator):
    """Authenticates by a function or another callable, with or without `async`.

    It gets the HTTP request, without its body, or the exchange if its parameter is called
    `exchange`. It returns a user, a `Principal`, a `Rejection`, or None if there are no credentials of
    its kind; it may raise Django's `PermissionDenied` to refuse. A user has all of the user's rights; a
    `Principal` with an `AuthInfo` has the scopes that this names.

    Args:
        function: such a function.
        kind: the name of its kind of credentials.
        challenge: the challenge for `WWW-Authenticate`, such as `Basic realm="shop"`.
        recheck_s: seconds between two calls about a request that has something open, which ends if the
            function refuses the request; None: the function is called once.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        kind: str = "callable",
        challenge: str | None = None,
        recheck_s: float | None = RECHECK_S,
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"CallableAuthenticator() takes a function, and not {function!r}: import it."
            )
        self.kind = kind
        self._function = function
        self._challenge = challenge
        self._revalidator = Revalidator(self._ask_again, recheck_s)
        self.limits_scopes = names_scopes(function)
        self._wants_exchange = next(iter(inspect.signature(function).parameters), "") == "exchange"

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        credentials = Credentials.find(exchange)
        given: Any = exchange
        if credentials is not None and not self._wants_exchange:
            given = credentials.build_request()
        found = await self._ask(given)
        return to_principal(found, self, asked=self._function, credentials=credentials)

    async def _ask_again(self, credentials: Credentials) -> Principal | Rejection | None:
        given: Any = credentials.build_request()
        if self._wants_exchange:
            given = Exchange(
                headers=Headers.from_mapping(given.headers),
                caller=Caller(
                    address=credentials.address,
                    build_request=credentials.build_request,
                    url_kwargs=credentials.url_kwargs,
                ),
            )
        return to_principal(await self._ask(given), self, asked=self._function)

    async def _ask(self, given: Any) -> Any:
        try:
            if is_async_callable(self._function):
                return await cast(Awaitable[Any], self._function(given))
            return await run_in_pool(partial(self._function, given))
        except PermissionDenied:
            return REFUSED

    def challenge(self, exchange: Exchange) -> str | None:
        return self._challenge


@dataclass(frozen=True, slots=True, eq=False)
class Credentials:
    """The credentials of a request, to be checked again while it has something open.

    Attributes:
        build_request: returns the HTTP request, as it was received.
        url_kwargs: the values captured from its URL.
    """

    build_request: Callable[[], HttpRequest]
    address: str | None
    url_kwargs: Mapping[str, Any]

    @classmethod
    def find(cls, exchange: Exchange) -> Credentials | None:
        """Return the credentials of an exchange; None without an HTTP request."""
        build = exchange.caller.build_request
        return (
            None
            if build is None
            else cls(build, exchange.caller.address, exchange.caller.url_kwargs)
        )


REFUSED = Rejection(reason="The credentials are not valid", error=None)


def to_principal(
    found: Any,
    source: Authenticator,
    scopes: Iterable[str] | None = None,
    *,
    asked: Any,
    credentials: Credentials | None = None,
) -> Principal | Rejection | None:
    """Return a principal for a user; other results are returned as they are.

    Args:
        scopes: the scopes of a user's credentials; None: everything that the user may do.
        asked: the function or the class that found it.
        credentials: the credentials, by which `source` can check again.

    Raises:
        TypeError: it is none of what the function may return.
    """
    from django_mcp.auth.users import is_active

    if found is None or isinstance(found, Rejection):
        return found
    user = found.user if isinstance(found, Principal) else found
    if not is_active(user):
        return REFUSED
    if isinstance(found, Principal):
        if found.handle is not None or found.source is not None:
            # Its own authenticator can check it again.
            return found
        # The function may return it for many requests with different credentials.
        copied = found.for_request()
        copied.handle = credentials
        return copied
    try:
        is_authenticated, pk = user.is_authenticated, user.pk
    except AttributeError:
        name = asked if isinstance(asked, str) else describe_source(asked)
        raise TypeError(
            f"{name} returned {type(user).__name__} where a user was expected: return the user, a Principal, "
            "a Rejection, or None without credentials"
        ) from None
    if not is_authenticated:
        return None
    return Principal(
        key=make_key(source.kind, pk),
        user=user,
        auth=AuthInfo(
            subject=str(pk),
            authenticator=source.kind,
            scopes=frozenset(scopes or ()),
            has_all_scopes=scopes is None,
        ),
        source=source,
        handle=credentials,
    )
