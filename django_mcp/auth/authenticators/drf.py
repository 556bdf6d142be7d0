"""Any authentication class of Django REST framework, when that is installed."""

from __future__ import annotations

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
            # Its second part is the class's own business: often the token itself.
            found = self._make().authenticate(Request(request))
        except APIException:
            return REFUSED
        return None if found is None else to_principal(found[0], self)

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
