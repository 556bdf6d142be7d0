"""Cards: the members of one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.extensions.apps.core.app import Rendered
from django_mcp.extensions.apps.core.ready import Card
from django_mcp.extensions.apps.site.ready.acts import DETAIL, Acts, write_arguments
from django_mcp.extensions.apps.site.ready.columns import (
    MAX_COLUMNS,
    Column,
    find_columns,
    resolve,
    split_names,
)
from django_mcp.extensions.apps.site.ready.rows import properties_of
from django_mcp.extensions.apps.site.ready.tables import CUT, Context, title_of, write_table
from django_mcp.extensions.apps.site.values import to_html, to_text
from django_mcp.protocol.json import JSONObject

MAX_INNER_ROWS = 100
"""Rows of a table inside of a card."""

_MESSAGES = "messages"
"""The member in which tools of the admin have what the admin tells its user."""


def describe_card(app: Card, rendered: Rendered) -> Context:
    """Return the variables of a card."""
    tool, result = rendered.tool, rendered.result
    schema = tool.published(tool.output_schema or {})
    acts = Acts(app, rendered)
    key = acts.key_of(result)
    columns = find_columns(schema, schema, [result], split_names(app.fields))
    if app.fields is None:
        columns = [column for column in columns if column.name not in (CUT, _MESSAGES)]
    return {
        "title": title_of(app.title, rendered, is_plural=False),
        "name": "" if key is None else to_text(key, "text"),
        "members": [_write_member(column, result, schema) for column in columns[:MAX_COLUMNS]],
        "acts": [] if key is None else list(_write_card_acts(acts, key, result)),
        "notes": [text for text in _tell_other(result) if text],
        "detail": DETAIL,
        "again": write_arguments(rendered.arguments),
        "writes": acts.writes,
    }


def _write_card_acts(acts: Acts, key: Any, result: Any) -> Iterator[Context]:
    refused = acts.find_refused([result])
    for act in acts.acts:
        arguments = act.to_arguments(key)
        if key not in refused.get(act.tool, ()) and arguments is not None:
            yield {
                "tool": act.tool,
                "text": act.text,
                "arguments": arguments,
                "is_dangerous": act.is_dangerous,
                "asks": act.asks,
            }


def _write_member(column: Column, result: Any, schema: JSONObject) -> Context:
    value = column.read(result)
    member: Context = {"title": column.title, "html": "", "heads": [], "rows": "", "note": ""}
    are_objects = isinstance(value, list) and any(isinstance(each, Mapping) for each in value)
    if not are_objects:
        member["html"] = to_html(value, column.kind, is_long=True)
        return member
    described: JSONObject = schema
    for name in column.path:
        described = resolve(properties_of(resolve(described, schema)).get(name), schema)
    rows = [row for row in value if isinstance(row, Mapping)]
    columns = find_columns(described.get("items") or {}, schema, rows)[:MAX_COLUMNS]
    member["heads"] = [{"title": each.title, "is_number": each.is_number} for each in columns]
    member["rows"] = write_table(rows[:MAX_INNER_ROWS], columns, None)
    if len(rows) > MAX_INNER_ROWS:
        told = _("Only the first %(shown)s rows are shown.")
        member["note"] = told % {"shown": to_text(MAX_INNER_ROWS)}
    return member


def _tell_other(result: Any) -> Iterator[str]:
    if not isinstance(result, Mapping):
        return
    cut_lists = result.get(CUT)
    if isinstance(cut_lists, list) and cut_lists:
        names = ", ".join(str(name).replace("_", " ") for name in cut_lists[:MAX_COLUMNS])
        yield _("There are more rows than are shown of: %(names)s.") % {"names": names}
    messages = result.get(_MESSAGES)
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping):
            yield to_text(message.get("text"))
