"""Pages of tools in the admin: their badge, and the client with which tools are tried."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp.extensions.apps.core.app import EXTENSION, MIME_TYPE, App, shown_of
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import Entry

TABS = ()
"""See `django_mcp.admin.base.TABS`."""

OF_SESSION: dict[str, Any] = {}
"""Models with rows of sessions; there are none."""

CLIENT_EXTENSIONS: JSONObject = {EXTENSION: {"mimeTypes": [MIME_TYPE]}}
"""What the client of the catalogue declares: it shows pages."""


def find_badges(entry: Entry) -> list[Any]:
    """Return the badges of an entry in the catalogue."""
    return [_("app")] if find_app(entry) is not None or "ui" in (entry.meta or {}) else []


def find_app(entry: Entry | None) -> App | None:
    """Return the app of a tool with a page; None: it has no page."""
    app = None if entry is None else shown_of(entry).app
    return None if app is None or app.template is None else app
