"""The catalogue: the entries of each server as a user or a key at a revision sees them, and disabled ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.text import capfirst
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from msgspec import Struct

from django_mcp.admin.base import (
    Page,
    get_server_or_404,
    note_actions,
    require_permissions,
    without_transaction,
)
from django_mcp.admin.catalogue_list import (
    Kind,
    Listing,
    Selection,
    find_items,
    is_destructive,
)
from django_mcp.admin.permissions import may, only_visible
from django_mcp.admin.searchable import MANY, searchable_media
from django_mcp.admin.texts import escape_invisible, pretty, to_number
from django_mcp.auth.principal import KEY_START
from django_mcp.extension_packages import load_parts
from django_mcp.models import APIKey, CallRecord, DisabledEntry
from django_mcp.pages.policy import admin_policy, set_policy
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.entries import KINDS, Entry, PromptEntry, TemplateEntry, ToolEntry
from django_mcp.registry.schemas import resolve_texts
from django_mcp.server.extension import ask
from django_mcp.servers import MCPServer, all_servers

PREVIOUS_CALLS = 10
"""Recorded calls of a tool whose arguments can be loaded into its form."""


class Viewer(Struct, frozen=True, kw_only=True):
    """The caller and the revision to view the catalogue as.

    Attributes:
        user: a user, or the principal of a key; None if anonymous.
        username: the user's name; empty if there is no user.
        key: an API key, which is viewed instead of its user.
        revision: the name of the revision.
    """

    user: Any
    username: str
    revision: str
    key: APIKey | None = None

    @property
    def name(self) -> str:
        """What the page calls the caller; empty for an anonymous one."""
        return self.username if self.key is None else str(self.key)

    @property
    def prefix(self) -> str:
        return "" if self.key is None else f"{KEY_START}{self.key.prefix}"

    @property
    def query(self) -> dict[str, str]:
        caller = {"user": self.username} if self.key is None else {"as_key": self.prefix}
        return {**caller, "revision": self.revision}

    def is_refused_by(self, server: MCPServer) -> bool:
        """Return whether a key is viewed as, and a server does not take keys."""
        # Django loads this module when it starts.
        from django_mcp.auth.authenticators.api_keys import APIKeyAuthenticator

        authentication = server.engine.authentication
        authenticators = () if authentication is None else authentication.authenticators
        takes_keys = any(
            isinstance(authenticator, APIKeyAuthenticator) for authenticator in authenticators
        )
        return self.key is not None and not takes_keys

    def seen(self, server: MCPServer, kind: str) -> dict[str, JSONObject]:
        """Return the visible entries of one kind, by key, in the protocol's form."""
        if self.is_refused_by(server):
            return {}
        listed_kind = next(candidate for candidate in KINDS if candidate.mapping == kind)
        entries = getattr(server, listed_kind.method)(user=self.user, revision=self.revision)
        return {entry[listed_kind.identity]: entry for entry in entries}


class CatalogueAdmin(Page):
    """All registered entries, in place of a list of disabled ones."""

    def get_urls(self) -> list[Any]:
        """Return the catalogue's own URLs; rows are not edited one by one."""
        from django_mcp.admin.try_it import try_view

        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="django_mcp_disabledentry_changelist"),
            path("entry/", view(self.entry_view), name="django_mcp_entry"),
            path("switch/", view(require_POST(self.switch_view)), name="django_mcp_switch"),
            path("connect/", view(self.connect_view), name="django_mcp_connect"),
            path("try/", view(without_transaction(require_POST(try_view))), name="django_mcp_try"),
            *(
                path(f"{name}/", view(without_transaction(added)), name=f"django_mcp_{name}")
                for part in load_parts("admin.sections")
                for name, added in part.VIEWS.items()
            ),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Entries are registered in code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are not edited one by one."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may open the catalogue, which takes more than to switch entries."""
        return request.user.has_perm("django_mcp.view_disabledentry")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        from django_mcp.inprocess.results import MCPError

        require_permissions(request, "view_disabledentry")
        server = get_server_or_404(request.GET.get("server") or all_servers()[0].name)
        viewer = self._viewer(request)
        failure = ""
        seen: dict[str, dict[str, JSONObject]] = {}
        for kind in Kind:
            try:
                seen[kind.value] = viewer.seen(server, kind)
            except MCPError as error:
                failure = escape_invisible(str(error), 500)
        items = find_items(server, seen)
        may_see_calls = request.user.has_perm("django_mcp.view_callrecord")
        listing = Listing(
            server,
            items,
            Selection.read(request.GET, may_see_calls=may_see_calls),
            may_see_calls=may_see_calls,
            entry_url=self.url_of("entry"),
            query=viewer.query,
        )
        state = {**viewer.query, **listing.selection.query}
        has_many = max(map(len, (all_servers(), listing.apps, listing.toolsets))) > MANY
        return self.show(
            request,
            "catalogue.html",
            _("Catalogue"),
            servers=all_servers(),
            server=server,
            revisions=[revision.name for revision in reversed(REVISIONS)],
            viewer=viewer,
            listing=listing,
            selection=listing.selection,
            tables=listing.tables,
            choices=listing.choices,
            many=MANY,
            name_title=_("Name"),
            number_heads=[
                (_("Calls of a day"), listing.heads["calls"]),
                (_("Errors"), listing.heads["errors"]),
                ("95 % (ms)", listing.heads["p95"]),
            ],
            gone=[escape_invisible(item.key, 400) for item in items if item.entry is None],
            failure=failure,
            may_see_calls=may_see_calls,
            may_switch=request.user.has_perm("django_mcp.change_disabledentry"),
            may_choose_user=may(request.user, "view", get_user_model()),
            may_choose_key=self._find_keys(request) is not None,
            refuses_keys=viewer.is_refused_by(server),
            switch_url=f"{self.url_of('switch')}?{urlencode(state)}",
            media=searchable_media() if has_many else "",
        )

    def _viewer(self, request: HttpRequest) -> Viewer:
        from django_mcp.auth.authenticators.api_keys import APIKeyAuthenticator, principal_of_key

        revision = request.GET.get("revision", "")
        if revision not in {revision.name for revision in REVISIONS}:
            revision = REVISIONS[-1].name
        user: Any = request.user
        prefix = request.GET.get("as_key", "").strip()
        if prefix:
            key = self._find_key(request, prefix)
            if key is not None:
                principal = principal_of_key(key, APIKeyAuthenticator())
                return Viewer(
                    user=principal, username=key.user.get_username(), revision=revision, key=key
                )
        username = request.GET.get("user", user.get_username())
        if username == "":
            user = None
        elif username != user.get_username():
            user = self._find_user(request, username) or user
        name = "" if user is None else user.get_username()
        return Viewer(user=user, username=name, revision=revision)

    def _find_user(self, request: HttpRequest, username: str) -> Any:
        """Return the user of a name; None, with a message, if the viewer may not see them."""
        users: Any = get_user_model()
        try:
            if may(request.user, "view", users) and "\0" not in username:
                return users._default_manager.get_by_natural_key(username)
        except (users.DoesNotExist, ValueError):
            pass
        messages.error(request, _t("There is no such user."))
        return None

    def _find_keys(self, request: HttpRequest) -> QuerySet[APIKey] | None:
        """Return the keys that the page of keys lists for the viewer; None if they may not open it."""
        page = self.admin_site._registry.get(APIKey)
        may_open = page is not None and page.has_view_permission(request)
        return page.get_queryset(request) if page is not None and may_open else None

    def _find_key(self, request: HttpRequest, prefix: str) -> APIKey | None:
        """Return a valid key; None, with a message, if the viewer may not see the key or its user."""
        from django_mcp.auth.authenticators.api_keys import find_valid_key

        keys, key = self._find_keys(request), find_valid_key(prefix)
        if key is not None and keys is not None and keys.filter(pk=key.pk).exists():
            is_own = key.user_id == request.user.pk
            if is_own or may(request.user, "view", get_user_model()):
                return key
        messages.error(request, _t("There is no such key, or it is no longer valid."))
        return None

    def entry_view(self, request: HttpRequest) -> HttpResponse:
        """Show one entry, and a form to try it."""
        from django_mcp.admin.try_it import can_answer, revision_tried
        from django_mcp.inprocess.results import MCPError

        require_permissions(request, "view_disabledentry")
        server = get_server_or_404(request.GET.get("server") or all_servers()[0].name)
        kind, key = request.GET.get("kind", ""), request.GET.get("key", "")
        entry = find_entry(server, kind, key)
        viewer = self._viewer(request)
        try:
            wire = viewer.seen(server, kind).get(key)
        except MCPError:
            wire = None
        # Names of arguments or variables.
        completers: list[str] = []
        if isinstance(entry, PromptEntry | TemplateEntry):
            find = server.registry.completer
            completers = [name for name in entry.argument_names if find(entry, name)]
        may_try = request.user.has_perm("django_mcp.try_entry")
        revision = revision_tried(server, viewer.revision)
        # Older clients ask for such a call themselves, and wait for its result in other ways.
        needs_newer = (
            may_try
            and not revision.is_stateless
            and isinstance(entry, ToolEntry)
            and any(
                ask(extension, "is_required_by", False, entry)
                for extension in server.engine.extensions.values()
            )
        )
        may_try = may_try and not needs_newer
        disabled = (
            DisabledEntry.objects.filter(server=server.name, kind=kind, key=key)
            .select_related("disabled_by")
            .first()
        )
        sections: list[dict[str, Any]] = []
        if may_try and disabled is None:
            found = (
                part.find_section(self, request, server, entry)
                for part in load_parts("admin.sections")
            )
            sections = [section for section in found if section is not None]
        caller = next(filter(None, (section["caller"] for section in sections)), None)
        response = self.show(
            request,
            "entry.html",
            escape_invisible(str(entry.title or entry.name), 200),
            server=server,
            parents=[(_("Catalogue"), self.url_of("disabledentry_changelist"))],
            links=self.link(request, _("Calls"), "callrecord", server=server.name, name=entry.name),
            entry=entry,
            kind=Kind(kind),
            key=key,
            shown_key=escape_invisible(key, 400),
            description=escape_invisible(str(entry.description or "")),
            viewer=viewer,
            wire=pretty(wire) if wire is not None else None,
            facts=_facts(entry, server.engine.ports.find_toolset(entry)),
            disabled=disabled,
            sections=sections,
            catalogue_url=self.url_of("disabledentry_changelist"),
            switch_url=f"{self.url_of('switch')}?{urlencode(viewer.query)}",
            caller=caller,
            try_url=self.url_of("try") if caller is None else caller["url"],
            calls_url=next((url for _, url in self.link(request, "", "callrecord")), ""),
            may_switch=request.user.has_perm("django_mcp.change_disabledentry"),
            may_try=may_try,
            needs_newer=needs_newer,
            may_ask=can_answer(server, revision, request),
            form={
                "values": self._values(request),
                "previous": self._find_previous(request, server, entry) if may_try else [],
                "viewer": str(request.user.pk),
                "is_destructive": is_destructive(entry),
                "server": server.name,
                "kind": kind,
                "key": key,
                "revision": viewer.revision,
                "sent": {} if caller is None else caller["sent"],
                "wire": entry.to_wire(),
                "schema": _schema_of(entry),
                "completers": completers,
            },
        )
        frames = " ".join(section["frames"] for section in sections)
        set_policy(response, admin_policy(frames))
        return response

    def _values(self, request: HttpRequest) -> JSONObject:
        from django_mcp.admin.connect import kept_arguments

        pk = to_number(request.GET.get("call"), 18)
        call = CallRecord.objects.filter(pk=pk).first() if pk else None
        if call is None or not may(request.user, "view", call):
            return {}
        return kept_arguments(call) or {}

    def _find_previous(
        self, request: HttpRequest, server: MCPServer, entry: Entry
    ) -> list[JSONObject]:
        """Return the time and the arguments of the last recorded calls of a tool that keeps those."""
        from django_mcp.admin.connect import kept_arguments

        if not getattr(entry, "record_arguments", False):
            return []
        same = {"server": server.name, "method": CallRecord.Method.TOOL, "name": entry.name}
        rows = CallRecord.objects.filter(**same).order_by("-started_at", "-id")
        rows = only_visible(request.user, rows)[:PREVIOUS_CALLS]
        kept = [(row.started_at.timestamp(), kept_arguments(row)) for row in rows]
        return [{"at": at, "arguments": found} for at, found in kept if found is not None]

    def switch_view(self, request: HttpRequest) -> HttpResponse:
        """Disable an entry, once that is confirmed, or enable it, and return to the same view."""
        require_permissions(request, "change_disabledentry")
        server = get_server_or_404(request.POST.get("server"))
        kind, key = request.POST.get("kind", ""), request.POST.get("key", "")
        if kind not in Kind.values or "\0" in key:
            raise Http404
        viewer = self._viewer(request)
        state = {**viewer.query, **Selection.read(request.GET).query}
        query = urlencode({"server": server.name, **state})
        list_url = f"{self.url_of('disabledentry_changelist')}?{query}"
        name = escape_invisible(key, 200)
        is_on = request.POST.get("to") == "on"
        if not is_on:
            find_entry(server, kind, key)
        if not is_on and "confirmed" not in request.POST:
            return self.show(
                request,
                "disable.html",
                _("Disable"),
                parents=[(_("Catalogue"), list_url)],
                server=server,
                kind=Kind(kind),
                key=key,
                names=[f"{capfirst(Kind(kind).label)}: {name}"],
                list_url=list_url,
                switch_url=f"{self.url_of('switch')}?{urlencode(state)}",
            )
        wanted = {"server": server.name, "kind": kind, "key": key}
        with transaction.atomic():
            if is_on:
                count, _by_model = DisabledEntry.objects.filter(**wanted).delete()
                if count:
                    note_actions(request, DisabledEntry, (name, _t("Enabled."), None))
                messages.success(request, _t("The entry “%(name)s” is enabled.") % {"name": name})
            else:
                _row, is_new = DisabledEntry.objects.get_or_create(
                    **wanted, defaults={"disabled_by_id": request.user.pk}
                )
                if is_new:
                    note_actions(request, DisabledEntry, (name, _t("Disabled."), None))
                messages.success(request, _t("The entry “%(name)s” is disabled.") % {"name": name})
        return HttpResponseRedirect(list_url)

    def connect_view(self, request: HttpRequest) -> HttpResponse:
        """Show the configuration for clients; any of the staff may see it."""
        from django_mcp.admin.connect import find_endpoints, find_own_keys

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
    """Return a registered entry, disabled or not; raise Http404 if there is none."""
    entry = server.registry.registered[kind].get(key) if kind in Kind.values else None
    if entry is None:
        raise Http404
    return entry


def _schema_of(entry: Any) -> JSONObject | None:
    """Return the schema for the form of a tool, with texts in the active language."""
    if not isinstance(entry, ToolEntry):
        return None
    schema: JSONObject = resolve_texts(entry.form_schema, is_published=True)
    return schema


def _name_of(function: Any) -> str:
    return "" if function is None else getattr(function, "__qualname__", repr(function))


def _facts(entry: Entry, toolset: str | None) -> list[tuple[Any, str]]:
    access = entry.access
    permission: Any = access.permission
    if callable(permission):
        permission = (_name_of(permission),)
    facts = [
        (_("Toolset"), toolset or ""),
        (_("Permissions"), ", ".join(permission or ())),
        (_("Scopes"), ", ".join(access.scopes or ())),
        (_("Check"), _name_of(access.check)),
        (_("Listed if"), _name_of(access.listed_if)),
        (_("Source"), entry.source),
    ]
    return [(title, escape_invisible(text, 400)) for title, text in facts if text]
