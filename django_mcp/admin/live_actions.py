"""The live page's actions on sessions and streams; an ended one is not an error."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import note_actions
from django_mcp.admin.permissions import has_object_backend, may
from django_mcp.admin.revoke import revoke
from django_mcp.admin.texts import escape_invisible
from django_mcp.known_servers import find_server
from django_mcp.models import Session, Stream
from django_mcp.servers import MCPServer


def end_sessions(sessions: Sequence[Session]) -> None:
    """End sessions with all their calls and streams, in any worker; those of a server together."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for session in sessions:
        keys[session.server].append(session.pk.hex)
    for name, theirs in keys.items():
        server = find_server(name)
        ended = set(server.close_sessions(theirs)) if isinstance(server, MCPServer) else set()
        # Rows of a server that has gone, or that keeps its sessions elsewhere by now.
        left = [
            session.pk
            for session in sessions
            if session.server == name and session.pk.hex not in ended
        ]
        if left:
            Session.objects.filter(pk__in=left).delete()


def close_stream(stream: Stream) -> bool:
    """Close a stream, in any worker; return whether it may be closed.

    The stream of a call ends with the call: its row shows that the call runs, and without it a client
    that resumes the call gets an error.
    """
    if stream.kind == Stream.Kind.CALL:
        return False
    # The worker sees this even if it misses the message.
    Stream.objects.filter(pk=stream.pk).delete()
    server = find_server(stream.server)
    if isinstance(server, MCPServer):
        server.close_stream(stream.pk.hex)
    return True


def note(request: HttpRequest, message: str, *rows: Any) -> None:
    """Record in the history what was done to sessions or streams, and to whom they belonged."""
    # There is no constraint on the user.
    users = get_user_model()._default_manager.in_bulk({row.user_id for row in rows} - {None})
    notes = []
    for row in rows:
        user = users.get(row.user_id)
        owner = _t("User: %(user)s; client: %(client)s; principal: %(principal)s.") % {
            "user": escape_invisible("" if user is None else user.get_username(), 150) or "-",
            "client": escape_invisible(f"{row.client_name} {row.client_version}".strip(), 160)
            or "-",
            "principal": escape_invisible(row.principal_key, 128) or "-",
        }
        notes.append((str(row), f"{message} {owner}", row.pk))
    note_actions(request, type(rows[0]), *notes)


MAX_LOG_LENGTH = 2000
PING_LIMIT_S = 5.0

DONE = {
    "end": _("The session is ended."),
    "revoke": _("The credentials are revoked, and the session is ended."),
    "close": _("The stream is closed."),
    "revoke_and_close": _("The credentials are revoked, and what they opened is closed."),
    "log": _("The message is sent."),
    "ping": "",
}
_ALREADY = {
    "revoke": _("The credentials were revoked already, and the session is ended."),
    "revoke_and_close": _("The credentials were revoked already, and what they opened is closed."),
}
_NOTHING = {
    "revoke": _("It uses no credentials that can be revoked here; end it instead."),
    "revoke_and_close": _("It uses no credentials that can be revoked here; close it instead."),
}
OF_CALL = _("The stream of a call ends with the call, or with its session.")


def act(request: HttpRequest) -> HttpResponse:
    """Run an action on a session or a stream."""
    name, pk = request.POST.get("act", ""), to_uuid(request.POST.get("id", ""))
    if pk is None or name not in DONE:
        return JsonResponse({"error": "no such action"}, status=400)
    row = _find(request, Session if name in ("end", "revoke") else Stream, pk)
    if row is None:
        return JsonResponse({"done": _t("It no longer exists.")})
    try:
        message = _do(request, row, name)
    except _Refused as refused:
        return JsonResponse({"error": str(refused)}, status=400)
    note(request, message, row)
    return JsonResponse({"done": message})


class _Refused(Exception):
    """The action is not done; the text says why."""


def _do(request: HttpRequest, row: Any, name: str) -> str:
    """Run an action; return a message for the user."""
    match name:
        case "end":
            end_sessions([row])
        case "close":
            if not close_stream(row):
                raise _Refused(OF_CALL)
        case "revoke" | "revoke_and_close":
            had_any = revoke(request, row)
            if had_any is None:
                raise _Refused(_NOTHING[name])
            if isinstance(row, Session):
                end_sessions([row])
            else:
                # That of a call ends with its credentials, within two seconds.
                close_stream(row)
            if not had_any:
                return str(_ALREADY[name])
        case _:
            return _send_to_client(request, row, name)
    return str(DONE[name])


def to_uuid(text: str) -> uuid.UUID | None:
    """Return the UUID that a client wrote; None if it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _find(request: HttpRequest, model: Any, pk: uuid.UUID) -> Any:
    """Return a row that the user may see and end; None if there is none for them.

    If permissions may be given for objects, a missing row and a hidden one give the same result.

    Raises:
        PermissionDenied: they may not, and no permission for objects could allow it.
    """
    row = model.objects.filter(pk=pk).first()
    if has_object_backend() and (row is None or not may(request.user, "view", row)):
        return None
    if not all(may(request.user, action, row or model) for action in ("view", "end")):
        raise PermissionDenied
    return row


def _send_to_client(request: HttpRequest, stream: Stream, name: str) -> str:
    """Ping the client of a session's stream or send it a message; return a message for the user."""
    server = find_server(stream.server)
    if not isinstance(server, MCPServer) or stream.session_id is None:
        raise _Refused(_t("A stream without a session can only be closed."))
    if name == "ping":
        taken_s = server.ping_client(stream.session_id.hex, PING_LIMIT_S)
        if taken_s is None:
            return _t("The client does not answer.")
        return _t("The client answered within %(time)d ms.") % {"time": round(taken_s * 1000) or 1}
    text = request.POST.get("text", "")[:MAX_LOG_LENGTH]
    if not text:
        raise _Refused(_t("There is nothing to send."))
    server.notify_log("notice", text, logger="operator", session=stream.session_id.hex)
    return str(DONE[name])
