"""Context that handlers get on a Django site, with the user and the HTTP request, which they also get by annotation alone."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from msgspec import UNSET, UnsetType

from django_mcp.auth.principal import AuthInfo, user_of
from django_mcp.execution.values import find_class
from django_mcp.pages.asking import NEEDS_USER, PageAsking
from django_mcp.registry import hints
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.signatures import Provider, Unavailable

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.http import HttpRequest


class Context(PageAsking):
    """The context of the request that a handler serves.

    A handler gets it by annotation. It belongs to one request and ends with it.
    """

    _request: HttpRequest | UnsetType | None = UNSET
    _user: AbstractBaseUser | AnonymousUser | None = None

    @property
    def user(self) -> AbstractBaseUser | AnonymousUser:
        """The Django user of the request; `AnonymousUser` if there is none.

        It is the principal's, never that of a browser's session, which any web page could use.
        """
        if self._user is None:
            self._user = user_of(self.principal)
        return self._user

    @property
    def auth(self) -> AuthInfo | None:
        """The subject, client and scopes of the request's credentials; None without any."""
        auth_info: AuthInfo | None = getattr(self.principal, "auth", None)
        return auth_info

    @property
    def request(self) -> HttpRequest | None:
        """The HTTP request, with `user` as its user; None if there is none, as on stdio.

        It has neither credentials, cookies and the site's session nor the body; see
        `build_handler_request`. It is built on first use.
        """
        if self._request is not UNSET:
            return self._request
        build = self._call.exchange.caller.build_request
        if build is None:
            return None
        # Loads `django.http`, which importing a server must not.
        from django_mcp.auth.handler_requests import build_handler_request

        request = build_handler_request(build(), self.user)
        self._request = request
        return request


def find_django_provider(annotation: Any) -> Provider | None:
    """Return the provider of a request or a user for this annotation, or None.

    A user class alone, or in `Optional`, requires a signed-in user; with `AnonymousUser` in the
    union, any user is passed.

    Raises:
        RegistrationError: the site has replaced this user model by another.
    """
    is_class = isinstance(annotation, type)
    if is_class and issubclass(annotation, find_class("django.http.request", "HttpRequest")):
        return partial(_provide_request, annotation)
    anonymous = find_class("django.contrib.auth.models", "AnonymousUser")
    users = (find_class("django.contrib.auth.base_user", "AbstractBaseUser"), anonymous)
    parts = (annotation,) if is_class else hints.members(annotation)
    wanted = tuple(part for part in parts if part is not NoneType)
    if not wanted or not all(isinstance(part, type) and issubclass(part, users) for part in wanted):
        return None
    for part in wanted:
        own = getattr(getattr(part, "_meta", None), "swapped", None)
        if own:
            raise RegistrationError(
                f"is a {part.__module__}.{part.__qualname__}, and the users of this site are of "
                f"AUTH_USER_MODEL, {own}. Import that model."
            )
    may_be_anonymous = any(issubclass(part, anonymous) for part in wanted)
    return attrgetter("user") if may_be_anonymous else partial(_provide_user, wanted)


def _provide_user(wanted: tuple[type, ...], ctx: Context) -> Any:
    if isinstance(ctx.user, wanted):
        return ctx.user
    raise Unavailable(str(NEEDS_USER))


def _provide_request(wanted: type, ctx: Context) -> Any:
    if isinstance(ctx.request, wanted):
        return ctx.request
    raise Unavailable(_("This needs an HTTP request, which this connection does not have."))
