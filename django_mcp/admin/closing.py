"""End sessions and streams from the admin, and record it in the history."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_action
from django_mcp.admin.texts import inert
from django_mcp.models import Session, Stream
from django_mcp.servers import find_server

__all__ = ["close_stream", "end_session", "note"]


def end_session(session: Session) -> None:
    """End a session with all its calls and streams, in any worker."""
    server = find_server(session.server)
    if server is not None:
        server.close_session(session.pk.hex)
    # If sessions are stored elsewhere, there is no row to delete.
    Session.objects.filter(pk=session.pk).delete()


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
    if server is not None:
        server.close_stream(stream.pk.hex)
    return True


def note(request: HttpRequest, row: Any, message: str) -> None:
    """Record in the history what was done to a session or a stream, and to whom it belonged."""
    owner = _t("User: %(user)s; client: %(client)s; principal: %(principal)s.") % {
        "user": inert(_username(row.user_id), 150) or "-",
        "client": inert(f"{row.client_name} {row.client_version}".strip(), 160) or "-",
        "principal": inert(row.principal_key, 128) or "-",
    }
    note_action(request, type(row), str(row), f"{message} {owner}", row.pk)


def _username(pk: Any) -> str:
    # There is no constraint on the user.
    user = None if pk is None else get_user_model()._default_manager.filter(pk=pk).first()
    return "" if user is None else user.get_username()
