"""The Content-Security-Policy of our own pages, on sites that have none.

Middleware that sets a policy leaves alone a response that has one. So a page of ours has one only where
the site has no such middleware; a policy that a proxy or other middleware sets replaces ours.
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
"""For an admin that a theme or the site has changed: its scripts and styles may be anywhere."""

_ADMIN_TEMPLATES = ("admin/base.html", "admin/base_site.html")


def set_policy(response: HttpResponseBase, policy: str) -> None:
    """Give a response this policy, unless it has one or the site's middleware gives it one."""
    if not any(
        "csp" in name.lower() or "contentsecurity" in name.lower() for name in settings.MIDDLEWARE
    ):
        response.headers.setdefault(HEADER, policy)


def protect_public_page(response: HttpResponseBase) -> None:
    """Give one of our pages outside of the admin a policy.

    It lets a template of the site's own have styles, and scripts in files of the site, but nothing from
    elsewhere. It says nothing of where forms lead: the consent page's leads to the client.
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
    """Return whether the admin looks as Django made it."""
    import django.contrib.admin

    own = Path(django.contrib.admin.__file__).parent
    try:
        origins = [get_template(name).origin for name in _ADMIN_TEMPLATES]  # type: ignore[attr-defined]
    except TemplateDoesNotExist:
        return False
    return all(origin is not None and Path(origin.name).is_relative_to(own) for origin in origins)
