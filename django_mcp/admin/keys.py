"""The admin's page of API keys, to create, restrict and revoke them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_variables

from django_mcp.admin.lists import VisibleList
from django_mcp.admin.permissions import find_granted
from django_mcp.admin.revoke import may_act_on_key, may_revoke_any, revoke_key
from django_mcp.admin.texts import inert
from django_mcp.auth.permissions import offer_to
from django_mcp.auth.scopes import named_scopes
from django_mcp.conf import settings
from django_mcp.models.keys import APIKey
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django.db.models import QuerySet

__all__ = ["APIKeyAdmin"]


class APIKeyAdmin(VisibleList):
    """Keys of all users for superusers; for other staff their own.

    Staff see, change, revoke and delete keys of others only if a backend gives them that permission
    for the key object itself: their permissions for all keys apply to their own. A key acts with all
    rights of its user, so only superusers create one for another user.
    """

    list_display = (
        "shown_name",
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
    date_hierarchy = "created_at"
    raw_id_fields = ("user",)
    actions = ("revoke",)
    readonly_fields = (
        "shown_name",
        "shown_scopes",
        "shown_tools",
        "shown_prefix",
        "state",
        "created_at",
        "last_used_at",
        "revoked_at",
    )
    fieldsets = (
        (None, {"fields": ("name", "user", "expires_at")}),
        (_("What it may do"), {"fields": ("scopes", "is_restricted", "tools")}),
        (
            _("What became of it"),
            {"fields": ("shown_prefix", "state", "created_at", "last_used_at", "revoked_at")},
        ),
    )

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, key: APIKey) -> str:
        """Return the name that its user gave it, with invisible characters escaped."""
        return inert(key.name, 100)

    @admin.display(description=_("scopes"))
    def shown_scopes(self, key: APIKey) -> str:
        """Return the scopes, with invisible characters escaped."""
        return inert(key.scopes, 2000)

    @admin.display(description=_("tools"))
    def shown_tools(self, key: APIKey) -> str:
        """Return the tools, with invisible characters escaped."""
        return inert(key.tools, 2000)

    @admin.display(description=_("key"), ordering="prefix")
    def shown_prefix(self, key: APIKey) -> str:
        """Return the part of the key that may be shown."""
        return f"mcp_{key.prefix}_…" if key.prefix else "-"

    @admin.display(description=_("state"))
    def state(self, key: APIKey) -> str:
        """Return whether the key still works."""
        if not key.prefix:
            return "-"
        if key.revoked_at is not None:
            return str(_("revoked"))
        return str(_("expired") if key.is_over(timezone.now()) else _("valid"))

    @admin.action(description=_("Revoke the selected keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[APIKey]) -> None:
        """Revoke keys permanently; they stay in the list."""
        count = 0
        for key in queryset.filter(revoked_at=None):
            if may_act_on_key(request.user, "change", key) and revoke_key(key, request):
                count += 1
        self.message_user(
            request, ngettext("%d key was revoked.", "%d keys were revoked.", count) % count
        )

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may revoke all keys, or perhaps single ones."""
        return may_revoke_any(request.user)

    # -- whose keys

    def get_queryset(self, request: HttpRequest) -> QuerySet[APIKey]:
        """Return all keys to a superuser, and to others their own and those they may see."""
        keys, user = super().get_queryset(request), request.user
        if user.is_superuser:
            return keys
        own = Q(user_id=user.pk) if self.sees_all(request) else Q(pk=None)
        others = keys.exclude(Q(user_id=user.pk)).order_by("-created_at")
        return keys.filter(own | Q(pk__in=find_granted(user, "view", others)))

    def has_change_permission(self, request: HttpRequest, obj: APIKey | None = None) -> bool:
        """Return whether the user may change and revoke a key, or any at all."""
        if obj is None:
            return super().has_change_permission(request)
        return may_act_on_key(request.user, "change", obj)

    def has_delete_permission(self, request: HttpRequest, obj: APIKey | None = None) -> bool:
        """Return whether the user may delete a key, or any at all."""
        match = request.resolver_match
        if obj is None or (match and getattr(match.func, "model_admin", self) is not self):
            # On the page of another model: keys may be deleted together with their user.
            return super().has_delete_permission(request)
        return may_act_on_key(request.user, "delete", obj)

    def get_fieldsets(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        """Return the escaped texts if they are not editable."""
        found: Any = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return found
        return [
            (title, {**how, "fields": tuple(_SHOWN.get(name, name) for name in how["fields"])})
            for title, how in found
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        """Return also the user, unless a superuser creates the key: it never changes."""
        fields = super().get_readonly_fields(request, obj)
        return fields if obj is None and request.user.is_superuser else (*fields, "user")

    # -- showing the secret

    @sensitive_variables("text")
    def save_model(self, request: HttpRequest, obj: APIKey, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        """Give a new key its secret, which only the response to this request shows."""
        if not change:
            if not request.user.is_superuser:
                obj.user = request.user  # type: ignore[assignment]
            text = obj.renew_secret()
            request._django_mcp_key = text  # type: ignore[attr-defined]
        for warning in _find_warnings(obj):
            self.message_user(request, warning, messages.WARNING)
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: APIKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the key on a page that is not cached: the admin forbids it for all of its pages."""
        info = self.model._meta
        return TemplateResponse(
            request,
            "admin/django_mcp/apikey/issued.html",
            {
                **self.admin_site.each_context(request),
                "title": _("Copy the key now"),
                "opts": info,
                "key": {"name": inert(obj.name, 100), "user": obj.user},
                "text": request._django_mcp_key,  # type: ignore[attr-defined]
                "list_url": reverse(
                    f"admin:{info.app_label}_{info.model_name}_changelist",
                    current_app=self.admin_site.name,
                ),
            },
        )


_SHOWN = {"name": "shown_name", "scopes": "shown_scopes", "tools": "shown_tools"}


def _find_warnings(key: APIKey) -> list[str]:
    """Return warnings about unknown names, which may belong to entries registered later."""
    found = []
    tools = sorted(set(key.tools.split()) - _usable_tools(key.user))
    if tools:
        text = _t("No tool that this user may use now is called: %(names)s")
        found.append(text % {"names": inert(", ".join(tools), 500)})
    scopes = sorted(set(key.scopes.split()) - _wanted_scopes())
    if scopes:
        text = _t("Nothing asks for these scopes now: %(names)s")
        found.append(text % {"names": inert(", ".join(scopes), 500)})
    return found


def _usable_tools(user: Any) -> set[str]:
    found = set()
    for server in all_servers():
        # Other tools must stay unknown to the user.
        offer = offer_to(user, server.derived.requirements)
        found |= {name for name, tool in server.registry.tools.items() if offer.includes(tool)}
    return found


def _wanted_scopes() -> set[str]:
    servers = all_servers()
    gates = [server.gate for server in servers if server.gate is not None]
    required = chain.from_iterable(gate.required_scopes for gate in gates)
    return {*named_scopes(servers), *required, *(settings.SCOPE_IMPLIES or ())}
