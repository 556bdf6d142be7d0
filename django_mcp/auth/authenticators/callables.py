"""Authentication by a function of the site's own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, cast

from django.core.exceptions import PermissionDenied

from django_mcp.auth.authenticators.base import Authenticator, Rejection
from django_mcp.auth.principal import AuthInfo, Principal, make_key
from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.exchange import Exchange

__all__ = ["CallableAuthenticator", "to_principal"]


class CallableAuthenticator(Authenticator):
    """Asks a function, with or without `async`, whom a request is from.

    It gets the HTTP request, without its body, or the exchange if its parameter is called
    `exchange`. It returns a user, a `Principal`, a `Rejection`, or None when it does not know; to
    refuse it may raise Django's `PermissionDenied`. A user may then do all that the user may; a
    `Principal` with an `AuthInfo` has the scopes that this names.

    Args:
        function: such a function.
        kind: how to call its kind of credentials.
        challenge: what to say in `WWW-Authenticate`, such as `Basic realm="shop"`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        kind: str = "callable",
        challenge: str | None = None,
    ) -> None:
        self.kind = kind
        self._function = function
        self._challenge = challenge
        self._wants_exchange = next(iter(inspect.signature(function).parameters), "") == "exchange"

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        build = exchange.build_request
        given = exchange if self._wants_exchange or build is None else build()
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await cast(Awaitable[Any], self._function(given))
            else:
                found = await run_in_pool(partial(self._function, given))
        except PermissionDenied:
            return REFUSED
        return to_principal(found, self)

    def challenge(self, exchange: Exchange) -> str | None:
        """See `Authenticator.challenge`."""
        return self._challenge


REFUSED = Rejection(reason="The credentials are not valid", error=None)


def to_principal(
    found: Any, source: Authenticator, scopes: Iterable[str] | None = None
) -> Principal | Rejection | None:
    """Return what an answer means: a principal for a user, everything else as it is.

    Args:
        found: the answer.
        source: who gave it.
        scopes: what the credentials of a user are good for; None: for all that the user may do.
    """
    from django_mcp.auth.users import is_active

    if found is None or isinstance(found, Rejection):
        return found
    user = found.user if isinstance(found, Principal) else found
    if not is_active(user):
        return REFUSED
    if isinstance(found, Principal):
        return found
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
    )
