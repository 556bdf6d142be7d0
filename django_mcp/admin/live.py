"""The live page: sessions, streams and callers in all workers, and actions on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django.views.decorators.http import require_POST

from django_mcp.admin.base import without_transaction
from django_mcp.admin.lists import (
    BY_USERNAME,
    QUIET,
    ReadOnlyList,
    RevisionFilter,
    ServerFilter,
    TransportFilter,
    open_streams,
)
from django_mcp.admin.live_actions import DONE, OF_CALL, act, close_stream, end_sessions, note
from django_mcp.admin.permissions import may_any, only_visible
from django_mcp.admin.texts import code, escape_invisible
from django_mcp.conf import settings
from django_mcp.execution.threads import run_in_pool
from django_mcp.extension_packages import load_parts
from django_mcp.models import APIKey, Session, Stream
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django_mcp.admin.figures import Part

FEED_EVERY_S = 2.0
FEED_FOR_S = 60.0
"""After this time the page reconnects, which fails if the user has lost the permission."""

MAX_DETAILS = 2000
FOUND_BY = _("A part of the name of a client, a user or a principal.")


class StreamAdmin(ReadOnlyList):
    """The open streams."""

    ending = "end"
    actions = ("close_selected",)
    verbs: ClassVar[dict[str, Any]] = {"close_selected": _("Close")}
    list_display = ("opened_at", "kind", "server", "user", "client", "revision", "worker")
    list_filter = ("kind", ServerFilter, "opened_at")
    list_select_related = ("user", "worker")
    search_fields = ("client_name", "principal_key", BY_USERNAME)
    search_help_text = FOUND_BY
    date_hierarchy = "opened_at"
    found_by = ("session",)
    fields = (
        "kind",
        "client",
        "server",
        "shown_user",
        "principal",
        "revision",
        "shown_session",
        "worker",
        "opened_at",
        "lists",
        "uri_count",
        "queued_events",
    )

    def overview(self, request: HttpRequest) -> Part | None:
        from django_mcp.admin.overview import tell_streams

        return tell_streams(self, request)

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
    search_fields = ("uri",)
    date_hierarchy = "created_at"
    fields = ("shown_session", "shown_uri", "created_at")

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        return self.link(request, _("Session"), "session", row.session_id)

    @admin.display(description=_("URI"))
    def shown_uri(self, row: Any) -> str:
        return escape_invisible(row.uri, 200)


class SessionAdmin(ReadOnlyList):
    """The sessions, and the live page beside their list."""

    ending = "end"
    actions = ("end_selected",)
    verbs: ClassVar[dict[str, Any]] = {"end_selected": _("End")}
    list_display = (
        "last_seen_at",
        "client",
        "connection",
        "server",
        "user",
        "revision",
        "transport",
        "created_at",
    )
    list_filter = ("last_seen_at", ServerFilter, RevisionFilter, TransportFilter)
    search_fields = ("client_name", "principal_key", BY_USERNAME)
    search_help_text = FOUND_BY
    date_hierarchy = "last_seen_at"
    fields = (
        "client",
        "connection",
        "client_details",
        "client_capabilities",
        "server",
        "shown_user",
        "principal",
        "revision",
        "transport",
        "is_initialized",
        "log_level",
        "created_at",
        "last_seen_at",
        "expires_at",
    )

    def overview(self, request: HttpRequest) -> Part | None:
        from django_mcp.admin.overview import tell_sessions

        return tell_sessions(self, request)

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        models = {
            "stream": _("Streams"),
            "subscription": _("Subscriptions"),
            **{
                name: title
                for part in load_parts("admin")
                for name, title in part.OF_SESSION.items()
            },
            "callrecord": _("Calls"),
        }
        html = []
        for name, title in models.items():
            html += self.link(request, title, name, session=row.pk.hex)
        return html

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Return the sessions with whether a worker has a stream of theirs open."""
        streams = open_streams(OuterRef("pk"), timezone.now())
        sessions: QuerySet[Session] = super().get_queryset(request)
        return sessions.annotate(has_stream=Exists(streams))

    @admin.display(description=_("connection"))
    def connection(self, session: Any) -> str:
        """Return whether the client is connected; one that only sends requests is seen by these."""
        if session.has_stream:
            return str(_("a stream is open"))
        is_quiet = session.last_seen_at < timezone.now() - QUIET
        return str(_("none: the client may be gone") if is_quiet else _("seen just now"))

    @admin.display(description=_("client info"))
    def client_details(self, session: Session) -> str:
        return code(session.client_info, MAX_DETAILS) if session.client_info else "-"

    @admin.display(description=_("capabilities"))
    def client_capabilities(self, session: Session) -> str:
        return code(session.capabilities, MAX_DETAILS)

    @admin.action(description=_("End the selected sessions"), permissions=["end"])
    def end_selected(
        self, request: HttpRequest, queryset: QuerySet[Session]
    ) -> HttpResponse | None:
        return self.act_in_steps(
            request,
            only_visible(request.user, queryset, "end"),
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
        return self.show(
            request,
            "live.html",
            _("Live"),
            data_url=self.url_of("live_data"),
            feed_url=self.url_of("live_feed"),
            act_url=self.url_of("live_act"),
            viewer=request.user.pk,
            tables=self._tables(request),
            servers=all_servers(),
            subscriptions=self.link(request, _("Subscriptions"), "subscription"),
            is_recording=bool(settings.RECORD_CALLS),
        )

    def _tables(self, request: HttpRequest) -> list[dict[str, Any]]:
        from django_mcp.admin.live_rows import find_tables

        user, visible, tables = request.user, find_tables(request.user), []
        may_revoke = may_any(user, "change", APIKey)
        for name, title, columns, model, acts in _TABLES:
            if name not in visible:
                continue
            may_end = model is not None and may_any(user, "end", model)
            allowed = [act for act in acts if may_revoke or not act.startswith("revoke")]
            # With a place for the key.
            links = [] if model is None else self.link(request, "", name.removesuffix("s"), "ID")
            table = {
                "id": name,
                "title": title,
                "columns": columns,
                "heads": [_HEADS[column] for column in columns.split()],
                "acts": " ".join(allowed) if may_end else "",
                "link": links[0][1] if links else "",
            }
            tables.append(table)
        return tables

    def data_view(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse(_looker(request)(), headers={"Cache-Control": "no-store"})

    def feed_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the current data repeatedly; under WSGI the page has to poll instead."""
        look = _looker(request)
        if not isinstance(request, ASGIRequest):
            # This status makes an EventSource stop.
            return HttpResponse(status=204)
        return StreamingHttpResponse(
            _feed(look),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _looker(request: HttpRequest) -> Callable[[], JSONObject]:
    """Return a function that returns the data that a request asks for."""
    from django_mcp.admin.live_rows import LiveFilter, find_tables, snapshot

    return partial(
        snapshot, request.user, find_tables(request.user), LiveFilter.of(request.GET.dict())
    )


async def _feed(look: Callable[[], JSONObject]) -> AsyncIterator[bytes]:
    from django_mcp.admin.live_rows import changes

    last: Any = None
    for _round in range(int(FEED_FOR_S / FEED_EVERY_S)):
        snapshot = await run_in_pool(look)
        if last is not None and snapshot == {**last, "at": snapshot["at"]}:
            # Keeps the connection open, and shows the page that it is.
            yield b"event: same\ndata: " + encode(snapshot["at"]) + b"\n\n"
        else:
            yield (
                b"data: " + encode(snapshot if last is None else changes(last, snapshot)) + b"\n\n"
            )
        last = snapshot
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
_TABLES: tuple[tuple[str, Any, str, type[Model] | None, tuple[str, ...]], ...] = (
    (
        "sessions",
        _("Sessions"),
        "client user server revision transport since seen running",
        Session,
        ("end", "revoke"),
    ),
    (
        "streams",
        _("Open streams"),
        "client user server revision kind worker since queued resources",
        Stream,
        ("close", "revoke_and_close", "ping", "log"),
    ),
    (
        "callers",
        _("Callers of the last 15 minutes"),
        "client user server revision calls seen running",
        None,
        (),
    ),
    ("workers", _("Workers"), "name since running threads", None, ()),
)
"""The tables of the page: key of the data, title, columns, and the model and the buttons of its rows."""
