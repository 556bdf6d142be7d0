"""Record actions on these pages in the admin's history."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

__all__ = ["note_action"]


def note_action(
    request: HttpRequest, model: type[Model], name: str, message: str, pk: Any = None
) -> None:
    """Record that the request's user did something to the object of that name."""
    LogEntry.objects.create(
        user_id=str(request.user.pk),
        content_type_id=ContentType.objects.get_for_model(model).pk,
        object_id=None if pk is None else str(pk),
        object_repr=name[:200],
        action_flag=CHANGE,
        change_message=message,
    )
