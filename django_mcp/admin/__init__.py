"""Admin pages: calls and their charts, the catalogue, and live connections.

Django's admin finds them by itself. `register(site)` adds them to another admin site. Django loads them
when it starts, so their views import what only they need.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from django_mcp import models
from django_mcp.admin.calls import CallRecordAdmin
from django_mcp.admin.catalogue import CatalogueAdmin
from django_mcp.admin.errors import ErrorGroupAdmin
from django_mcp.admin.keys import APIKeyAdmin
from django_mcp.admin.live import SessionAdmin, StreamAdmin, SubscriptionAdmin
from django_mcp.extension_packages import load_parts

__all__ = ["register"]

PAGES: tuple[tuple[Any, Any], ...] = (
    (models.DisabledEntry, CatalogueAdmin),
    (models.CallRecord, CallRecordAdmin),
    (models.ErrorGroup, ErrorGroupAdmin),
    (models.APIKey, APIKeyAdmin),
    (models.Session, SessionAdmin),
    (models.Stream, StreamAdmin),
    (models.Subscription, SubscriptionAdmin),
    *(page for part in load_parts("admin.pages") for page in part.PAGES),
)


def register(site: admin.AdminSite) -> None:
    """Add the pages to an admin site; existing ones are not replaced."""
    for model, page in PAGES:
        if not site.is_registered(model):
            site.register(model, page)


register(admin.site)
