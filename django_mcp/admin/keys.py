"""The admin's page of API keys: made there, told once, restricted, revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_variables

from django_mcp.models.keys import APIKey

if TYPE_CHECKING:
    from django.db.models import QuerySet

    Base = admin.ModelAdmin[APIKey]
else:
    Base = admin.ModelAdmin

__all__ = ["APIKeyAdmin"]


class APIKeyAdmin(Base):
    """Keys of all users for superusers; for the other staff their own.

    A key acts with all rights of its user, so nobody makes one for somebody else.
    """

    list_display = (
        "name",
        "shown_prefix",
        "user",
        "state",
        "created_at",
        "expires_at",
        "last_used_at",
    )
    list_filter = ("revoked_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("name", "prefix")
    raw_id_fields = ("user",)
    actions = ("revoke",)
    readonly_fields = ("shown_prefix", "state", "created_at", "last_used_at", "revoked_at")
    fieldsets = (
        (None, {"fields": ("name", "user", "expires_at")}),
        (_("What it may do"), {"fields": ("scopes", "is_restricted", "tools")}),
        (
            _("What became of it"),
            {"fields": ("shown_prefix", "state", "created_at", "last_used_at", "revoked_at")},
        ),
    )

    @admin.display(description=_("key"), ordering="prefix")
    def shown_prefix(self, key: APIKey) -> str:
        """Return what of the key may be shown."""
        return f"mcp_{key.prefix}_…" if key.prefix else "-"

    @admin.display(description=_("state"))
    def state(self, key: APIKey) -> str:
        """Return whether the key still works."""
        if not key.prefix:
            return "-"
        if key.revoked_at is not None:
            return str(_("revoked"))
        return str(_("expired") if key.is_over(timezone.now()) else _("valid"))

    @admin.action(description=_("Revoke the selected keys"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[APIKey]) -> None:
        """End keys for good; they stay in the list."""
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        self.message_user(
            request, ngettext("%d key was revoked.", "%d keys were revoked.", count) % count
        )

    # -- whose keys

    def get_queryset(self, request: HttpRequest) -> QuerySet[APIKey]:
        """Return all keys to a superuser, and to others their own."""
        keys, user = super().get_queryset(request), request.user
        if user.is_superuser:
            return keys
        return keys.filter(user=user) if user.is_authenticated else keys.none()

    def get_readonly_fields(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        """Return also the user, unless a superuser makes the key: it is never handed on."""
        fields = super().get_readonly_fields(request, obj)
        return fields if obj is None and request.user.is_superuser else (*fields, "user")

    # -- told once

    @sensitive_variables("text")
    def save_model(self, request: HttpRequest, obj: APIKey, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        """Give a new key its secret; it is told by the response to this very request."""
        if not change:
            if not request.user.is_superuser:
                obj.user = request.user  # type: ignore[assignment]
            text = obj.renew_secret()
            request._django_mcp_key = text  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: APIKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the key, on a page that nothing keeps: the admin forbids it for all of its pages."""
        info = self.model._meta
        return TemplateResponse(
            request,
            "admin/django_mcp/apikey/issued.html",
            {
                **self.admin_site.each_context(request),
                "title": _("Copy the key now"),
                "opts": info,
                "key": obj,
                "text": request._django_mcp_key,  # type: ignore[attr-defined]
                "list_url": reverse(
                    f"admin:{info.app_label}_{info.model_name}_changelist",
                    current_app=self.admin_site.name,
                ),
            },
        )
