"""What the pages have in common: their addresses, their tabs, and who may open them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
else:
    Base = admin.ModelAdmin

__all__ = ["Page", "needs"]

TABS = (
    ("live", _("Live"), "django_mcp.view_session"),
    ("disabledentry_changelist", _("Catalogue"), "django_mcp.view_disabledentry"),
    ("charts", _("Charts"), "django_mcp.view_callrecord"),
    ("callrecord_changelist", _("Calls"), "django_mcp.view_callrecord"),
    ("connect", _("Connect"), None),
    ("apikey_changelist", _("API keys"), "django_mcp.view_apikey"),
)
"""Name of the URL, title, permission; those that the site does not have are left out."""


class Page(Base):
    """A model's admin with pages of our own beside Django's."""

    def url_of(self, name: str) -> str:
        """Return the address of one of our pages in this admin site."""
        path: str = reverse(f"{self.admin_site.name}:django_mcp_{name}")
        return path

    def tabs(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the pages that this user may open."""
        found = []
        for name, title, permission in TABS:
            if permission is not None and not request.user.has_perm(permission):
                continue
            try:
                url = self.url_of(name)
            except NoReverseMatch:
                continue
            found.append({"url": url, "title": title, "is_here": request.path == url})
        return found

    def show(
        self, request: HttpRequest, template: str, title: Any, **context: Any
    ) -> TemplateResponse:
        """Return one of our pages."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            f"admin/django_mcp/{template}",
            {
                **self.admin_site.each_context(request),
                "opts": self.model._meta,
                "title": title,
                "tabs": self.tabs(request),
                **context,
            },
        )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show Django's list, with our tabs above."""
        extra = {"tabs": self.tabs(request), **(extra_context or {})}
        return super().changelist_view(request, extra)


def needs(request: HttpRequest, *permissions: str) -> None:
    """Refuse a user without all of these permissions.

    Raises:
        PermissionDenied: they lack one.
    """
    if not request.user.has_perms(_full(permissions)):
        raise PermissionDenied


def _full(permissions: Iterable[str]) -> list[str]:
    return [f"django_mcp.{permission}" for permission in permissions]
