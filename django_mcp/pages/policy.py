"""The Content-Security-Policy of the package's pages, on sites that have none.

Middleware that sets a policy does not change a response that has one. So the package sets one only
if the site has no such middleware; a policy set by a proxy or other middleware replaces it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import get_template

__all__ = ["protect_admin_page", "protect_public_page", "set_policy"]

HEADER = "Content-Security-Policy"

_ANY_THEME = "object-src 'none'; base-uri 'none'; frame-ancestors 'self'"
"""For an admin with a theme or changes by the site, whose scripts and styles may be anywhere."""

_ADMIN_TEMPLATES = ("admin/base.html", "admin/base_site.html")


def set_policy(response: HttpResponseBase, policy: str) -> None:
    """Set this policy on a response, unless it has one or the site's middleware sets one."""
    if not any(
        "csp" in name.lower() or "contentsecurity" in name.lower() for name in settings.MIDDLEWARE
    ):
        response.headers.setdefault(HEADER, policy)


def protect_public_page(response: HttpResponseBase) -> None:
    """Set a policy on one of the package's pages outside of the admin.

    It allows a template of the site styles, and scripts in files of the site, but nothing from other
    origins. It does not restrict form targets: the consent page's form leads to the client.
    """
    own = _own_sources()
    set_policy(
        response,
        f"default-src 'none'; script-src {own}; style-src {own} 'unsafe-inline'; img-src {own} data:; "
        f"font-src {own}; connect-src {own}; base-uri 'none'; frame-ancestors 'none'",
    )


def protect_admin_page(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return a view of the admin whose responses have a policy."""

    @wraps(view)
    def answer(*args: Any, **kwargs: Any) -> Any:
        response = view(*args, **kwargs)
        set_policy(response, _admin_policy() if _is_plain_admin() else _ANY_THEME)
        return response

    return answer


def _admin_policy() -> str:
    own = _own_sources()
    return (
        f"default-src 'none'; script-src {own}; style-src {own}; img-src {own} data:; font-src {own}; "
        f"connect-src {own}; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    )


def _own_sources() -> str:
    """Return the sources of the site's own files."""
    static = urlsplit(settings.STATIC_URL or "")
    return f"'self' {static.scheme or 'https'}://{static.netloc}" if static.netloc else "'self'"


def _is_plain_admin() -> bool:
    """Return whether the admin is Django's own, without changes."""
    import django.contrib.admin

    own = Path(django.contrib.admin.__file__).parent
    try:
        origins = [get_template(name).origin for name in _ADMIN_TEMPLATES]  # type: ignore[attr-defined]
    except TemplateDoesNotExist:
        return False
    return all(origin is not None and Path(origin.name).is_relative_to(own) for origin in origins)
