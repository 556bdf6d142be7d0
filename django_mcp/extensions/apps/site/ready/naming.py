"""What ready-made apps name: members that their results do not have, and tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django_mcp.extensions.apps.core.app import App
from django_mcp.extensions.apps.core.ready import Card, Chart, Table
from django_mcp.extensions.apps.site.ready.columns import resolve
from django_mcp.extensions.apps.site.ready.rows import ROWS, properties_of
from django_mcp.protocol.json import JSONObject


def find_unknown_members(app: App, schema: JSONObject) -> list[str]:
    """Return the members that a ready-made app names, and that the output schema of its tool does not have."""
    if isinstance(app, Card):
        return list(_find_missing(app.fields or (), schema, schema))
    if not isinstance(app, Table | Chart):
        return []
    if app.rows is not None and (missing := list(_find_missing([app.rows], schema, schema))):
        return missing
    row = _find_row(schema, app.rows)
    if isinstance(app, Table):
        names = [*(app.columns or ()), *filter(None, [app.key])]
    else:
        names = [*(app.y or ()), *filter(None, [app.x, app.by])]
    return list(_find_missing(names, row, schema))


def find_actions(app: App) -> Sequence[str]:
    """Return the tools that a ready-made app names."""
    return app.actions or () if isinstance(app, Table | Card) else ()


def _find_row(schema: JSONObject, member: str | None) -> JSONObject:
    """Return the schema of a row; an empty one, if it does not tell."""
    root = resolve(schema, schema)
    if member is None:
        described = properties_of(root)
        arrays = [
            name for name, each in described.items() if resolve(each, schema).get("type") == "array"
        ]
        member = next((name for name in ROWS if name in arrays), None)
        if member is None:
            if len(arrays) != 1:
                return {}
            [member] = arrays
    each: Any = root
    for name in member.split("."):
        each = resolve(properties_of(each).get(name), schema)
    return resolve(each.get("items"), schema)


def _find_missing(names: Sequence[str], schema: JSONObject, root: JSONObject) -> Iterator[str]:
    for name in names:
        each = resolve(schema, root)
        for part in name.split("."):
            described = properties_of(each)
            if not described:
                break
            if part not in described:
                yield name
                break
            each = resolve(described[part], root)
