"""The tabs of the package's pages and the start page, for the admin's own pages."""

from __future__ import annotations

from typing import Any

from django import template

from django_mcp.admin.figures import show_number
from django_mcp.models import Session

register = template.Library()


@register.filter
def number(value: Any, digits: int = 0) -> str:
    """Return a number as people of the active language write it; empty for a value that is none."""
    return show_number(value, digits) if isinstance(value, int | float) else ""


@register.inclusion_tag("admin/django_mcp/tabs.html", takes_context=True)
def django_mcp_tabs(context: Any) -> dict[str, Any]:
    """Show the pages that the user may open, on a page of an admin site that has them."""
    page = _find_page(context["request"])
    return {"tabs": page.tabs(context["request"]) if page is not None else []}


@register.inclusion_tag("admin/django_mcp/overview.html", takes_context=True)
def django_mcp_overview(context: Any) -> dict[str, Any]:
    """Show the start page on the index of the app, in an admin site that has the package's pages."""
    # Loads what only this page needs.
    from django_mcp.admin.overview import find_overview

    page = _find_page(context["request"])
    return {} if page is None else find_overview(page, context["request"])


def _find_page(request: Any) -> Any:
    site = getattr(request.resolver_match.func, "admin_site", None)
    return site._registry.get(Session) if site is not None else None
