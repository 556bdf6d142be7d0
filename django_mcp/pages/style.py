"""The stylesheet of the pages for users, which the package serves itself, since a site may serve no static files."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.templatetags.static import static
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.views.decorators.http import require_safe

_STATIC = "django_mcp/page.css"
_FILE = Path(__file__).resolve().parents[1] / "static" / _STATIC

_VIEWS = ("oauth2_provider:page-style", "django_mcp:page-style")
"""That of OAuth comes first: a proxy or `mcp_serve` may pass only what signing in needs."""


def style_pattern(prefix: str) -> URLPattern:
    """Return the URL pattern of the stylesheet below a prefix."""
    return path(f"{prefix}page.<slug:version>.css", _serve_style, name="page-style")


def find_style_url() -> str:
    """Return the address of the stylesheet, which changes with its content.

    It is that of the static file if no pattern of the package has an address, as below a prefix with
    captured values.
    """
    _css, version = _read_style()
    for name in _VIEWS:
        try:
            return reverse(name, kwargs={"version": version})
        except NoReverseMatch:
            continue
    return static(_STATIC)


@require_safe
def _serve_style(_request: HttpRequest, version: str) -> HttpResponse:
    css, own_version = _read_style()
    response = HttpResponse(css, content_type="text/css; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    # During an update, a page of one process may load the stylesheet of another.
    is_own = version == own_version
    response["Cache-Control"] = "public, max-age=31536000, immutable" if is_own else "no-cache"
    return response


vars(_serve_style)["login_required"] = False


@cache
def _read_style() -> tuple[bytes, str]:
    css = _FILE.read_bytes()
    return css, hashlib.sha256(css).hexdigest()[:16]
