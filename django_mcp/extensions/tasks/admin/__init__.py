"""Tasks in the admin: their page, and what other pages say of them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp.extensions.tasks.core.shapes import NEVER, support_of
from django_mcp.registry.entries import Entry

TABS = (("task_changelist", _("Tasks"), ("task",)),)
"""See `django_mcp.admin.base.TABS`."""

OF_SESSION = {"task": _("Tasks")}
"""Models with rows of sessions, to which the page of a session links, with the titles of the links."""


def find_badges(entry: Entry) -> list[Any]:
    """Return the badges of an entry in the catalogue."""
    return [_("task")] if support_of(entry) != NEVER else []
