"""Long lists of choices: a select with a search, as that of Django's `autocomplete_fields`; a plain one without scripts."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.widgets import AutocompleteSelect
from django.forms import Media

MANY = 12
"""More choices than these are a select with a search."""


def searchable_media() -> Media:
    """Return the scripts and styles of selects with the class `mcp-searchable`."""
    # The widget knows the files of the active language; they do not depend on a field.
    unbound: Any = None
    media: Media = AutocompleteSelect(unbound, unbound).media
    # Of scripts that no list has together, any may be first.
    return media + Media(js=["admin/js/jquery.init.js", "django_mcp/admin/searchable.js"])
