"""The catalogue: the entries of each server as a user at a revision sees them, and disabled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_mcp.admin.connect import find_endpoints, find_own_keys
from django_mcp.admin.history import note_action
from django_mcp.admin.lookup import get_server
from django_mcp.admin.pages import Page, needs, without_transaction
from django_mcp.admin.texts import inert, pretty
from django_mcp.admin.try_it import TryView, revision_tried
from django_mcp.admin.try_session import can_answer
from django_mcp.inprocess.errors import MCPError
from django_mcp.models import DisabledEntry
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.protocol.tasks import NEVER, REQUIRED
from django_mcp.servers import MCPServer, all_servers

if TYPE_CHECKING:
    from django_mcp.protocol.json import JSONObject
    from django_mcp.registry.entries import Access, Entry

__all__ = ["CatalogueAdmin"]

Kind = DisabledEntry.Kind
_KEYS = {"tools": "name", "resources": "uri", "templates": "uriTemplate", "prompts": "name"}


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A user, None if anonymous, and a revision to view the catalogue as."""

    user: Any
    username: str
    revision: str

    @property
    def query(self) -> dict[str, str]:
        """The query parameters for this viewer."""
        return {"user": self.username, "revision": self.revision}

    def seen(self, server: MCPServer, kind: str) -> dict[str, JSONObject]:
        """Return the visible entries of one kind, by key, in the protocol's form."""
        how: Any = {"user": self.user, "revision": self.revision}
        match kind:
            case "tools":
                found = server.list_tools(**how)
            case "resources":
                found = server.list_resources(**how)
            case "templates":
                found = server.list_resource_templates(**how)
            case _:
                found = server.list_prompts(**how)
        return {each[_KEYS[kind]]: each for each in found}


class CatalogueAdmin(Page):
    """All registered entries, in place of a list of disabled ones."""

    def get_urls(self) -> list[Any]:
        """Return the catalogue's own URLs; rows are not edited one by one."""
        view = self.admin_site.admin_view
        trying = TryView(self)
        return [
            path("", view(self.changelist_view), name="django_mcp_disabledentry_changelist"),
            path("entry/", view(self.entry_view), name="django_mcp_entry"),
            path("switch/", view(require_POST(self.switch_view)), name="django_mcp_switch"),
            path("connect/", view(self.connect_view), name="django_mcp_connect"),
            path("try/", view(without_transaction(require_POST(trying))), name="django_mcp_try"),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Entries are registered in code."""
        return False

    # -- the list

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show every entry of a server."""
        needs(request, "view_disabledentry")
        server = get_server(request.GET.get("server") or all_servers()[0].public_name)
        viewer = self._viewer(request)
        failure, groups = "", []
        for kind in Kind:
            seen: dict[str, JSONObject] = {}
            try:
                seen = viewer.seen(server, kind.value)
            except MCPError as error:
                failure = inert(str(error), 500)
            rows = self._rows(server, kind, viewer, set(seen))
            groups.append({"kind": kind, "rows": rows})
        return self.show(
            request,
            "catalogue.html",
            _("Catalogue"),
            servers=all_servers(),
            server=server,
            revisions=[each.name for each in reversed(REVISIONS)],
            viewer=viewer,
            groups=groups,
            failure=failure,
            may_switch=request.user.has_perm("django_mcp.change_disabledentry"),
            may_choose_user=_may_see_users(request),
            switch_url=f"{self.url_of('switch')}?{urlencode(viewer.query)}",
        )

    def _rows(
        self, server: MCPServer, kind: DisabledEntry.Kind, viewer: Viewer, seen: set[str]
    ) -> list[dict[str, Any]]:
        registry = server.registry
        registered = registry.registered(kind.value)
        disabled = set(
            DisabledEntry.objects.filter(server=server.public_name, kind=kind).values_list(
                "key", flat=True
            )
        )
        rows = [
            {
                "key": key,
                "name": inert(entry.name, 200),
                "title": inert(str(entry.title or ""), 200),
                "address": "" if key == entry.name else inert(key, 400),
                "description": inert(str(entry.description or ""), 300),
                "is_visible": key in seen,
                "is_disabled": key in disabled,
                "url": self._entry_url(server, kind.value, key, viewer),
            }
            for key, entry in registered.items()
        ]
        # Disabled, and not registered any more: such rows can be deleted.
        rows += [
            {"key": key, "name": inert(key, 400), "is_disabled": True, "is_gone": True}
            for key in sorted(disabled - set(registered))
        ]
        return rows

    def _entry_url(self, server: MCPServer, kind: str, key: str, viewer: Viewer) -> str:
        query = {"server": server.public_name, "kind": kind, "key": key, **viewer.query}
        return f"{self.url_of('entry')}?{urlencode(query)}"

    def _viewer(self, request: HttpRequest) -> Viewer:
        revision = request.GET.get("revision", "")
        if revision not in {each.name for each in REVISIONS}:
            revision = REVISIONS[-1].name
        username = request.GET.get("user", request.user.get_username())
        if username == request.user.get_username():
            return Viewer(user=request.user, username=username, revision=revision)
        if username == "":
            return Viewer(user=None, username="", revision=revision)
        users: Any = get_user_model()
        try:
            if not _may_see_users(request) or "\0" in username:
                raise users.DoesNotExist
            user = users._default_manager.get_by_natural_key(username)
        except (users.DoesNotExist, ValueError):
            messages.error(request, _t("There is no such user."))
            return Viewer(
                user=request.user, username=request.user.get_username(), revision=revision
            )
        return Viewer(user=user, username=username, revision=revision)

    # -- one entry

    def entry_view(self, request: HttpRequest) -> HttpResponse:
        """Show one entry, and a form to try it."""
        needs(request, "view_disabledentry")
        server = get_server(request.GET.get("server") or all_servers()[0].public_name)
        kind, key = request.GET.get("kind", ""), request.GET.get("key", "")
        entry = find_entry(server, kind, key)
        viewer = self._viewer(request)
        try:
            wire = viewer.seen(server, kind).get(key)
        except MCPError:
            wire = None
        newest = entry.to_wire()
        may_try = request.user.has_perm("django_mcp.try_entry")
        is_task_only = getattr(entry, "task", NEVER) == REQUIRED
        return self.show(
            request,
            "entry.html",
            inert(str(entry.title or entry.name), 200),
            server=server,
            entry=entry,
            kind=Kind(kind),
            key=key,
            shown_key=inert(key, 400),
            description=inert(str(entry.description or "")),
            viewer=viewer,
            wire=pretty(wire) if wire is not None else None,
            facts=_facts(entry),
            is_disabled=(kind, key) in server.registry.disabled,
            catalogue_url=self.url_of("disabledentry_changelist"),
            switch_url=f"{self.url_of('switch')}?{urlencode(viewer.query)}",
            try_url=self.url_of("try"),
            may_switch=request.user.has_perm("django_mcp.change_disabledentry"),
            may_try=may_try and not is_task_only,
            is_task_only=may_try and is_task_only,
            may_ask=can_answer(server, revision_tried(server, viewer.revision), request),
            form={
                "server": server.public_name,
                "kind": kind,
                "key": key,
                "revision": viewer.revision,
                "schema": _form_schema(kind, newest),
            },
        )

    # -- switching

    def switch_view(self, request: HttpRequest) -> HttpResponse:
        """Disable or enable an entry, and return to the same view."""
        needs(request, "change_disabledentry")
        server = get_server(request.POST.get("server"))
        kind, key = request.POST.get("kind", ""), request.POST.get("key", "")
        if kind not in Kind.values or "\0" in key:
            raise Http404
        wanted = {"server": server.public_name, "kind": kind, "key": key}
        name = inert(key, 200)
        with transaction.atomic():
            if request.POST.get("to") == "on":
                found = DisabledEntry.objects.filter(**wanted).first()
                if found is not None:
                    found.delete()
                    note_action(request, DisabledEntry, name, _t("Enabled."))
                messages.success(request, _t("%(name)s is enabled.") % {"name": name})
            else:
                find_entry(server, kind, key)
                _row, is_new = DisabledEntry.objects.get_or_create(
                    **wanted, defaults={"disabled_by_id": request.user.pk}
                )
                if is_new:
                    note_action(request, DisabledEntry, name, _t("Disabled."))
                messages.success(request, _t("%(name)s is disabled.") % {"name": name})
        query = urlencode({"server": server.public_name, **self._viewer(request).query})
        return HttpResponseRedirect(f"{self.url_of('disabledentry_changelist')}?{query}")

    # -- connecting

    def connect_view(self, request: HttpRequest) -> HttpResponse:
        """Show the configuration for clients; any of the staff may see it."""
        may_see_keys = request.user.has_perm("django_mcp.view_apikey")
        # A custom admin site may lack the page of keys.
        keys_url = self.find_url("apikey_changelist") if may_see_keys else None
        return self.show(
            request,
            "connect.html",
            _("Connect"),
            endpoints=find_endpoints(request),
            keys=find_own_keys(request.user) if keys_url is not None else [],
            keys_url=keys_url,
        )


def find_entry(server: MCPServer, kind: str, key: str) -> Entry:
    """Return a registered entry, disabled or not.

    Raises:
        Http404: there is none.
    """
    entry = server.registry.registered(kind).get(key) if kind in Kind.values else None
    if entry is None:
        raise Http404
    return entry


def _may_see_users(request: HttpRequest) -> bool:
    info = get_user_model()._meta
    return request.user.has_perm(f"{info.app_label}.view_{info.model_name}")


def _facts(entry: Entry) -> list[tuple[Any, str]]:
    access: Access = entry.access
    permission: Any = access.permission
    if callable(permission):
        permission = (getattr(permission, "__qualname__", repr(permission)),)
    check = access.check
    facts = [
        (_("Permissions"), ", ".join(permission or ())),
        (_("Scopes"), ", ".join(access.scopes or ())),
        (_("Check"), "" if check is None else getattr(check, "__qualname__", repr(check))),
        (_("Source"), entry.source),
    ]
    return [(title, inert(text, 400)) for title, text in facts if text]


def _form_schema(kind: str, wire: JSONObject) -> JSONObject:
    """Return the JSON Schema of the form for trying an entry."""
    if kind == "tools":
        schema: JSONObject = wire["inputSchema"]
        return schema
    if kind == "prompts":
        arguments = wire.get("arguments", [])
        return {
            "type": "object",
            "properties": {
                each["name"]: {
                    "type": "string",
                    **{key: each[key] for key in ("title", "description") if key in each},
                }
                for each in arguments
            },
            "required": [each["name"] for each in arguments if each.get("required")],
        }
    uri = wire.get("uri") or wire["uriTemplate"]
    return {
        "type": "object",
        "properties": {"uri": {"type": "string", "title": "URI", "default": uri}},
        "required": ["uri"],
    }
