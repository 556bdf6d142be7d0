"""End sessions and streams from the admin, and record it in the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_actions
from django_mcp.admin.texts import inert
from django_mcp.models import Session, Stream
from django_mcp.servers import find_server


def end_sessions(sessions: Sequence[Session]) -> None:
    """End sessions with all their calls and streams, in any worker; those of a server together."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for session in sessions:
        keys[session.server].append(session.pk.hex)
    for name, theirs in keys.items():
        server = find_server(name)
        ended = set() if server is None else set(server.close_sessions(theirs))
        # Rows of a server that has gone, or that keeps its sessions elsewhere by now.
        left = [each.pk for each in sessions if each.server == name and each.pk.hex not in ended]
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
    if server is not None:
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
            "user": inert("" if user is None else user.get_username(), 150) or "-",
            "client": inert(f"{row.client_name} {row.client_version}".strip(), 160) or "-",
            "principal": inert(row.principal_key, 128) or "-",
        }
        notes.append((str(row), f"{message} {owner}", row.pk))
    note_actions(request, type(rows[0]), notes)
