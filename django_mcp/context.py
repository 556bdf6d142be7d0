"""Context as Django's handlers get it: the core's, with the user and the HTTP request."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from django_mcp.server import context as core

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.http import HttpRequest

__all__ = ["Context"]


class Context(core.Context[Any]):
    """What a handler holds of the request it answers.

    Ask for it by annotation. It belongs to one request and ends with it.
    """

    __slots__ = ("_request", "_user")

    _request: HttpRequest | None
    _user: AbstractBaseUser | AnonymousUser

    @property
    def user(self) -> AbstractBaseUser | AnonymousUser:
        """The Django user on whose behalf the request is made; `AnonymousUser` when nobody's.

        It is the principal's, never that of a browser's session, which any web page could use.
        """
        try:
            return self._user
        except AttributeError:
            self._user = _user_of(self.principal)
        return self._user

    @property
    def request(self) -> HttpRequest | None:
        """The HTTP request, with `user` as its user; None where there is none, as on stdio.

        Built when first asked for.
        """
        try:
            return self._request
        except AttributeError:
            self._request = self._build_request()
        return self._request

    def _build_request(self) -> HttpRequest | None:
        build = self.exchange.build_request
        if build is None:
            return None
        # A copy, since middleware of the site may still look at its own after the view.
        request: HttpRequest = copy.copy(build())
        user = self.user
        request.user = user  # type: ignore[assignment]

        async def auser() -> Any:
            return user

        request.auser = auser
        return request


def _user_of(principal: Any) -> Any:
    """Return a principal's user: its `user`, or itself when it is one."""
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

    user = getattr(principal, "user", principal)
    return user if isinstance(user, AbstractBaseUser | AnonymousUser) else AnonymousUser()
