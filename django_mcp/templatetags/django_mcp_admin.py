"""The tabs of the package's pages, for the admin's own pages."""

from __future__ import annotations

from typing import Any

from django import template

from django_mcp.models import Session

register = template.Library()


@register.inclusion_tag("admin/django_mcp/tabs.html", takes_context=True)
def django_mcp_tabs(context: Any) -> dict[str, Any]:
    """Show the pages that the user may open, on a page of an admin site that has them."""
    request = context["request"]
    site = getattr(request.resolver_match.func, "admin_site", None)
    page = site._registry.get(Session) if site is not None else None
    return {"tabs": page.tabs(request) if page is not None else []}
