"""The live page: sessions, streams and callers in all workers, and actions on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django.views.decorators.http import require_POST

from django_mcp.admin.base import without_transaction
from django_mcp.admin.lists import (
    BY_USERNAME,
    ReadOnlyList,
    RevisionFilter,
    ServerFilter,
    TransportFilter,
)
from django_mcp.admin.live_actions import DONE, OF_CALL, act, close_stream, end_sessions, note
from django_mcp.admin.permissions import may_any, only_visible
from django_mcp.admin.revoke import may_revoke_any
from django_mcp.admin.texts import code, escape_invisible
from django_mcp.conf import settings
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import Session, Stream
from django_mcp.protocol.json import encode
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django_mcp.admin.live_rows import Look, Visibility

FEED_EVERY_S = 2.0
FEED_FOR_S = 60.0
"""After this time the page reconnects, which fails if the user has lost the permission."""

MAX_DETAILS = 2000
_LISTS = ("session", "stream", "subscription")
FOUND_BY = _("The start of a client's name, a user or a principal.")


class StreamAdmin(ReadOnlyList):
    """The open streams."""

    ending = "end"
    actions = ("close_selected",)
    verbs: ClassVar[dict[str, Any]] = {"close_selected": _("Close")}
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

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        if row.session_id is None:
            return []
        return self.link(request, _("Session"), "session", row.session_id)

    def is_open(self, row: Any) -> bool:
        """Return whether it can be closed: the stream of a call ends with the call."""
        return bool(row.kind != Stream.Kind.CALL)

    @admin.action(description=_("Close the selected streams"), permissions=["end"])
    def close_selected(
        self, request: HttpRequest, queryset: QuerySet[Stream]
    ) -> HttpResponse | None:
        """Close streams; those of calls end with their calls."""
        mine = only_visible(request.user, queryset, "end")
        page = self.act_in_steps(
            request,
            mine.exclude(kind=Stream.Kind.CALL),
            _("Close the selected streams"),
            _close,
            ngettext_lazy("%d stream was closed.", "%d streams were closed."),
        )
        if page is None and mine.filter(kind=Stream.Kind.CALL).exists():
            self.message_user(request, str(OF_CALL), messages.WARNING)
        return page


def _close(request: HttpRequest, streams: list[Stream]) -> int:
    for stream in streams:
        close_stream(stream)
    note(request, str(DONE["close"]), *streams)
    return len(streams)


def _end(request: HttpRequest, sessions: list[Session]) -> int:
    end_sessions(sessions)
    note(request, str(DONE["end"]), *sessions)
    return len(sessions)


class SubscriptionAdmin(ReadOnlyList):
    """The subscriptions of sessions."""

    list_display = ("created_at", "shown_uri", "session")
    list_filter = ("created_at",)
    list_select_related = ("session",)
    search_fields = ("uri__startswith",)
    date_hierarchy = "created_at"
    fields = ("session", "shown_uri", "created_at")

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        return self.link(request, _("Session"), "session", row.session_id)

    @admin.display(description=_("URI"))
    def shown_uri(self, row: Any) -> str:
        """Return the URI, cut short."""
        return escape_invisible(row.uri, 200)


class SessionAdmin(ReadOnlyList):
    """The sessions, and the live page beside their list."""

    ending = "end"
    actions = ("end_selected",)
    verbs: ClassVar[dict[str, Any]] = {"end_selected": _("End")}
    list_display = (
        "last_seen_at",
        "client",
        "server",
        "user",
        "revision",
        "transport",
        "created_at",
    )
    list_filter = ("last_seen_at", ServerFilter, RevisionFilter, TransportFilter)
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

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        models = {
            "stream": _("Streams"),
            "subscription": _("Subscriptions"),
            "task": _("Tasks"),
            "callrecord": _("Calls"),
        }
        found = (
            self.link(request, title, name, session=row.pk.hex) for name, title in models.items()
        )
        return list(chain.from_iterable(found))

    @admin.display(description=_("client info"))
    def client_details(self, session: Session) -> str:
        """Return the client's details, with invisible characters escaped."""
        return code(session.client_info, MAX_DETAILS) if session.client_info else "-"

    @admin.display(description=_("capabilities"))
    def client_capabilities(self, session: Session) -> str:
        """Return the client's capabilities, with invisible characters escaped."""
        return code(session.capabilities, MAX_DETAILS)

    @admin.action(description=_("End the selected sessions"), permissions=["end"])
    def end_selected(
        self, request: HttpRequest, queryset: QuerySet[Session]
    ) -> HttpResponse | None:
        return self.act_in_steps(
            request,
            only_visible(request.user, queryset, "end"),
            _("End the selected sessions"),
            _end,
            ngettext_lazy("%d session was ended.", "%d sessions were ended."),
        )

    def get_urls(self) -> list[Any]:
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
            tables=self._tables(request),
            servers=all_servers(),
            lists={name: self.find_url(f"{name}_changelist") for name in _LISTS},
            is_recording=bool(settings.RECORD_CALLS),
        )

    def _tables(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the tables that the user may see, with the buttons of their rows."""
        visible, acts = _visibility(request).tables, _find_acts(request.user)
        return [
            {
                "id": name,
                "title": title,
                "columns": columns,
                "heads": [_HEADS[column] for column in columns.split()],
                "acts": " ".join(acts.get(name, ())),
                "link": self._find_row_link(request, name),
            }
            for name, title, columns in _TABLES
            if name in visible
        ]

    def _find_row_link(self, request: HttpRequest, table: str) -> str:
        """Return the URL of a table's rows with a place for the key; empty if there is none."""
        model = {"sessions": "session", "streams": "stream"}.get(table)
        found = [] if model is None else self.link(request, "", model, "ID")
        return found[0][1] if found else ""

    def data_view(self, request: HttpRequest) -> HttpResponse:
        from django_mcp.admin.live_rows import Look

        found = _visibility(request).snapshot(Look.of(request.GET.dict()))
        return JsonResponse(found, headers={"Cache-Control": "no-store"})

    def feed_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the current data repeatedly; under WSGI the page has to poll instead."""
        from django_mcp.admin.live_rows import Look

        visibility = _visibility(request)
        if not isinstance(request, ASGIRequest):
            # This status makes an EventSource stop.
            return HttpResponse(status=204)
        return StreamingHttpResponse(
            _feed(visibility, Look.of(request.GET.dict())),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _visibility(request: HttpRequest) -> Visibility:
    from django_mcp.admin.live_rows import Visibility

    visibility = Visibility.of(request.user)
    if not visibility.tables:
        raise PermissionDenied
    return visibility


async def _feed(visibility: Visibility, look: Look) -> AsyncIterator[bytes]:
    from django_mcp.admin.live_rows import changes

    last: Any = None
    for _round in range(int(FEED_FOR_S / FEED_EVERY_S)):
        found = await run_in_pool(partial(visibility.snapshot, look))
        if last is not None and found == {**last, "at": found["at"]}:
            # Keeps the connection open, and shows the page that it is.
            yield b"event: same\ndata: " + encode(found["at"]) + b"\n\n"
        else:
            yield b"data: " + encode(found if last is None else changes(last, found)) + b"\n\n"
        last = found
        await asyncio.sleep(FEED_EVERY_S)


_HEADS = {
    "client": _("Client"),
    "user": _("User"),
    "server": _("Server"),
    "revision": _("Revision"),
    "transport": _("Transport"),
    "kind": _("Kind"),
    "worker": _("Worker"),
    "name": _("Worker"),
    "since": _("Since"),
    "calls": _("Calls"),
    "seen": _("Last seen"),
    "running": _("Requests in flight"),
    "queued": _("Queued"),
    "resources": _("Resources"),
    "threads": _("Busy threads"),
}
_TABLES = (
    ("sessions", _("Sessions"), "client user server revision transport since seen running"),
    (
        "streams",
        _("Open streams"),
        "client user server revision kind worker since queued resources",
    ),
    (
        "callers",
        _("Callers of the last 15 minutes"),
        "client user server revision calls seen running",
    ),
    ("workers", _("Workers"), "name since running threads"),
)
"""The tables of the page: key of the data, title, and the columns."""


def _find_acts(user: Any) -> dict[str, list[str]]:
    """Return the buttons for the rows of each table."""
    may_revoke = may_revoke_any(user)
    on_sessions = ["end", "revoke"] if may_revoke else ["end"]
    on_streams = (
        ["close", "revoke_and_close", "ping", "log"] if may_revoke else ["close", "ping", "log"]
    )
    return {
        "sessions": on_sessions if may_any(user, "end", Session) else [],
        "streams": on_streams if may_any(user, "end", Stream) else [],
    }
