"""The list of errors: how often each happens and whom it concerns, and which of them are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from django_mcp.admin.base import note_actions
from django_mcp.admin.figures import show_number
from django_mcp.admin.lists import ReadOnlyList, ServerFilter
from django_mcp.admin.permissions import may, may_any, only_visible
from django_mcp.admin.texts import escape_invisible
from django_mcp.conf import settings
from django_mcp.models import ErrorGroup

KIND_LABELS = {
    "arguments": _("wrong arguments"),
    "denied": _("permission denied"),
    "missing": _("not found"),
    "invalid": _("invalid values"),
    "tool_error": _("tool error"),
    "timeout": _("timed out"),
    "fault": _("internal error"),
}
"""What failed, by the values of `FailureKind`; others are codes of errors."""


class _ChoiceFilter(admin.SimpleListFilter):
    """A filter that always has one of its choices, the first if none is asked for."""

    choices_: tuple[tuple[str, Any], ...]

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> tuple[tuple[str, Any], ...]:
        return self.choices_

    def value(self) -> str:
        asked = super().value()
        return asked if asked in dict(self.choices_) else self.choices_[0][0]

    def choices(self, changelist: Any) -> Iterator[Any]:
        for key, title in self.choices_:
            yield {
                "selected": self.value() == key,
                "query_string": changelist.get_query_string({self.parameter_name: key}),
                "display": title,
            }


class SpanFilter(_ChoiceFilter):
    """The time in which an error was seen, and over which its calls are counted."""

    title = _("over the last")
    parameter_name = "span"
    choices_ = (("day", _("day")), ("hour", _("hour")), ("week", _("week")))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        from django_mcp.admin.error_figures import find_bounds
        from django_mcp.admin.reports import moment_of

        return queryset.filter(last_seen_at__gte=moment_of(find_bounds(self.value())[0]))


class StateFilter(_ChoiceFilter):
    """Whether an error is resolved."""

    title = _("state")
    parameter_name = "state"
    choices_ = (
        ("open", _("not resolved")),
        ("again", _("seen again")),
        ("resolved", _("resolved")),
        ("all", _("all")),
    )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        is_again = Q(last_seen_at__gt=F("resolved_at"))
        match self.value():
            case "open":
                return queryset.filter(Q(resolved_at=None) | is_again)
            case "again":
                return queryset.filter(is_again)
            case "resolved":
                return queryset.filter(last_seen_at__lte=F("resolved_at"))
            case _:
                return queryset


class ErrorGroupAdmin(ReadOnlyList):
    """The errors, which are resolved or deleted, but not edited."""

    list_display = (
        "what",
        "entry",
        "result",
        "calls_in_span",
        "trend",
        "users",
        "clients",
        "first_seen_at",
        "last_seen_at",
        "shown_state",
    )
    list_filter = (SpanFilter, StateFilter, "outcome", ServerFilter)
    list_select_related = False
    # Of each, the users and clients are counted.
    list_per_page = 25
    search_fields = ("error", "name", "place", "message")
    search_help_text = _("A part of an exception, its message, its place, or a name.")
    ordering = ("-last_seen_at", "fingerprint")
    actions = ("resolve_selected", "reopen_selected")
    fields = (
        "what",
        "place",
        "entry",
        "server",
        "method",
        "result",
        "shown_kind",
        "shown_state",
        "resolved_at",
        "calls",
        "first_seen_at",
        "last_seen_at",
        "shown_message",
        "shown_traceback",
    )
    readonly_fields = fields

    @admin.display(description=_("exception"), ordering="error")
    def what(self, error: ErrorGroup) -> str:
        """Return the class of the exception, or what else failed."""
        return escape_invisible(error.error, 200) or self.shown_kind(error)

    @admin.display(description=_("kind"), ordering="kind")
    def shown_kind(self, error: ErrorGroup) -> str:
        label = KIND_LABELS.get(error.kind)
        if label is not None:
            return str(label)
        return _t("refused with %(code)s") % {"code": error.kind} if error.kind else "-"

    @admin.display(description=_("name"), ordering="name")
    def entry(self, error: ErrorGroup) -> str:
        return format_html("<bdi>{}</bdi>", escape_invisible(error.name, 200) or _t("unknown"))

    @admin.display(description=_("outcome"), ordering="outcome")
    def result(self, error: ErrorGroup) -> str:
        """Return the outcome, with a class to colour it by."""
        return format_html(
            '<span class="mcp-outcome mcp-{}">{}</span>', error.outcome, error.get_outcome_display()
        )

    @admin.display(description=_("calls"))
    def calls_in_span(self, error: Any) -> str:
        return show_number(error.figures.calls)

    @admin.display(description=_("trend"))
    def trend(self, error: Any) -> str:
        return show_trend(error.figures.line, len(error.figures.points) - 1)

    @admin.display(description=_("users"))
    def users(self, error: Any) -> str:
        return show_number(error.affected.users)

    @admin.display(description=_("clients"))
    def clients(self, error: Any) -> str:
        return show_number(error.affected.clients)

    @admin.display(description=_("state"))
    def shown_state(self, error: ErrorGroup) -> str:
        return str(error.state.label)

    @admin.display(description=_("message"))
    def shown_message(self, error: ErrorGroup) -> str:
        return _pre(error.message)

    @admin.display(description=_("traceback"))
    def shown_traceback(self, error: ErrorGroup) -> str:
        return _pre(error.traceback)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns; what calls tell is for who may see them."""
        shown = super().get_list_display(request)
        if not _sees_calls(request):
            shown = [name for name in shown if name not in ("users", "clients")]
        return shown

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request.user, "delete", self.model if obj is None else obj)

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may resolve errors, or perhaps single ones; for actions."""
        return may_any(request.user, "resolve", ErrorGroup)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return Django's list, whose rows have their `figures` and whom they have `affected`."""
        from django_mcp.admin.error_figures import find_affected, find_figures

        changelist = super().get_changelist_instance(request)
        (span,) = (each.value() for each in changelist.filter_specs if isinstance(each, SpanFilter))
        rows: list[Any] = list(changelist.result_list)
        figures = find_figures(span, [row.pk for row in rows])
        sees_calls = _sees_calls(request)
        for row in rows:
            row.figures = figures[row.pk]
            row.affected = find_affected(span, row.pk) if sees_calls else None
        changelist.result_list = rows
        return changelist

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, and which outcomes are errors."""
        from django_mcp.admin.error_figures import NEWEST
        from django_mcp.admin.reports import name_errors

        extra = {
            "is_recording": bool(settings.RECORD_CALLS),
            "errors": name_errors(),
            "newest": NEWEST if _sees_calls(request) else 0,
            **(extra_context or {}),
        }
        return super().changelist_view(request, extra)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(require_POST(self.resolve_view))
        name = "django_mcp_errorgroup_resolve"
        return [path("<str:key>/resolve/", view, name=name), *super().get_urls()]

    def resolve_view(self, request: HttpRequest, key: str) -> HttpResponse:
        """Resolve an error, or open it again."""
        found = self.get_queryset(request).filter(pk=key)
        error = found.first()
        if error is None or not self.has_view_permission(request, error):
            self.message_user(request, _("It no longer exists."), messages.WARNING)
            return HttpResponseRedirect(self.url_of("errorgroup_changelist"))
        if not may(request.user, "resolve", error):
            raise PermissionDenied
        to = request.POST.get("to")
        if to not in ("resolved", "open"):
            return HttpResponseBadRequest()
        self._set(request, found, is_resolved=to == "resolved")
        return HttpResponseRedirect(self._url_of(error.pk))

    @admin.action(description=_("Resolve the selected errors"), permissions=["resolve"])
    def resolve_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, only_visible(request.user, queryset, "resolve"), is_resolved=True)

    @admin.action(description=_("Open the selected errors again"), permissions=["resolve"])
    def reopen_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, only_visible(request.user, queryset, "resolve"), is_resolved=False)

    def _set(self, request: HttpRequest, errors: QuerySet[Any], *, is_resolved: bool) -> None:
        chosen = list(errors)
        # What failed before this moment, and is not written yet, is no new case.
        ErrorGroup.objects.filter(pk__in=[error.pk for error in chosen]).update(
            resolved_at=timezone.now() if is_resolved else None
        )
        text = _t("Resolved.") if is_resolved else _t("Opened again.")
        note_actions(request, ErrorGroup, *((str(error), text, error.pk) for error in chosen))
        count = len(chosen)
        done = (
            ngettext("%d error was resolved.", "%d errors were resolved.", count)
            if is_resolved
            else ngettext("%d error is open again.", "%d errors are open again.", count)
        )
        self.message_user(request, done % count)

    def _url_of(self, key: str, page: str = "change") -> str:
        name = f"{self.admin_site.name}:django_mcp_errorgroup_{page}"
        return reverse(name, args=[key])

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        return [
            *self.link_entry(request, row.server, row.method, row.name),
            *self.link(request, _("Calls with this error"), "callrecord", fingerprint=row.pk),
        ]

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> Any:
        from django_mcp.admin.error_figures import find_figures, find_report

        error = kwargs.get("obj")
        more: dict[str, Any] = {}
        if error is not None:
            figures = find_figures("week", [error.pk])[error.pk]
            more = {
                "trend": show_trend(figures.line, len(figures.points) - 1),
                "week": figures.calls,
                "report": find_report(self, request, error) if _sees_calls(request) else None,
                "may_resolve": may(request.user, "resolve", error),
                "resolve_url": self._url_of(error.pk, "resolve"),
                "is_done": error.state == ErrorGroup.State.RESOLVED,
            }
        return super().render_change_form(request, {**context, **more}, *args, **kwargs)


def _sees_calls(request: HttpRequest) -> bool:
    return request.user.has_perm("django_mcp.view_callrecord")


def _pre(text: str) -> str:
    if not text:
        return "-"
    return format_html('<pre class="mcp-code" tabindex="0">{}</pre>', escape_invisible(text))


def show_trend(line: str, width: int) -> str:
    """Return the picture of a line whose points are 1 apart."""
    return format_html(
        '<svg class="mcp-spark" viewBox="0 0 {} 20" preserveAspectRatio="none" aria-hidden="true" '
        'focusable="false"><polyline points="{}"/></svg>',
        max(width, 1),
        line,
    )
