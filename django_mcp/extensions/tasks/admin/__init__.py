"""Tasks in the admin: their page, and what other pages say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp.extensions.tasks.core.shapes import NEVER, support_of
from django_mcp.registry.entries import Entry

TABS = (("task_changelist", _("Tasks"), ("task",)),)
"""See `django_mcp.admin.base.TABS`."""

OF_SESSION = {"task": _("Tasks")}
"""Models with rows of sessions, to which the page of a session links, with the titles of the links."""


FOLLOWING: Mapping[str, Collection[str]] = {
    "tasks/get": ("taskId",),
    "tasks/update": ("taskId", "inputResponses"),
    "tasks/cancel": ("taskId",),
}
"""The methods with which the page of a tool goes on with a call, and the params that it may set."""


def find_badges(entry: Entry) -> list[Any]:
    """Return the badges of an entry in the catalogue."""
    return [_("task")] if support_of(entry) != NEVER else []
