"""Record actions on these pages in the admin's history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest


def note_action(
    request: HttpRequest, model: type[Model], name: str, message: str, pk: Any = None
) -> None:
    """Record that the request's user did something to the object of that name."""
    note_actions(request, model, [(name, message, pk)])


def note_actions(
    request: HttpRequest, model: type[Model], notes: Iterable[tuple[str, str, Any]]
) -> None:
    """Record actions of the request's user: the object's name, what was done, and its key."""
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=str(request.user.pk),
            content_type_id=ContentType.objects.get_for_model(model).pk,
            object_id=None if pk is None else str(pk),
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=message,
        )
        for name, message, pk in notes
    )
