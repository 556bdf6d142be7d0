"""Skills in the admin: what the catalogue says of them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp.extensions.skills.core.index import skill_of
from django_mcp.registry.entries import Entry

TABS: tuple[Any, ...] = ()
OF_SESSION: dict[str, Any] = {}


def find_badges(entry: Entry) -> list[Any]:
    """Return the badges of an entry in the catalogue."""
    skill = skill_of(entry)
    if skill is None:
        return []
    return [_("skill"), _("generated")] if skill.files is None else [_("skill")]
