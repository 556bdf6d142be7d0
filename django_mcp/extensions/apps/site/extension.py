"""The extension of apps on a site, whose pages are templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_mcp.extensions.apps.core.extension import AppsExtension
from django_mcp.extensions.apps.site.pages import SiteTemplates
from django_mcp.protocol.json import JSONObject


def on_site(_clock: Callable[[], float]) -> AppsExtension:
    """Return the extension of a server of this site."""
    return AppsExtension(SiteTemplates(), _agree)


def _agree(*call: Any) -> JSONObject | None:
    # Loads `django.db`, which importing a server must not.
    from django_mcp.extensions.apps.site.confirm import agree

    return agree(*call)
