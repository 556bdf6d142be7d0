"""Pages of apps: templates that are rendered once for each language, without a request and a user."""

from __future__ import annotations

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.translation import get_language

from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.apps.core.app import App

_pages: dict[tuple[str, str | None], str] = {}
"""Rendered pages, by the names of their templates and the language."""


async def render(app: App) -> str:
    """Return the page of an app in the active language.

    It is the same for all users: hosts load it before a call and keep it. While `DEBUG` is on it is rendered
    each time.
    """
    key = app.template, get_language()
    page = None if settings.DEBUG else _pages.get(key)
    if page is None:
        page = _pages[key] = await run_in_pool(lambda: render_page(app))
    return page


def render_page(app: App) -> str:
    """Return the page of an app in the active language, made anew."""
    return render_to_string(app.template, {"app": app})


def forget_pages() -> None:
    """Have all pages be rendered again."""
    _pages.clear()
