"""The extension of apps on a site, whose pages are templates."""

from __future__ import annotations

from collections.abc import Callable

from django_mcp.extensions.apps.core.extension import AppsExtension
from django_mcp.extensions.apps.site.pages import SiteTemplates


def on_site(_clock: Callable[[], float]) -> AppsExtension:
    """Return the extension of a server of this site."""
    return AppsExtension(SiteTemplates())
