"""Injection of the HTTP request and the user into handlers, by annotation."""

from __future__ import annotations

import sys
from types import NoneType
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_mcp.registry import hints
from django_mcp.registry.injection import Provider, Unavailable

if TYPE_CHECKING:
    from django_mcp.context import Context

__all__ = ["find_django_provider"]


def find_django_provider(annotation: Any) -> Provider | None:
    """Return the provider of a request or a user for this annotation, or None.

    A user class alone, or in `Optional`, requires a signed-in user; with `AnonymousUser` in the
    union, any user is passed.
    """
    if isinstance(annotation, type):
        return _provider_of(annotation)
    parts = [part for part in hints.members(annotation) if part is not NoneType]
    if not parts or not all(isinstance(part, type) and _is_user(part) for part in parts):
        return None
    if any(_is_anonymous(part) for part in parts):
        return _provide_anybody
    return _UserProvider(tuple(parts))


def _provider_of(annotation: type) -> Provider | None:
    if _is_anonymous(annotation):
        return _provide_anybody
    if _is_user(annotation):
        return _UserProvider((annotation,))
    if _is_a(annotation, "django.http.request", "HttpRequest"):
        return _RequestProvider(annotation)
    return None


def _is_user(annotation: type) -> bool:
    return _is_a(annotation, "django.contrib.auth.base_user", "AbstractBaseUser") or _is_anonymous(
        annotation
    )


def _is_anonymous(annotation: type) -> bool:
    return _is_a(annotation, "django.contrib.auth.models", "AnonymousUser")


def _is_a(annotation: type, module_name: str, class_name: str) -> bool:
    # The class can only be meant if its module is loaded; loading it needs the apps to be ready.
    base = getattr(sys.modules.get(module_name), class_name, None)
    return base is not None and issubclass(annotation, base)


def _provide_anybody(ctx: Context) -> Any:
    return ctx.user


class _UserProvider:
    """Provides the user if it is of one of the wanted classes."""

    def __init__(self, wanted: tuple[type, ...]) -> None:
        self._wanted = wanted

    def __call__(self, ctx: Context) -> Any:
        user = ctx.user
        if isinstance(user, self._wanted):
            return user
        raise Unavailable(_("This needs a user who is signed in."))


class _RequestProvider:
    """Provides the HTTP request if it is of the wanted class."""

    def __init__(self, wanted: type) -> None:
        self._wanted = wanted

    def __call__(self, ctx: Context) -> Any:
        request = ctx.request
        if isinstance(request, self._wanted):
            return request
        raise Unavailable(_("This needs an HTTP request, which this connection does not have."))
