"""Ends to sessions and streams, from the live page and from the lists, and what is noted of them."""

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
    """End a session with all that runs and streams for it, on whichever worker."""
    server = find_server(session.server)
    if server is not None:
        server.close_session(session.pk.hex)
    # Whoever keeps sessions elsewhere has no row to delete.
    Session.objects.filter(pk=session.pk).delete()


def close_stream(stream: Stream) -> bool:
    """Close a stream, on whichever worker; return whether that may be done to it.

    The stream of a call ends with the call: its row says that the call runs, and without it whoever
    resumes the call is told that it was lost.
    """
    if stream.kind == Stream.Kind.CALL:
        return False
    # What the worker finds even if the word to it is lost.
    Stream.objects.filter(pk=stream.pk).delete()
    server = find_server(stream.server)
    if server is not None:
        server.close_stream(stream.pk.hex)
    return True


def note(request: HttpRequest, row: Any, told: str) -> None:
    """Write down what was done to a session or a stream, and whose it was."""
    whose = _t("User: %(user)s; client: %(client)s; principal: %(principal)s.") % {
        "user": inert(_username(row.user_id), 150) or "-",
        "client": inert(f"{row.client_name} {row.client_version}".strip(), 160) or "-",
        "principal": inert(row.principal_key, 128) or "-",
    }
    note_action(request, type(row), str(row), f"{told} {whose}", row.pk)


def _username(pk: Any) -> str:
    # No constraint holds the row to its user.
    user = None if pk is None else get_user_model()._default_manager.filter(pk=pk).first()
    return "" if user is None else user.get_username()
