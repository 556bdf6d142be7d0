"""Injection of the HTTP request and the user into handlers, by annotation."""

from __future__ import annotations

import sys
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_mcp.registry import hints
from django_mcp.registry.signatures import Provider, Unavailable

if TYPE_CHECKING:
    from django_mcp.context import Context


def find_django_provider(annotation: Any) -> Provider | None:
    """Return the provider of a request or a user for this annotation, or None.

    A user class alone, or in `Optional`, requires a signed-in user; with `AnonymousUser` in the
    union, any user is passed.
    """
    if isinstance(annotation, type) and _is_a(annotation, "django.http.request", "HttpRequest"):
        return partial(_provide_request, annotation)
    parts = (annotation,) if isinstance(annotation, type) else hints.members(annotation)
    wanted = tuple(part for part in parts if part is not NoneType)
    if not wanted or not all(isinstance(part, type) and _is_user(part) for part in wanted):
        return None
    return _provide_anybody if any(map(_is_anonymous, wanted)) else partial(_provide_user, wanted)


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


def _provide_user(wanted: tuple[type, ...], ctx: Context) -> Any:
    if isinstance(ctx.user, wanted):
        return ctx.user
    raise Unavailable(_("This needs a user who is signed in."))


def _provide_request(wanted: type, ctx: Context) -> Any:
    if isinstance(ctx.request, wanted):
        return ctx.request
    raise Unavailable(_("This needs an HTTP request, which this connection does not have."))
