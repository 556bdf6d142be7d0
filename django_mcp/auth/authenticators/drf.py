"""Any authentication class of Django REST framework, when that is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from django.utils.module_loading import import_string

from django_mcp.auth.authenticators.base import Authenticator, Rejection
from django_mcp.auth.authenticators.callables import REFUSED, to_principal
from django_mcp.auth.principal import Principal
from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.exchange import Exchange

__all__ = ["DRFAuthenticator"]


class DRFAuthenticator(Authenticator):
    """Asks an authentication class of Django REST framework.

    Where the class gives out tokens with scopes (`scope` or `scopes`, as an attribute or a claim),
    these hold. Users whom it knows by anything else may do all that they may.

    Args:
        authentication: the class, or the dotted path to it.
    """

    kind = "drf"

    def __init__(self, authentication: Any) -> None:
        self._given = authentication

    def find_problems(self) -> list[str]:
        """See `Authenticator.find_problems`."""
        try:
            import_module("rest_framework.request")
            self._make().authenticate  # noqa: B018  (asks whether it is there)
        except (AttributeError, ImportError, TypeError) as error:
            return [f"DRFAuthenticator cannot use {self._given}: {error}"]
        return []

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`."""
        if exchange.build_request is None:
            return None
        return await run_in_pool(partial(self._ask, exchange.build_request()))

    def _ask(self, request: Any) -> Principal | Rejection | None:
        from rest_framework.exceptions import APIException
        from rest_framework.request import Request

        try:
            found = self._make().authenticate(Request(request))
        except APIException:
            return REFUSED
        return None if found is None else to_principal(found[0], self, _find_scopes(found[1]))

    def challenge(self, exchange: Exchange) -> str | None:
        """See `Authenticator.challenge`; it is what the class has for it."""
        if exchange.build_request is None:
            return None
        from rest_framework.request import Request

        header: str | None = self._make().authenticate_header(Request(exchange.build_request()))
        return header

    def _make(self) -> Any:
        given = self._given
        return (import_string(given) if isinstance(given, str) else given)()


def _find_scopes(token: Any) -> list[str] | None:
    """Return the scopes of what a class calls `request.auth`; None: it has nothing to do with any."""
    claims = token if isinstance(token, Mapping) else getattr(token, "payload", None)
    for name in ("scope", "scopes"):
        found = getattr(token, name, None)
        if found is None and isinstance(claims, Mapping):
            found = claims.get(name)
        if isinstance(found, str):
            return found.split()
        if found is not None:
            # Scopes that cannot be read are none.
            return [str(each) for each in found] if isinstance(found, Iterable) else []
    return None
