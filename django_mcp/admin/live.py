"""The live page: sessions, streams and callers in all workers, and actions on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from django_mcp.admin.closing import close_stream, end_session, note
from django_mcp.admin.filters import RevisionFilter, ServerFilter
from django_mcp.admin.lists import BY_USERNAME, ReadOnlyList
from django_mcp.admin.live_actions import DONE, OF_CALL, act
from django_mcp.admin.live_rows import Visibility
from django_mcp.admin.pages import without_transaction
from django_mcp.admin.permissions import has_object_backend, may
from django_mcp.admin.revoke import may_revoke_any
from django_mcp.admin.texts import inert, pretty
from django_mcp.conf import settings
from django_mcp.handlers.threads import run_in_pool
from django_mcp.models import Session, Stream
from django_mcp.protocol.json import encode

__all__ = ["SessionAdmin", "StreamAdmin", "SubscriptionAdmin"]

FEED_EVERY_S = 2.0
FEED_FOR_S = 60.0
"""After this time the page reconnects, which fails if the user has lost the permission."""

MAX_DETAILS = 2000
FOUND_BY = _("The start of a client's name, a user or a principal.")


class StreamAdmin(ReadOnlyList):
    """The open streams."""

    ending = "end"
    actions = ("close_selected",)
    list_display = ("opened_at", "kind", "server", "user", "client", "revision", "worker")
    list_filter = ("kind", ServerFilter, "opened_at")
    list_select_related = ("user", "worker")
    search_fields = ("client_name__startswith", "principal_key__startswith", BY_USERNAME)
    search_help_text = FOUND_BY
    date_hierarchy = "opened_at"
    fields = (
        "kind",
        "client",
        "server",
        "user",
        "principal",
        "revision",
        "session",
        "worker",
        "opened_at",
        "lists",
        "uri_count",
        "queued_events",
    )

    @admin.action(description=_("Close the selected streams"), permissions=["end"])
    def close_selected(self, request: HttpRequest, queryset: QuerySet[Stream]) -> None:
        """Close streams; those of calls end with their calls."""
        closed = left = 0
        for stream in queryset:
            if not may(request.user, "end", stream):
                continue
            if close_stream(stream):
                closed += 1
                note(request, stream, str(DONE["close"]))
            else:
                left += 1
        self.message_user(
            request,
            ngettext("%d stream was closed.", "%d streams were closed.", closed) % closed,
        )
        if left:
            self.message_user(request, str(OF_CALL), messages.WARNING)


class SubscriptionAdmin(ReadOnlyList):
    """The subscriptions of sessions."""

    list_display = ("created_at", "shown_uri", "session")
    list_filter = ("created_at",)
    list_select_related = ("session",)
    search_fields = ("uri__startswith",)
    date_hierarchy = "created_at"
    fields = ("session", "shown_uri", "created_at")

    @admin.display(description=_("URI"))
    def shown_uri(self, row: Any) -> str:
        """Return the URI, cut short."""
        return inert(row.uri, 200)


class SessionAdmin(ReadOnlyList):
    """The sessions, and the live page beside their list."""

    ending = "end"
    actions = ("end_selected",)
    list_display = (
        "last_seen_at",
        "client",
        "server",
        "user",
        "revision",
        "transport",
        "created_at",
    )
    list_filter = ("last_seen_at", ServerFilter, RevisionFilter, "transport")
    search_fields = ("client_name__startswith", "principal_key__startswith", BY_USERNAME)
    search_help_text = FOUND_BY
    date_hierarchy = "last_seen_at"
    fields = (
        "client",
        "client_details",
        "client_capabilities",
        "server",
        "user",
        "principal",
        "revision",
        "transport",
        "is_initialized",
        "log_level",
        "created_at",
        "last_seen_at",
        "expires_at",
    )

    @admin.display(description=_("client info"))
    def client_details(self, session: Session) -> str:
        """Return the client's details, with invisible characters escaped."""
        return pretty(session.client_info, MAX_DETAILS) if session.client_info else "-"

    @admin.display(description=_("capabilities"))
    def client_capabilities(self, session: Session) -> str:
        """Return the client's capabilities, with invisible characters escaped."""
        return pretty(session.capabilities, MAX_DETAILS)

    @admin.action(description=_("End the selected sessions"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """End sessions, with their calls and streams."""
        count = 0
        for session in queryset:
            if may(request.user, "end", session):
                end_session(session)
                count += 1
                note(request, session, str(DONE["end"]))
        self.message_user(
            request, ngettext("%d session was ended.", "%d sessions were ended.", count) % count
        )

    def get_urls(self) -> list[Any]:
        """Return Django's URLs, and those of the live page."""
        view = self.admin_site.admin_view
        return [
            path("live/", view(self.live_view), name="django_mcp_live"),
            path("live/data/", view(self.data_view), name="django_mcp_live_data"),
            path("live/feed/", view(self.feed_view), name="django_mcp_live_feed"),
            path(
                "live/act/",
                view(without_transaction(require_POST(act))),
                name="django_mcp_live_act",
            ),
            *super().get_urls(),
        ]

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Show the page, which a script fills."""
        return self.show(
            request,
            "live.html",
            _("Live"),
            data_url=self.url_of("live_data"),
            feed_url=self.url_of("live_feed"),
            act_url=self.url_of("live_act"),
            tables=_tables(_visibility(request)),
            is_recording=bool(settings.RECORD_CALLS),
        )

    def data_view(self, request: HttpRequest) -> HttpResponse:
        """Return the current data."""
        found = _visibility(request).snapshot()
        return JsonResponse(found, headers={"Cache-Control": "no-store"})

    def feed_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the current data repeatedly; under WSGI the page has to poll instead."""
        visibility = _visibility(request)
        if not isinstance(request, ASGIRequest):
            # This status makes an EventSource stop.
            return HttpResponse(status=204)
        return StreamingHttpResponse(
            _feed(visibility),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _visibility(request: HttpRequest) -> Visibility:
    visibility = Visibility.of(request.user)
    if not visibility.tables:
        raise PermissionDenied
    return visibility


async def _feed(visibility: Visibility) -> AsyncIterator[bytes]:
    last = b""
    for _round in range(int(FEED_FOR_S / FEED_EVERY_S)):
        found = await run_in_pool(visibility.snapshot)
        encoded = encode({**found, "at": 0})
        if encoded == last:
            # Keeps the connection open, and shows the page that it is.
            yield b"event: same\ndata: " + encode(found["at"]) + b"\n\n"
        else:
            yield b"data: " + encode(found) + b"\n\n"
        last = encoded
        await asyncio.sleep(FEED_EVERY_S)


def _tables(visibility: Visibility) -> list[dict[str, Any]]:
    """Return the tables of the page: keys of the data, their titles, and the buttons."""
    caller = {
        "client": _("Client"),
        "user": _("User"),
        "server": _("Server"),
        "revision": _("Revision"),
    }
    since, seen, worker = _("Since"), _("Last seen"), _("Worker")
    running = {"running": _("Requests in flight")}
    parts: tuple[tuple[str, Any, dict[str, Any], list[str]], ...] = (
        (
            "streams",
            _("Open streams"),
            {**caller, "kind": _("Kind"), "worker": worker, "since": since}
            | {"queued": _("Queued"), "resources": _("Resources")},
            _stream_acts(visibility.user),
        ),
        (
            "sessions",
            _("Sessions"),
            {**caller, "transport": _("Transport"), "since": since, "seen": seen, **running},
            _session_acts(visibility.user),
        ),
        (
            "callers",
            _("Callers of the last 15 minutes"),
            {**caller, "calls": _("Calls"), "seen": seen, **running},
            [],
        ),
        (
            "workers",
            _("Workers"),
            {"name": worker, "since": since, **running, "threads": _("Busy threads")},
            [],
        ),
    )
    return [
        {
            "id": name,
            "title": title,
            "columns": " ".join(columns),
            "heads": list(columns.values()),
            "acts": " ".join(acts),
        }
        for name, title, columns, acts in parts
        if name in visibility.tables
    ]


def _stream_acts(user: Any) -> list[str]:
    if not _may_end_any(user, Stream):
        return []
    revoking = ["cut"] if may_revoke_any(user) else []
    return ["close", *revoking, "ping", "log"]


def _session_acts(user: Any) -> list[str]:
    if not _may_end_any(user, Session):
        return []
    return ["end", "revoke"] if may_revoke_any(user) else ["end"]


def _may_end_any(user: Any, model: type[Model]) -> bool:
    return may(user, "end", model) or has_object_backend()
