"""An authenticator that asks any authentication class of Django REST framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.module_loading import import_string

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.authenticators.callables import REFUSED, Credentials, to_principal
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.auth.recheck import RECHECK_S, Revalidator
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange


class DRFAuthenticator(Authenticator):
    """Asks an authentication class of Django REST framework.

    Where the class gives out tokens with scopes (`scope` or `scopes`, as an attribute or a claim),
    these hold. Users whom it knows by anything else may do all that they may.

    Args:
        authentication: the class, or the dotted path to it.
        recheck_s: as for `CallableAuthenticator`.
    """

    kind = "drf"

    def __init__(self, authentication: Any, *, recheck_s: float | None = RECHECK_S) -> None:
        self._given = authentication
        self._revalidator = Revalidator(self._ask_about, recheck_s)

    def find_problems(self) -> list[str]:
        """See `Authenticator.find_problems`."""
        try:
            import_module("rest_framework.request")
            made = self._make()
            made.authenticate  # noqa: B018  (asks whether it is there)
        except (AttributeError, ImportError, TypeError) as error:
            return [f"DRFAuthenticator cannot use {self._given}: {error}"]
        from rest_framework.authentication import SessionAuthentication

        if isinstance(made, SessionAuthentication):
            ours = "django_mcp.auth.authenticators.SessionAuthenticator"
            return [f"DRFAuthenticator cannot use {self._given}, whose place {ours} takes"]
        return []

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        credentials = Credentials.find(exchange)
        return None if credentials is None else await self._ask_about(credentials)

    async def _ask_about(self, credentials: Credentials) -> Principal | Rejection | None:
        return await run_in_pool(partial(self._ask, credentials))

    def _ask(self, credentials: Credentials) -> Principal | Rejection | None:
        from rest_framework import exceptions
        from rest_framework.request import Request

        try:
            outcome = self._make().authenticate(Request(credentials.build_request()))
        except (
            PermissionDenied,
            exceptions.PermissionDenied,
            exceptions.AuthenticationFailed,
            exceptions.NotAuthenticated,
        ):
            # Any other exception is an internal error, not the client's.
            return REFUSED
        if outcome is None:
            return None
        return to_principal(
            outcome[0],
            self,
            _find_scopes(outcome[1]),
            asked=self._given,
            credentials=credentials,
        )

    def challenge(self, exchange: Exchange) -> str | None:
        """See `Authenticator.challenge`; it is what the class has for it."""
        if exchange.caller.build_request is None:
            return None
        from rest_framework.request import Request

        header: str | None = self._make().authenticate_header(
            Request(exchange.caller.build_request())
        )
        return header

    def _make(self) -> Any:
        given = self._given
        return (import_string(given) if isinstance(given, str) else given)()


def _find_scopes(token: Any) -> list[str] | None:
    """Return the scopes of what a class calls `request.auth`; None: it has nothing to do with any."""
    claims = token if isinstance(token, Mapping) else getattr(token, "payload", None)
    for name in ("scope", "scopes"):
        claim = getattr(token, name, None)
        if claim is None and isinstance(claims, Mapping):
            claim = claims.get(name)
        if isinstance(claim, str):
            return claim.split()
        if claim is not None:
            # Scopes that cannot be read are none.
            return [str(scope) for scope in claim] if isinstance(claim, Iterable) else []
    return None
