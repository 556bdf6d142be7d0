"""The record of calls in the admin: a list that is fast with millions of rows, and charts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
)
from django.urls import path
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.timezone import is_aware, localtime
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_mcp.admin.base import note_actions, require_permissions
from django_mcp.admin.lists import (
    BY_USERNAME,
    ClientFilter,
    NameFilter,
    NewestList,
    ReadOnlyList,
    RevisionFilter,
    ServerFilter,
    UserFilter,
)
from django_mcp.admin.texts import code, escape_invisible
from django_mcp.calls.sizes import to_tokens
from django_mcp.conf import settings
from django_mcp.models import CallRecord, ErrorGroup, Session
from django_mcp.protocol.json import JSONDecodeError, decode

if TYPE_CHECKING:
    from django_mcp.admin.figures import Part

_IDENTIFIERS = re.compile(r"(?P<session>[0-9a-f]{32})|[0-9a-f]{12}")
"""The key of a session or an error reference."""

MAY_EXPORT = "django_mcp.export_callrecord"


def _show_ms(value: float | None) -> str:
    return "-" if value is None else f"{number_format(round(value, 1), 1, force_grouping=True)} ms"


class CallRecordAdmin(ReadOnlyList):
    """The list of calls, which nobody edits."""

    list_display = (
        "at",
        "name",
        "method",
        "result",
        "duration",
        "size",
        "user",
        "client_name",
        "revision",
        "reference",
    )
    list_filter = (
        "started_at",
        "outcome",
        "method",
        NameFilter,
        ServerFilter,
        RevisionFilter,
        ClientFilter,
        UserFilter,
    )
    search_fields = (
        "name",
        "client_name",
        "principal",
        BY_USERNAME,
    )
    search_help_text = _(
        "A part of a name, a client, a user or a principal, or an error reference or a session."
    )
    date_hierarchy = "started_at"
    found_by = ("fingerprint",)
    ordering = ("-started_at", "-id")
    fields = (
        "at",
        "duration",
        "queue",
        "in_handler",
        "in_database",
        "queries",
        "server",
        "method",
        "name",
        "shown_arguments",
        "coerced",
        "faulty",
        "varied",
        "result",
        "size",
        "result_bytes",
        "is_cut",
        "error",
        "reference",
        "shown_user",
        "principal",
        "session",
        "revision",
        "client_name",
        "client_version",
    )
    readonly_fields = fields

    @admin.display(description=_("started at"), ordering="started_at")
    def at(self, call: CallRecord) -> str:
        """Return the time, to the second, in the site's zone."""
        moment = localtime(call.started_at) if is_aware(call.started_at) else call.started_at
        return f"{date_format(moment, 'DATE_FORMAT')} {moment:%H:%M:%S}"

    @admin.display(description=_("outcome"), ordering="outcome")
    def result(self, call: CallRecord) -> str:
        """Return the outcome, with a class to colour it by."""
        return format_html(
            '<span class="mcp-outcome mcp-{}">{}</span>', call.outcome, call.get_outcome_display()
        )

    @admin.display(description=_("arguments"))
    def shown_arguments(self, call: CallRecord) -> str:
        try:
            return code(decode(call.arguments.encode())) if call.arguments else "-"
        except JSONDecodeError:
            return escape_invisible(call.arguments)

    def overview(self, request: HttpRequest) -> Part | None:
        from django_mcp.admin.overview import tell_calls

        return tell_calls(self, request) if self.sees_all(request) else None

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        from django_mcp.admin.connect import kept_arguments

        html = self.link_entry(request, row.server, row.method, row.name)
        if html and kept_arguments(row) is not None:
            html.append((_("Run it again"), f"{html[0][1]}&call={row.pk}"))
        # It may be over, but its calls are here.
        if row.session and Session.objects.filter(pk=row.session).exists():
            html += self.link(request, _("Session"), "session", row.session)
        if row.fingerprint and ErrorGroup.objects.filter(pk=row.fingerprint).exists():
            html += self.link(request, _("Error"), "errorgroup", row.fingerprint)
        same = {"server": row.server, "name": row.name}
        for value, title, query in (
            (row.session, _("Calls of this session"), {"session": row.session}),
            (row.client_name, _("Calls of this client"), {"client": row.client_name}),
            (row.error, _("Calls with this error"), {"error": row.error, **same}),
        ):
            if value:
                html += self.link(request, title, "callrecord", **query)
        return html

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> Any:
        from django_mcp.admin.connect import call_as_texts

        obj = kwargs.get("obj")
        more = {"copies": [] if obj is None else call_as_texts(request, obj)}
        return super().render_change_form(request, {**context, **more}, *args, **kwargs)

    @admin.display(description=_("duration"), ordering="duration_ms")
    def duration(self, call: CallRecord) -> str:
        return _show_ms(call.duration_ms)

    @admin.display(description=_("waited for a thread"), ordering="queue_ms")
    def queue(self, call: CallRecord) -> str:
        return _show_ms(call.queue_ms)

    @admin.display(description=_("in the handler"), ordering="handler_ms")
    def in_handler(self, call: CallRecord) -> str:
        """Return the time with the conversion of the result."""
        return _show_ms(call.handler_ms)

    @admin.display(description=_("in the database"), ordering="database_ms")
    def in_database(self, call: CallRecord) -> str:
        """Return the part of the time in the handler, if the queries were counted."""
        return _show_ms(call.database_ms)

    @admin.display(description=_("result (tokens)"), ordering="result_chars")
    def size(self, call: CallRecord) -> str | None:
        """Return about how many tokens a model read of the result of a tool."""
        if not call.result_chars:
            return None
        return str(number_format(to_tokens(call.result_chars), force_grouping=True))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestList]:
        return NewestList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Search for a reference or a session by its index, and for other terms in the newest."""
        exact = _IDENTIFIERS.fullmatch(search_term.strip())
        if exact is None:
            return super().get_search_results(request, queryset, search_term)
        field = "session" if exact["session"] else "reference"
        return queryset.filter(**{field: exact[0]}), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, with a message if calls are not recorded."""
        extra = {"is_recording": bool(settings.RECORD_CALLS), **(extra_context or {})}
        if request.user.has_perm(MAY_EXPORT):
            extra["export_url"] = f"{self.url_of('calls_export')}?{request.GET.urlencode()}"
        return super().changelist_view(request, extra)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("running/", view(self.running_view), name="django_mcp_running"),
            path(
                "running/cancel/",
                view(require_POST(self.cancel_view)),
                name="django_mcp_running_cancel",
            ),
            path("slow/", view(self.slow_view), name="django_mcp_slow"),
            path("mistakes/", view(self.mistakes_view), name="django_mcp_mistakes"),
            path("export/", view(self.export_view), name="django_mcp_calls_export"),
            path("charts/", view(self.charts_view), name="django_mcp_charts"),
            path("charts/data/", view(self.data_view), name="django_mcp_charts_data"),
            *super().get_urls(),
        ]

    def running_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.running import running_view

        return running_view(self, request)

    def cancel_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.running import cancel_view

        return cancel_view(self, request)

    def slow_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.slow import slow_view

        return slow_view(self, request)

    def mistakes_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.mistakes import mistakes_view

        return mistakes_view(self, request)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return the calls that the list is asked for as CSV, also those that it leaves out."""
        from django_mcp.admin.reports import export

        if not self.has_view_permission(request) or not request.user.has_perm(MAY_EXPORT):
            raise PermissionDenied
        try:
            calls = self.get_changelist_instance(request).all_rows
        except IncorrectLookupParameters:
            return HttpResponseRedirect(self.url_of("callrecord_changelist"))
        name = str(CallRecord._meta.verbose_name_plural)
        note_actions(request, CallRecord, (name, _t("Exported."), None))
        return export(request, calls)

    def charts_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.reports import name_errors
        from django_mcp.calls.tally import ERRORS

        require_permissions(request, "view_callrecord")
        return self.show(
            request,
            "charts.html",
            _("Charts"),
            data_url=self.url_of("charts_data"),
            calls_url=self.url_of("callrecord_changelist"),
            failures=",".join(sorted(ERRORS)),
            errors=name_errors(),
            # That of the lists.
            zone=timezone.get_current_timezone_name(),
            rate=settings.RECORD_CALLS,
            percent=round(settings.RECORD_CALLS * 100, 1),
        )

    def data_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.reports import SPANS, find_summary, label_methods

        require_permissions(request, "view_callrecord")
        key, name = request.GET.get("span", "hour"), request.GET.get("name", "")[:200]
        if key not in SPANS:
            return JsonResponse({"error": "no such span"}, status=400)
        return JsonResponse(
            label_methods(find_summary(key, name)), headers={"Cache-Control": "no-store"}
        )
