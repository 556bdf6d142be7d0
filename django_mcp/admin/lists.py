"""Admin lists of large tables, which show each user the rows they may see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import Page, without_transaction
from django_mcp.admin.permissions import has_object_backend, may, may_any, only_visible
from django_mcp.admin.searchable import MANY
from django_mcp.admin.texts import escape_invisible, to_number
from django_mcp.models import Stream
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.entries import KINDS
from django_mcp.servers import all_servers

BY_USERNAME = f"user__{get_user_model().USERNAME_FIELD}__icontains"
"""Finds rows by a part of their user's name."""

STEPS = "django_mcp_steps"
"""The action that a user has begun, in the session."""

FRESH_S = 30
"""For so long after a batch the page of an action goes on with the next by itself."""

NAMED = 20
"""Rows that a page names before it acts on them."""

MAX_NAME = 200

AT_ONCE = 1000
"""Rows that an action takes with each request."""

LISTED_AT_MOST = 20_000
"""Rows that a list looks at: SQLite takes a tenth of a second to filter or sort so many."""


class VisibleList(Page):
    """A list that a user may open if they may see any row of it."""

    list_per_page = 50

    def sees_all(self, request: HttpRequest) -> bool:
        return super().has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if self.sees_all(request):
            return True
        if obj is not None:
            return may(request.user, "view", obj)
        return has_object_backend() and self.get_queryset(request).exists()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or self.has_view_permission(request)

    def get_urls(self) -> list[Any]:
        name = f"django_mcp_{self.model._meta.model_name}_progress"
        return [
            path("progress/", self.admin_site.admin_view(self.progress_view), name=name),
            *super().get_urls(),
        ]

    def act_in_steps(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        act: Callable[[HttpRequest, list[Any]], int],
        done_text: Any,
        *,
        at_once: int = AT_ONCE,
    ) -> HttpResponse | None:
        """Ask before an action, then act on some rows with each request, so that none takes long.

        Args:
            request: that of the action, or of the page that this returned.
            rows: what the action is for, and the user may act on.
            act: does it to some rows; returns to how many.
            done_text: the message for a number of rows, a lazy text with its plural.
            at_once: rows of one request.

        Returns:
            The page that asks, or a redirect to the one that says how far it is and sends the next
            request; None when no more rows are left, which the user is told.
        """
        action = request.POST["action"]
        is_across = request.POST.get("select_across") == "1"
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        total, done = (to_number(request.POST.get(name), 9) for name in ("total", "done"))
        shown: dict[str, Any] = {
            "action": action,
            "select_across": int(is_across),
            # Django asks for one at least.
            "selected": selected[:1] if is_across else selected,
            "list_url": request.get_full_path(),
        }
        if "confirmed" not in request.POST:
            names = [escape_invisible(str(row), MAX_NAME) for row in rows[:NAMED]]
            total = rows.count()
            shown |= {"total": total, "done": 0, "names": names, "unnamed": total - len(names)}
            return self._show_steps(request, shown)
        batch = list(rows[:at_once])
        done += act(request, batch) if batch else 0
        if len(batch) < at_once or done >= total:
            request.session.pop(STEPS, None)
            self.message_user(request, done_text % done)
            return None
        # In the session, since it may be too long for a URL.
        request.session[STEPS] = {**shown, "total": total, "done": done, "at": time.time()}
        return HttpResponseRedirect(self.url_of(f"{self.model._meta.model_name}_progress"))

    def progress_view(self, request: HttpRequest) -> HttpResponse:
        """Show how far the action is that the user has begun, and go on with it."""
        steps = request.session.get(STEPS)
        list_url = self.url_of(f"{self.model._meta.model_name}_changelist")
        if steps is None or not steps["list_url"].startswith(list_url):
            return HttpResponseRedirect(list_url)
        # An action that was left does not go on when its page is opened again later.
        is_fresh = time.time() - steps["at"] < FRESH_S
        return self._show_steps(request, {**steps, "is_confirmed": True, "is_fresh": is_fresh})

    def _show_steps(self, request: HttpRequest, steps: dict[str, Any]) -> HttpResponse:
        known = dict(self.get_action_choices(request))
        if steps["action"] not in known:
            raise PermissionDenied
        return self.show(request, "steps.html", known[steps["action"]], **steps)


class ReadOnlyList(VisibleList):
    """A list whose rows nobody adds or edits.

    A user without the permission to view the model sees the rows for which a backend gives them that
    permission.

    Attributes:
        ending: the action whose permission allows deleting a row together with its parent.
    """

    actions: Any = None
    show_full_result_count = False
    # To count the rows of each choice takes seconds in a large table.
    show_facets = admin.ShowFacets.NEVER
    list_select_related: ClassVar[Any] = ("user",)
    ending = "delete"

    @without_transaction
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, or end rows of it, which servers do."""
        return super().changelist_view(request, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the user may see, as a queryset with cheap date periods."""
        queryset = super().get_queryset(request)
        rows = SpanQuerySet(queryset.model, query=queryset.query, using=queryset.db)
        if self.sees_all(request):
            return rows
        # Called several times for one page.
        known: dict[Any, list[Any]] = vars(request).setdefault("_django_mcp_seen", {})
        if self.model not in known:
            newest = self.ordering or self.model._meta.ordering or ("-pk",)
            queryset = only_visible(request.user, rows.order_by(*newest))
            known[self.model] = list(queryset.values_list("pk", flat=True))
        return rows.filter(pk__in=known[self.model])

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes any here; they may be deleted together with their user."""
        match = request.resolver_match
        if match is None or getattr(match.func, "model_admin", None) in (None, self):
            return False
        return may(request.user, self.ending, self.model if obj is None else obj)

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may end rows, or perhaps single ones; for actions."""
        return may_any(request.user, self.ending, self.model)

    @admin.display(description=_("principal"), ordering="principal_key")
    def principal(self, row: Any) -> str:
        return escape_invisible(row.principal_key, 128) or "-"

    @admin.display(description=_("client"), ordering="client_name")
    def client(self, row: Any) -> str:
        return escape_invisible(f"{row.client_name} {row.client_version}".strip(), 160) or "-"


QUIET = timedelta(minutes=1)
"""After this time without a request or an open stream, a session's client may have gone."""


def open_streams(session: Any, now: datetime) -> QuerySet[Stream]:
    """Return the streams of a session that a worker has open."""
    return Stream.objects.filter(session_id=session, worker__lease_until__gt=now)


class _Filter(admin.SimpleListFilter):
    """A filter by values that are known without a query.

    Attributes:
        is_searchable: there are so many that they are a select with a search.
    """

    lookup: str
    values: Callable[[], Iterable[str]]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_searchable = len(self.lookup_choices) > MANY
        if self.is_searchable:
            self.template = "admin/django_mcp/select_filter.html"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> list[tuple[str, str]]:
        return [(value, value) for value in self.values()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(**{self.lookup: value}) if value else queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices as links, or what the form of a select needs."""
        if not self.is_searchable:
            yield from super().choices(changelist)
            return
        values = [value for value, _title in self.lookup_choices]
        chosen = self.value()
        # A link may ask for one that is not among them, such as that of a tool that has gone.
        unknown = [chosen] if chosen and chosen not in values else []
        yield {**self.form(changelist), "values": [*unknown, *values]}

    def form(self, changelist: Any) -> dict[str, Any]:
        """Return the name and the value of the field of a form, and those of the other filters."""
        others = [
            (name, value)
            for name, values in changelist.filter_params.items()
            for value in values
            if name != self.parameter_name
        ]
        return {"value": self.value() or "", "name": self.parameter_name, "others": others}


class _TextFilter(_Filter):
    template = "admin/django_mcp/text_filter.html"
    # Without a choice, the filter would not be shown.
    values = staticmethod(lambda: [""])

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield self.form(changelist)


def _by(base: type[_Filter], parameter: str, title: Any, lookup: str, **more: Any) -> type[_Filter]:
    attributes = {"title": title, "parameter_name": parameter, "lookup": lookup, **more}
    return type(f"By{parameter.title()}", (base,), attributes)


def _by_choice(field: str, title: Any, values: Callable[[], Iterable[str]]) -> type[_Filter]:
    return _by(_Filter, field, title, field, values=staticmethod(values))


def _entry_names() -> list[str]:
    registries = [server.registry for server in all_servers()]
    kinds = [reg.registered[kind.mapping] for reg in registries for kind in KINDS]
    return sorted({entry.name for kind in kinds for entry in kind.values()})


ClientFilter = _by(_TextFilter, "client", _("client"), "client_name__icontains")
UserFilter = _by(_TextFilter, "username", _("user"), BY_USERNAME)
NameFilter = _by_choice("name", _("name"), _entry_names)
ServerFilter = _by_choice("server", _("server"), lambda: [server.name for server in all_servers()])
RevisionFilter = _by_choice(
    "revision", _("revision"), lambda: [revision.name for revision in REVISIONS]
)
# Those that keep sessions.
TransportFilter = _by_choice("transport", _("transport"), lambda: ["http", "sse"])


class NewestList(ChangeList):
    """A list of the newest rows, up to `LISTED_AT_MOST` of those that an index selects.

    Other filters, searches and sorting apply to these, so no page takes longer the more rows there are.

    Attributes:
        is_cut: older rows were left out.
        all_rows: those that are asked for, older ones included.
    """

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request, *args, **kwargs)
        page: Any = self.model_admin
        indexed: Any = self.root_queryset.all()
        # Whether rows without a value are left out, by the first column of each index.
        indexes = {
            index.fields[0].removeprefix("-"): index.condition is not None
            for index in self.model._meta.indexes
        }
        for child in rows.query.where.children:
            field = getattr(getattr(child, "lhs", None), "target", None)
            if field is not None and field.model is self.model and field.name in indexes:
                indexed.query.where.add(child, "AND")
                if indexes[field.name]:
                    # Not every database infers that the index can be used.
                    rows = rows.exclude(**{field.name: ""})
                    indexed = indexed.exclude(**{field.name: ""})
        newest = indexed.order_by(*page.ordering).values_list(page.date_hierarchy, flat=True)
        cut = newest[LISTED_AT_MOST : LISTED_AT_MOST + 1].first()
        self.is_cut, self.all_rows = cut is not None, rows
        if self.is_cut:
            rows = rows.filter(**{f"{page.date_hierarchy}__gte": cut})
        # The periods of all, or nobody could choose an older one.
        rows.spanned = indexed
        return rows  # type: ignore[no-any-return]

    def get_results(self, request: HttpRequest) -> None:
        """Count the rows, and read those of the page if there are any."""
        super().get_results(request)
        if not self.result_count:
            self.result_list = self.queryset.none()


class SpanQuerySet(QuerySet[Any]):
    """Rows for which the date hierarchy offers every period between the first and the last.

    Finding the periods with rows would read the whole table.

    Attributes:
        spanned: the rows whose periods are offered; None: these.
    """

    spanned: QuerySet[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known_ends: dict[str, tuple[Any, Any] | None] = {}

    def datetimes(self, field_name: str, kind: str, order: str = "ASC", tzinfo: Any = None) -> Any:
        """Return the periods from the first row to the last, whether they have rows or not."""
        ends = self._find_ends(field_name)
        if ends is None:
            return []
        if timezone.is_aware(ends[0]):
            ends = (timezone.localtime(ends[0], tzinfo), timezone.localtime(ends[1], tzinfo))
        return list(_periods(ends[0], ends[1], kind))

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the aggregates, with the hierarchy's first and last row by the index."""
        if not args and set(kwargs) == {"first", "last"}:
            ends = self._find_ends(kwargs["first"].source_expressions[0].name) or (None, None)
            return {"first": ends[0], "last": ends[1]}
        return super().aggregate(*args, **kwargs)

    def _find_ends(self, field: str) -> tuple[Any, Any] | None:
        """Return the least and the greatest value of an indexed field; None: there are no rows.

        Two queries, since some databases read the whole table to aggregate both in one.
        """
        if field not in self._known_ends:
            rows = self if self.spanned is None else self.spanned
            values = rows.values_list(field, flat=True)
            first = values.order_by(field).first()
            self._known_ends[field] = (
                None if first is None else (first, values.order_by(f"-{field}").first())
            )
        return self._known_ends[field]


def _periods(first: datetime, last: datetime, kind: str) -> Iterator[datetime]:
    here = first.replace(hour=0, minute=0, second=0, microsecond=0)
    if kind in ("month", "year"):
        here = here.replace(day=1)
    if kind == "year":
        here = here.replace(month=1)
    while here <= last:
        yield here
        match kind:
            case "year":
                here = here.replace(year=here.year + 1)
            case "month":
                here = (here + timedelta(days=31)).replace(day=1)
            case _:
                here += timedelta(days=1)
