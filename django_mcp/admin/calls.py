"""The record of calls in the admin: a list that is fast with millions of rows, and charts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.charts import SPANS, label_methods, summarise
from django_mcp.admin.filters import NameFilter, RevisionFilter, ServerFilter
from django_mcp.admin.lists import BY_USERNAME, ReadOnlyList
from django_mcp.admin.pages import needs
from django_mcp.admin.paging import EstimatingPaginator, SpanQuerySet
from django_mcp.conf import settings
from django_mcp.models import CallRecord

if TYPE_CHECKING:
    from django.db.models import QuerySet

__all__ = ["CallRecordAdmin"]


class CallRecordAdmin(ReadOnlyList):
    """The list of calls, which nobody edits."""

    list_display = (
        "started_at",
        "name",
        "method",
        "outcome",
        "duration",
        "user",
        "client_name",
        "revision",
        "reference",
    )
    list_filter = ("started_at", "outcome", "method", NameFilter, ServerFilter, RevisionFilter)
    list_per_page = 50
    search_fields = ("name__startswith", "reference__exact", "principal__startswith", BY_USERNAME)
    search_help_text = _("The start of a name, a user or a principal, or an error reference.")
    date_hierarchy = "started_at"
    ordering = ("-started_at", "-id")
    paginator = EstimatingPaginator
    fields = (
        "started_at",
        "duration",
        "server",
        "method",
        "name",
        "arguments",
        "outcome",
        "reference",
        "user",
        "principal",
        "revision",
        "client_name",
        "client_version",
    )
    readonly_fields = fields

    @admin.display(description=_("duration"), ordering="duration_ms")
    def duration(self, call: CallRecord) -> str:
        """Return the duration."""
        return f"{call.duration_ms:.1f} ms"

    def get_queryset(self, request: HttpRequest) -> QuerySet[CallRecord]:
        """Return the calls, as a queryset with cheap date periods."""
        found = super().get_queryset(request)
        return SpanQuerySet(found.model, query=found.query, using=found.db)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, with a message if calls are not recorded."""
        extra = {"is_recording": bool(settings.RECORD_CALLS), **(extra_context or {})}
        return super().changelist_view(request, extra)

    # -- charts

    def get_urls(self) -> list[Any]:
        """Return Django's URLs, and those of the charts."""
        view = self.admin_site.admin_view
        return [
            path("charts/", view(self.charts_view), name="django_mcp_charts"),
            path("charts/data/", view(self.data_view), name="django_mcp_charts_data"),
            *super().get_urls(),
        ]

    def charts_view(self, request: HttpRequest) -> HttpResponse:
        """Show the charts page, which a script fills."""
        needs(request, "view_callrecord")
        return self.show(
            request,
            "charts.html",
            _("Charts"),
            data_url=self.url_of("charts_data"),
            rate=settings.RECORD_CALLS,
            percent=round(settings.RECORD_CALLS * 100, 1),
        )

    def data_view(self, request: HttpRequest) -> HttpResponse:
        """Return the data of the charts."""
        needs(request, "view_callrecord")
        key, name = request.GET.get("span", "hour"), request.GET.get("name", "")[:200]
        span = SPANS.get(key)
        if span is None:
            return JsonResponse({"error": "no such span"}, status=400)
        # A name may be too long, or have characters that some caches reject, for a key.
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
        found: Any = cache.get_or_set(
            f"django_mcp.charts.{key}.{digest}", lambda: summarise(span, name), span.fresh_s
        )
        return JsonResponse(label_methods(found), headers={"Cache-Control": "no-store"})
