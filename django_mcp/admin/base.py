"""The common parts of the package's admin pages: URLs, tabs, links, permissions, servers by name, and the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.db.models import Model
from django.db.transaction import non_atomic_requests
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.bounded import BoundedList
from django_mcp.admin.searchable import searchable_media
from django_mcp.admin.texts import escape_invisible
from django_mcp.extension_packages import load_parts
from django_mcp.known_servers import find_server
from django_mcp.models import CallRecord
from django_mcp.pages.policy import protect_admin_page
from django_mcp.servers import MCPServer

TABS = (
    ("live", _("Live"), ("session", "stream")),
    ("running", _("Running"), ("callrecord",)),
    ("disabledentry_changelist", _("Catalogue"), ("disabledentry",)),
    ("charts", _("Charts"), ("callrecord",)),
    ("slow", _("Why slow"), ("callrecord",)),
    ("mistakes", _("Mistakes"), ("callrecord",)),
    ("callrecord_changelist", _("Calls"), ("callrecord",)),
    ("errorgroup_changelist", _("Errors"), ("errorgroup",)),
    *(tab for part in load_parts("admin") for tab in part.TABS),
    ("session_changelist", _("Sessions"), ("session",)),
    ("stream_changelist", _("Streams"), ("stream",)),
    ("subscription_changelist", _("Subscriptions"), ("subscription",)),
    ("apikey_changelist", _("API keys"), ("apikey",)),
    ("connect", _("Connect"), ()),
)
"""Name of the URL, title, and models of which a user has to see any; missing pages are left out."""

ALL_CALLS = frozenset({"running", "charts", "slow", "mistakes"})
"""Those that show all calls together."""


class Page(BoundedList):
    """A model's admin with further pages beside Django's."""

    @property
    def urls(self) -> list[Any]:
        """Return the URLs of the pages, whose responses have a Content-Security-Policy."""
        patterns = self.get_urls()
        for pattern in patterns:
            pattern.callback = protect_admin_page(pattern.callback)
        return patterns

    def url_of(self, name: str) -> str:
        """Return the URL of one of the package's pages in this admin site."""
        return reverse(f"{self.admin_site.name}:django_mcp_{name}")

    def find_url(self, name: str) -> str | None:
        """Return the URL of a page that this admin site may lack."""
        try:
            return self.url_of(name)
        except NoReverseMatch:
            return None

    def tabs(self, request: HttpRequest) -> list[dict[str, Any]]:
        start = reverse(f"{self.admin_site.name}:app_list", args=[self.opts.app_label])
        pages: list[dict[str, Any]] = [{"url": start, "title": _("Overview"), "is_here": False}]
        sees_all_calls = request.user.has_perm("django_mcp.view_callrecord")
        for name, title, models in TABS:
            if models and not any(self._may_see(request, model) for model in models):
                continue
            if name in ALL_CALLS and not sees_all_calls:
                continue
            url = self.find_url(name)
            if url is not None:
                pages.append({"url": url, "title": title, "is_here": False})
        # The page of a row belongs to its list.
        here = [
            page
            for page in pages
            if request.path.startswith(page["url"])
            and (page["url"] != start or request.path == start)
        ]
        if here:
            max(here, key=lambda each: len(each["url"]))["is_here"] = True
        return pages

    def _may_see(self, request: HttpRequest, model: str) -> bool:
        page = self.admin_site._registry.get(apps.get_model("django_mcp", model))
        return page is not None and page.has_view_permission(request)

    def link(
        self, request: HttpRequest, title: Any, model: str, pk: Any = None, **query: Any
    ) -> list[tuple[Any, str]]:
        """Return the title and URL of a row's page or a list's; nothing if the user may not see it."""
        if not self._may_see(request, model):
            return []
        name = f"{self.admin_site.name}:django_mcp_{model}_"
        if pk is not None:
            return [(title, reverse(f"{name}change", args=[pk]))]
        return [(title, f"{reverse(f'{name}changelist')}?{urlencode(query)}")]

    def link_entry(
        self, request: HttpRequest, server: str, method: str, name: str
    ) -> list[tuple[Any, str]]:
        """Return the title and URL of an entry in the catalogue, if it is there."""
        known_server: Any = find_server(server)
        url = self.find_url("entry")
        if None in (known_server, url) or not request.user.has_perm(
            "django_mcp.view_disabledentry"
        ):
            return []
        for kind in KINDS.get(method, ()):
            for key, entry in known_server.registry.registered[kind].items():
                if entry.name == name:
                    query = urlencode({"server": server, "kind": kind, "key": key})
                    return [(_("Catalogue: %(name)s") % {"name": name}, f"{url}?{query}")]
        return []

    verbs: ClassVar[dict[str, Any]] = {}
    """What the page of a row calls the actions of the list."""

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        """Return titles and URLs of what belongs to a row."""
        return []

    def link_user(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        """Return the title and URL of the page of a row's user, if the viewer may open it."""
        user: Any = getattr(row, "user", None)
        page = self.admin_site._registry.get(type(user))
        if user is None or page is None or not page.has_view_or_change_permission(request, user):
            return []
        info = user._meta
        name = f"{self.admin_site.name}:{info.app_label}_{info.model_name}_change"
        return [(_("User"), reverse(name, args=[user.pk]))]

    # Django links the objects that a row belongs to, also for who may not see them.

    @admin.display(description=_("user"))
    def shown_user(self, row: Any) -> str:
        user = getattr(row, "user", None)
        return "-" if user is None else escape_invisible(user.get_username(), 150)

    @admin.display(description=_("session"))
    def shown_session(self, row: Any) -> str:
        return str(row.session or "-")

    def is_open(self, row: Any) -> bool:
        """Return whether the actions make sense for a row."""
        return True

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Show a row with the package's tabs, what belongs to it, and the actions of its list."""
        obj = kwargs.get("obj")
        known = self.get_actions(request) if obj is not None and self.is_open(obj) else {}
        more = {
            "tabs": self.tabs(request),
            "links": [*self.links(request, obj), *self.link_user(request, obj)] if obj else [],
            "acts": [(name, verb) for name, verb in self.verbs.items() if name in known],
        }
        return super().render_change_form(request, {**context, **more}, *args, **kwargs)

    def show(
        self, request: HttpRequest, template: str, title: Any, **context: Any
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        shown = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "title": title,
            "tabs": self.tabs(request),
            **context,
        }
        return TemplateResponse(request, f"admin/django_mcp/{template}", shown)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show Django's list, with the package's tabs above."""
        extra = {"tabs": self.tabs(request), **(extra_context or {})}
        response = super().changelist_view(request, extra)
        shown = getattr(response, "context_data", None) or {}
        filters = shown["cl"].filter_specs if "cl" in shown else ()
        if any(getattr(spec, "is_searchable", False) for spec in filters):
            shown["media"] += searchable_media()
        return response


def without_transaction(view: Callable[..., Any]) -> Callable[..., Any]:
    """Exempt a view from ATOMIC_REQUESTS.

    Other threads write for such a view, which would wait for the end of the request's transaction
    while the request waits for them.
    """
    for alias in connections:
        view = non_atomic_requests(using=alias)(view)
    return view


def require_permissions(request: HttpRequest, *permissions: str) -> None:
    """Raise PermissionDenied unless a user has all of these permissions."""
    if not request.user.has_perms([f"django_mcp.{permission}" for permission in permissions]):
        raise PermissionDenied


KINDS = {
    CallRecord.Method.TOOL.value: ("tools",),
    CallRecord.Method.RESOURCE.value: ("resources", "templates"),
    CallRecord.Method.PROMPT.value: ("prompts",),
}
"""The kinds of entries that a method is for."""


def get_server_or_404(name: object) -> MCPServer:
    """Return the server of a name; raise Http404 if there is none."""
    server = find_server(name)
    if not isinstance(server, MCPServer):
        raise Http404
    return server


def note_actions(request: HttpRequest, model: type[Model], *notes: tuple[str, str, Any]) -> None:
    """Record actions of the request's user: the object's name, what was done, and its key or None."""
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=str(request.user.pk),
            content_type_id=ContentType.objects.get_for_model(model).pk,
            object_id=None if pk is None else str(pk),
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=message,
        )
        for name, message, pk in notes
    )
