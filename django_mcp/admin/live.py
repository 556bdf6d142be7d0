"""The live page: sessions, streams and callers on all workers, and what can be done to them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.core.handlers.asgi import ASGIRequest
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_mcp.admin.history import note_action
from django_mcp.admin.now import snapshot
from django_mcp.admin.pages import Page, needs
from django_mcp.admin.revoking import revoke
from django_mcp.admin.texts import inert
from django_mcp.handlers.threads import run_in_pool
from django_mcp.models import Session, Stream
from django_mcp.protocol.json import encode
from django_mcp.servers import MCPServer, all_servers

__all__ = ["SessionAdmin", "StreamAdmin", "SubscriptionAdmin"]

FEED_EVERY_S = 2.0
FEED_FOR_S = 60.0
"""Then the page connects again, and whoever may not any more is told so."""

MAX_LOG_LENGTH = 2000
PING_LIMIT_S = 5.0


class _ReadOnly(Page):
    """A list of what the server writes: nobody adds or edits its rows."""

    actions = None
    show_full_result_count = False
    list_select_related: ClassVar[Any] = ("user",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds any."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits any."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """They are ended on the live page, where that also reaches the worker."""
        return False


class StreamAdmin(_ReadOnly):
    """The open streams, all of them."""

    list_display = ("opened_at", "kind", "server", "user", "client_name", "revision", "worker")
    list_filter = ("kind", "opened_at")
    list_select_related = ("user", "worker")
    search_fields = ("client_name__startswith", "principal_key__startswith")
    date_hierarchy = "opened_at"


class SubscriptionAdmin(_ReadOnly):
    """What sessions want to hear of."""

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


class SessionAdmin(_ReadOnly):
    """The sessions, and the live page beside their list."""

    list_display = (
        "last_seen_at",
        "client_name",
        "client_version",
        "server",
        "user",
        "revision",
        "transport",
        "created_at",
    )
    list_filter = ("last_seen_at", "revision", "transport")
    search_fields = ("client_name__startswith", "principal_key__startswith")
    date_hierarchy = "last_seen_at"
    exclude = ("digest",)

    def get_urls(self) -> list[Any]:
        """Return Django's, and those of the live page."""
        view = self.admin_site.admin_view
        return [
            path("live/", view(self.live_view), name="django_mcp_live"),
            path("live/data/", view(self.data_view), name="django_mcp_live_data"),
            path("live/feed/", view(self.feed_view), name="django_mcp_live_feed"),
            path("live/act/", view(require_POST(self.act_view)), name="django_mcp_live_act"),
            *super().get_urls(),
        ]

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Show the page; a script fills it."""
        needs(request, "view_session", "view_stream")
        return self.show(
            request,
            "live.html",
            _("Live"),
            data_url=self.url_of("live_data"),
            feed_url=self.url_of("live_feed"),
            act_url=self.url_of("live_act"),
            tables=_tables(
                may_end=request.user.has_perm("django_mcp.delete_session"),
                may_revoke=request.user.has_perm("django_mcp.change_apikey"),
                may_close=request.user.has_perm("django_mcp.delete_stream"),
            ),
        )

    def data_view(self, request: HttpRequest) -> HttpResponse:
        """Return what there is now."""
        needs(request, "view_session", "view_stream")
        return JsonResponse(snapshot(), headers={"Cache-Control": "no-store"})

    def feed_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return what there is now, again and again; under WSGI the page has to ask instead."""
        needs(request, "view_session", "view_stream")
        if not isinstance(request, ASGIRequest):
            # The status that has an EventSource give up.
            return HttpResponse(status=204)
        return StreamingHttpResponse(
            _feed(),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    # -- actions

    def act_view(self, request: HttpRequest) -> HttpResponse:
        """Do something to a session or a stream; one that is gone is no error."""
        act, pk = request.POST.get("act", ""), _to_uuid(request.POST.get("id", ""))
        if pk is None or act not in _DONE:
            return JsonResponse({"error": "no such action"}, status=400)
        if act in ("end", "revoke"):
            needs(request, "view_session", "delete_session")
            return self._end(request, act, pk)
        needs(request, "view_stream", "delete_stream")
        stream = Stream.objects.filter(pk=pk).first()
        if stream is None:
            return _gone()
        server, name = _find_server(stream.server), str(stream)
        if act == "close":
            # What the worker finds even if the word to it is lost.
            stream.delete()
            if server is not None:
                async_to_sync(server.aclose_stream)(pk.hex)
            told = str(_DONE[act])
        elif server is None or stream.session_id is None:
            return _refuse(_t("A stream without a session can only be closed."))
        elif act == "ping":
            told = _ping(server, stream.session_id.hex)
        else:
            text = request.POST.get("text", "")[:MAX_LOG_LENGTH]
            if not text:
                return _refuse(_t("There is nothing to send."))
            server.notify_log("notice", text, logger="operator", session=stream.session_id.hex)
            told = str(_DONE[act])
        note_action(request, Stream, name, told, pk)
        return JsonResponse({"done": told})

    def _end(self, request: HttpRequest, act: str, pk: uuid.UUID) -> HttpResponse:
        session = Session.objects.filter(pk=pk).first()
        if session is None:
            return _gone()
        name = inert(f"{session}", 200)
        if act == "revoke":
            needs(request, "change_apikey")
            if not revoke(session.principal_key):
                return _refuse(
                    _t("It was opened with nothing that can be revoked here; end it instead.")
                )
        server = _find_server(session.server)
        if server is not None:
            async_to_sync(server.aclose_session)(pk.hex)
        # Whoever keeps sessions elsewhere has no row to delete.
        Session.objects.filter(pk=pk).delete()
        note_action(request, Session, name, str(_DONE[act]), pk)
        return JsonResponse({"done": str(_DONE[act])})


_DONE = {
    "end": _("The session is ended."),
    "revoke": _("The credentials are revoked, and the session is ended."),
    "close": _("The stream is closed."),
    "log": _("The message is sent."),
    "ping": "",
}


def _gone() -> HttpResponse:
    return JsonResponse({"done": _t("It is gone already.")})


def _to_uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _refuse(text: str) -> HttpResponse:
    return JsonResponse({"error": text}, status=400)


def _find_server(name: str) -> MCPServer | None:
    return next((each for each in all_servers() if each.public_name == name), None)


def _ping(server: MCPServer, session_key: str) -> str:
    taken_s = async_to_sync(server.aping_client)(session_key, PING_LIMIT_S)
    if taken_s is None:
        return _t("The client does not answer.")
    return _t("The client answered within %(time)d ms.") % {"time": round(taken_s * 1000) or 1}


async def _feed() -> AsyncIterator[bytes]:
    last = b""
    for _round in range(int(FEED_FOR_S / FEED_EVERY_S)):
        found = await run_in_pool(snapshot)
        told = encode({**found, "at": 0})
        # A comment keeps what stands in between from closing it.
        yield b":\n\n" if told == last else b"data: " + encode(found) + b"\n\n"
        last = told
        await asyncio.sleep(FEED_EVERY_S)


def _tables(*, may_end: bool, may_revoke: bool, may_close: bool) -> list[dict[str, Any]]:
    """Return what the tables of the page show: keys of the data, their titles, and the buttons."""
    who = {
        "client": _("Client"),
        "user": _("User"),
        "server": _("Server"),
        "revision": _("Revision"),
    }
    since, seen, worker = _("Since"), _("Last seen"), _("Worker")
    ends = (["end"] if may_end else []) + (["revoke"] if may_end and may_revoke else [])
    parts: tuple[tuple[str, Any, dict[str, Any], list[str]], ...] = (
        (
            "streams",
            _("Open streams"),
            {**who, "kind": _("Kind"), "worker": worker, "since": since}
            | {"queued": _("Queued"), "resources": _("Resources")},
            ["close", "log", "ping"] if may_close else [],
        ),
        (
            "sessions",
            _("Sessions"),
            {**who, "transport": _("Transport"), "since": since, "seen": seen},
            ends,
        ),
        (
            "callers",
            _("Callers of the last 15 minutes"),
            {**who, "calls": _("Calls"), "seen": seen},
            [],
        ),
        ("workers", _("Workers"), {"name": worker, "since": since}, []),
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
    ]
