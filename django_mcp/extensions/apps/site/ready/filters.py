"""The inputs of a table for the simple filters of its tool: choices, texts and dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.extensions.apps.site.ready.rows import properties_of
from django_mcp.extensions.apps.site.ready.turning import PLACES
from django_mcp.extensions.apps.site.schema_fields import describe_schema
from django_mcp.registry.entries import ToolEntry

SEARCHES = ("search", "query", "q")
ORDERS = ("ordering", "order_by", "sort")

_OTHERS = frozenset([*SEARCHES, *ORDERS, *PLACES, "limit", "page_size", "count", "fields"])
"""Arguments that say how the rows come, and not which."""

_KINDS = ("select", "text", "date", "datetime-local")

MAX_FILTERS = 8
"""Inputs above a table."""

_MAX_HELP_CHARS = 40


def find_filters(tool: ToolEntry, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs for the filters of a tool, with the values that they have in the arguments of a call.

    An argument that is required says whose rows are listed, and has no input.
    """
    schema = tool.published(tool.form_schema)
    left_out = _OTHERS.union(schema.get("required", ()))
    properties = properties_of(schema)
    wanted = {name: part for name, part in properties.items() if name not in left_out}
    fields = describe_schema({**schema, "properties": wanted}, arguments)
    return [
        {
            "name": field.name,
            "id": f"mcp-filter-{field.name}",
            "label": _label(field.label, field.help, is_choice=field.choices is not None),
            "kind": field.kind,
            "reads": field.reads,
            "text": field.text,
            "choices": field.choices,
            "attributes": field.attributes,
        }
        for field in fields
        if field.kind in _KINDS
    ][:MAX_FILTERS]


def _label(label: str, about: str, *, is_choice: bool) -> str:
    """Return a label that tells a filter from another of the same column, such as the end of a time."""
    is_short = about and not is_choice and len(about) <= _MAX_HELP_CHARS
    return f"{label}, {about}" if is_short else label
