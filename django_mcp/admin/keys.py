"""API keys in the admin: their list, their form, and the page that shows a new key's secret."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget, FilteredSelectMultiple
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.text import capfirst
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from django_mcp.admin import shown_once
from django_mcp.admin.lists import VisibleList
from django_mcp.admin.permissions import find_granted, may_any
from django_mcp.admin.revoke import may_act_on_key, revoke_key
from django_mcp.admin.texts import escape_invisible
from django_mcp.auth.principal import KEY_START, make_key
from django_mcp.auth.users import is_superuser
from django_mcp.endpoints.usable_entries import (
    find_key_readers,
    find_open_writers,
    find_refused,
    grantable_scopes,
    usable_entries,
    usable_toolsets,
)
from django_mcp.models.keys import APIKey
from django_mcp.server.exchange.visibility import Allowed
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django_mcp.admin.figures import Part

LIFETIMES = (
    ("30", _("in 30 days")),
    ("90", _("in 90 days")),
    ("365", _("in a year")),
    ("never", _("never")),
    ("", _("at the time below")),
)


class _Names(forms.MultipleChoiceField):
    """Names from a list, which the model keeps as text."""

    def __init__(self, *, separator: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.separator = separator

    def clean(self, value: Any) -> str:
        return (self.separator or " ").join(super().clean(value))

    def read(self, text: str) -> list[str]:
        """Return the names in a text of the model."""
        return [part.strip() for part in text.split(self.separator) if part.strip()]


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # Django has no type arguments
    """The form of a key, made for a user who looks at it."""

    viewer: ClassVar[Any] = None
    """The user, set on the subclass of a request."""

    lifetime = forms.ChoiceField(
        choices=LIFETIMES, required=False, initial="90", label=_("Expires")
    )
    scopes = _Names(
        required=False,
        label=capfirst(_("scopes")),
        help_text=_("The scopes that the key grants, for tools that require scopes."),
        widget=FilteredSelectMultiple(_("scopes"), is_stacked=False),
    )
    tools = _Names(
        required=False,
        label=capfirst(_("tools")),
        widget=FilteredSelectMultiple(_("tools"), is_stacked=False),
    )
    resources = _Names(
        required=False,
        separator="\n",
        label=capfirst(_("resources")),
        help_text=_("A URI template stands for all resources that match it."),
        widget=FilteredSelectMultiple(_("resources"), is_stacked=False),
    )
    prompts = _Names(
        required=False,
        separator="\n",
        label=capfirst(_("prompts")),
        widget=FilteredSelectMultiple(_("prompts"), is_stacked=False),
    )

    toolsets = _Names(
        required=False,
        label=capfirst(_("toolsets")),
        help_text=_("The key sees all that is in a toolset."),
        widget=FilteredSelectMultiple(_("toolsets"), is_stacked=False),
    )

    class Meta:
        labels: ClassVar[dict[str, Any]] = {"expires_at": _("Expires at")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        servers = all_servers()
        offered: dict[str, Iterable[str]] = {
            "scopes": grantable_scopes(servers),
            **usable_entries(self.viewer, servers),
            "toolsets": usable_toolsets(self.viewer, servers),
        }
        for name, known in offered.items():
            field: Any = self.fields[name]
            kept = self.initial[name] = field.read(getattr(self.instance, name))
            field.choices = [(scope, scope) for scope in sorted({*known, *kept})]
        if not self.instance._state.adding:
            del self.fields["lifetime"]

    def clean(self) -> dict[str, Any]:
        """Replace the chosen lifetime by the time when it ends."""
        cleaned: dict[str, Any] = super().clean() or {}
        lifetime = cleaned.get("lifetime")
        if lifetime == "never":
            cleaned["expires_at"] = None
        elif lifetime:
            cleaned["expires_at"] = timezone.now() + timedelta(days=int(lifetime))
        return cleaned


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
    verbs: ClassVar[dict[str, Any]] = {"revoke": _("Revoke")}
    readonly_fields = (
        "shown_prefix",
        "state",
        "created_at",
        "last_used_at",
        "revoked_at",
    )
    form = KeyForm
    fieldsets = (
        (None, {"fields": ("name", "user", "lifetime", "expires_at")}),
        (
            _("Permissions"),
            {
                "fields": (
                    "scopes",
                    "read_only",
                    "is_restricted",
                    "toolsets",
                    "tools",
                    "resources",
                    "prompts",
                )
            },
        ),
        (_("Status"), {"fields": readonly_fields}),
    )

    def overview(self, request: HttpRequest) -> Part | None:
        from django_mcp.admin.overview import tell_keys

        return tell_keys(self, request)

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        opened = make_key("api-key", row.user_id, f"mcp_{row.prefix}")
        return [
            *self.link(request, _("Sessions"), "session", principal_key=opened),
            *self.link(request, _("Calls"), "callrecord", principal=opened),
            *self.link(
                request, _("What it sees"), "disabledentry", as_key=f"{KEY_START}{row.prefix}"
            ),
        ]

    def is_open(self, row: Any) -> bool:
        return row.revoked_at is None

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, key: APIKey) -> str:
        return escape_invisible(key.name, 100)

    @admin.display(description=_("key"), ordering="prefix")
    def shown_prefix(self, key: APIKey) -> str:
        """Return the part of the key that may be shown."""
        return f"mcp_{key.prefix}_…" if key.prefix else "-"

    @admin.display(description=_("state"))
    def state(self, key: APIKey) -> str:
        if not key.prefix:
            return "-"
        if key.revoked_at is not None:
            return str(_("revoked"))
        return str(_("expired") if key.is_over(timezone.now()) else _("valid"))

    @admin.action(description=_("Revoke the selected keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[APIKey]) -> HttpResponse | None:
        """Revoke keys permanently; they stay in the list."""
        return self.act_in_steps(
            request,
            queryset.filter(revoked_at=None),
            _revoke,
            ngettext_lazy("%d key was revoked.", "%d keys were revoked."),
        )

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return may_any(request.user, "change", APIKey)

    def get_queryset(self, request: HttpRequest) -> QuerySet[APIKey]:
        """Return all keys to a superuser, and to others their own and those they may see."""
        keys, user = super().get_queryset(request), request.user
        if is_superuser(user):
            return keys
        own = Q(user_id=user.pk) if self.sees_all(request) else Q(pk=None)
        others = keys.exclude(Q(user_id=user.pk)).order_by("-created_at")
        return keys.filter(own | Q(pk__in=find_granted(user, "view", others)))

    def has_change_permission(self, request: HttpRequest, obj: APIKey | None = None) -> bool:
        if obj is None:
            return super().has_change_permission(request)
        return may_act_on_key(request.user, "change", obj)

    def has_delete_permission(self, request: HttpRequest, obj: APIKey | None = None) -> bool:
        match = request.resolver_match
        if obj is None or (match and getattr(match.func, "model_admin", self) is not self):
            # On the page of another model: keys may be deleted together with their user.
            return super().has_delete_permission(request)
        return may_act_on_key(request.user, "delete", obj)

    def get_fieldsets(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        """Return the fields; the lifetime is chosen once, and the user only by a superuser."""
        fieldsets: Any = super().get_fieldsets(request, obj)
        changed = {} if obj is None and is_superuser(request.user) else {"user": "shown_user"}
        first, *others = fieldsets
        names = [
            changed.get(name, name)
            for name in first[1]["fields"]
            if obj is None or name != "lifetime"
        ]
        return [(first[0], {**first[1], "fields": names}), *others]

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, *args, **kwargs)
        form.viewer = request.user
        return form

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        users = get_user_model()
        return forms.ModelChoiceField(
            users._default_manager.all(),
            to_field_name=users.USERNAME_FIELD,
            widget=AdminTextInputWidget(attrs={"autocomplete": "off"}),
            label=capfirst(db_field.verbose_name),
            help_text=_("The name of the user on whose behalf the key acts."),
            error_messages={"invalid_choice": _("There is no such user.")},
        )

    def get_readonly_fields(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        """Return also the user, unless a superuser creates the key: it never changes."""
        fields = super().get_readonly_fields(request, obj)
        return fields if obj is None and is_superuser(request.user) else (*fields, "shown_user")

    @sensitive_variables("text")
    def save_model(self, request: HttpRequest, obj: APIKey, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        """Give a new key its secret, which one page shows after this request."""
        if not change:
            if not is_superuser(request.user):
                obj.user = request.user  # type: ignore[assignment]
            text = obj.renew_secret()
            request._django_mcp_key = text  # type: ignore[attr-defined]
        usable = usable_entries(obj.user, all_servers())
        allowed = obj.allowed or Allowed()
        refused = find_refused(usable, obj.scopes.split())
        named: dict[str, Iterable[str]] = {
            _t(
                "The user of this key may not use these entries now, or they do not exist: %(names)s"
            ): (name for kind in usable for name in getattr(allowed, kind) - usable[kind].keys()),
            _t("The key lacks scopes that these entries need: %(names)s"): (
                name for kind in refused for name in getattr(allowed, kind) & refused[kind].keys()
            ),
        }
        if obj.scopes and obj.allowed is None:
            # Scopes alone do not restrict the key, although it may seem so.
            readers = filter(find_key_readers, all_servers())
            named[
                _t(
                    "The key may also use these tools, which write and need no scope: %(names)s. To forbid them, "
                    "check “only reading” or name what the key is for."
                )
            ] = find_open_writers(obj.user, readers)
        for text, found in named.items():
            if names := escape_invisible(", ".join(sorted(found)), 500):
                self.message_user(request, text % {"names": names}, messages.WARNING)
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: APIKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Redirect to the page that shows the key: reloading that makes no second one."""
        response = HttpResponseRedirect(
            reverse(f"{self.admin_site.name}:django_mcp_apikey_issued", args=[obj.pk])
        )
        text = request._django_mcp_key  # type: ignore[attr-defined]
        shown_once.keep(request, response, text, response.url)
        return response

    def _list_url(self, request: HttpRequest) -> str:
        """Return the URL of the list, or of the start page for who may only add keys."""
        may_see = self.has_view_permission(request)
        return (
            self.url_of("apikey_changelist")
            if may_see
            else reverse(f"{self.admin_site.name}:index")
        )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("<int:pk>/issued/", view(self.issued_view), name="django_mcp_apikey_issued"),
            *super().get_urls(),
        ]

    @method_decorator(require_GET)
    @sensitive_variables("text")
    def issued_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show a new key, once, on a page that is not cached: the admin forbids it for all of its pages."""
        # Django loads this module when it starts, and this loads the machinery of HTTP.
        from django_mcp.admin.connect import find_endpoints

        text = shown_once.take(request)
        key = APIKey.objects.filter(pk=pk).select_related("user").first() if text else None
        if text is None or key is None:
            told = _t("A key is shown only once. If you have not copied it, make another one.")
            messages.warning(request, told)
            return HttpResponseRedirect(self._list_url(request))
        response = self.show(
            request,
            "apikey/issued.html",
            _("Copy the key now"),
            key={"name": escape_invisible(key.name, 100), "user": key.user},
            text=text,
            endpoints=find_endpoints(request, text),
            list_url=self._list_url(request),
        )
        response.delete_cookie(shown_once.NAME, path=request.path, samesite="Strict")
        return response


def _revoke(request: HttpRequest, keys: list[APIKey]) -> int:
    return sum(
        may_act_on_key(request.user, "change", key) and revoke_key(key, request) for key in keys
    )
