"""Tables: the rows of a result, with what the tool can do about their order, their pages and a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_mcp.extensions.apps.core.app import Rendered
from django_mcp.extensions.apps.core.ready import Table
from django_mcp.extensions.apps.site.ready.acts import DETAIL, Act, Acts, write_arguments
from django_mcp.extensions.apps.site.ready.columns import (
    MAX_COLUMNS,
    Column,
    find_columns,
    split_names,
)
from django_mcp.extensions.apps.site.ready.filters import ORDERS, SEARCHES, find_filters
from django_mcp.extensions.apps.site.ready.rows import find_rows, properties_of
from django_mcp.extensions.apps.site.ready.turning import (
    PLACES,
    find_pages,
    find_total,
    without_place,
)
from django_mcp.extensions.apps.site.values import NOTHING, escape_text, to_text, write_html
from django_mcp.protocol.json import JSONObject

MAX_ROWS = 500
"""Rows of a table: more would be slow to draw, and nobody reads them."""

CUT = "truncated"
"""The member of a generated object that names its lists of which rows are left out."""


Context = dict[str, Any]


def title_of(given: Any, rendered: Rendered, *, is_plural: bool) -> str:
    """Return the heading of a result: what the site gave, what its objects are called, or the title of the tool."""
    family = rendered.tool.family
    words = None
    if family is not None:
        words = family.plural if is_plural else family.singular
    return str(given or (capfirst(str(words)) if words else rendered.tool.title))


def describe_table(app: Table, rendered: Rendered) -> Context:
    """Return the variables of a table."""
    tool, result, arguments = rendered.tool, rendered.result, rendered.arguments
    schema = tool.published(tool.output_schema or {})
    rows, described, member = find_rows(schema, result, app.rows)
    columns = find_columns(described, schema, rows[:MAX_ROWS], split_names(app.columns))
    if app.columns is None:
        columns = [column for column in columns if column.name != CUT]
    acts = Acts(app, rendered)
    inputs = properties_of(tool.input_schema)
    first = without_place(arguments)
    search, filters = _find_search(first, inputs), find_filters(tool, first)
    asked = {each["name"] for each in (search, *filters) if each is not None}
    after, before = find_pages(result, arguments, inputs, len(rows))
    shown = write_table(rows[:MAX_ROWS], columns[:MAX_COLUMNS], acts)
    return {
        "title": title_of(app.title, rendered, is_plural=True),
        "heads": list(_write_heads(columns[:MAX_COLUMNS], first, inputs)),
        "rows": shown,
        "has_acts": bool(_row_acts(acts)),
        "count": _tell_count(result, len(rows), is_page=bool(after or before)),
        "notes": list(_tell_notes(result, rows, columns, has_more=bool(after))),
        "search": search,
        "filters": filters,
        "others": write_arguments(
            {name: value for name, value in first.items() if name not in asked}
        ),
        "again": write_arguments(arguments),
        "writes": acts.writes,
        "after": None if after is None else write_arguments(after),
        "before": None if before is None else write_arguments(before),
        "is_start": before is not None and not before.keys() & {*PLACES},
        "detail": DETAIL,
        "member": member,
    }


def _row_acts(acts: Acts) -> list[Act]:
    """Return the buttons of a row: what has to be asked before has none, since a slip would do it."""
    return [act for act in acts.acts if not act.asks]


def write_table(rows: Sequence[Any], columns: Sequence[Column], acts: Acts | None) -> SafeString:
    """Return the rows as escaped HTML. A template would take several times as long."""
    if not columns:
        return mark_safe("")
    row_acts = [] if acts is None else _row_acts(acts)
    write_buttons = None if acts is None or not row_acts else _make_buttons(acts, row_acts, rows)
    css = [' class="mcp-number"' if column.is_number else "" for column in columns]
    cells = [
        (f"<td{each}>", column.kind, column.read) for each, column in zip(css, columns, strict=True)
    ]
    parts: list[str] = []
    for row in rows:
        (_start, kind, read), *others = cells
        first = write_html(read(row), kind)
        parts.append(f'<tr><th scope="row"{css[0]}>{first}</th>')
        parts += [f"{start}{write_html(read(row), kind)}</td>" for start, kind, read in others]
        parts.append("</tr>" if write_buttons is None else f"<td>{write_buttons(row)}</td></tr>")
    return mark_safe("".join(parts))  # noqa: S308 - each value is escaped


def _make_buttons(acts: Acts, row_acts: Sequence[Act], rows: Sequence[Any]) -> Callable[[Any], str]:
    """Return a function that writes the buttons of a row as escaped HTML."""
    # A hidden text inside of each button takes the browser a quarter longer.
    starts = [
        f'<button type="button"{" class=mcp-danger" if act.is_dangerous else ""} '
        f'data-mcp-swap="{DETAIL}" data-mcp-call="{escape(act.tool)}" data-mcp-args="'
        for act in row_acts
    ]
    texts = [escape_text(act.text) for act in row_acts]
    each = list(zip(starts, row_acts, texts, strict=True))
    refused = acts.find_refused(rows)

    def write(row: Any) -> str:
        key = acts.key_of(row)
        if key is None:
            return NOTHING
        told = escape_text(to_text(key))
        buttons = [
            f'{start}{escape(arguments)}" aria-label="{text} {told}">{text}</button>'
            for start, act, text in each
            if key not in refused.get(act.tool, ())
            and (arguments := act.to_arguments(key)) is not None
        ]
        return f'<div class="mcp-actions">{"".join(buttons)}</div>' if buttons else NOTHING

    return write


def _write_heads(
    columns: Sequence[Column], arguments: Mapping[str, Any], inputs: JSONObject
) -> Iterator[Context]:
    """Yield the heads of columns, with the call that sorts by them where the tool can."""
    name = next((each for each in ORDERS if isinstance(inputs.get(each), dict)), None)
    orders = [] if name is None else inputs[name].get("enum") or []
    now = None if name is None else arguments.get(name)
    for column in columns:
        head: Context = {
            "id": f"mcp-sort-{column.name}",
            "title": column.title,
            "is_number": column.is_number,
            "sort": None,
            "order": "",
        }
        key = _find_order(column, orders)
        if name is not None and key is not None:
            head["order"] = {key: "ascending", f"-{key}": "descending"}.get(str(now), "")
            wanted = f"-{key}" if now == key and f"-{key}" in orders else key
            head["sort"] = write_arguments({**arguments, name: wanted})
        yield head


def _find_order(column: Column, orders: Sequence[Any]) -> str | None:
    """Return the order by a column, or by the first member of an object; None: there is none."""
    name = "__".join(column.path)
    for order in orders:
        if order in (name, column.name):
            return str(order)
    within = (each for each in orders if isinstance(each, str) and each.startswith(f"{name}__"))
    return next(within, None)


def _find_search(arguments: Mapping[str, Any], inputs: JSONObject) -> Context | None:
    for name in SEARCHES:
        if isinstance(inputs.get(name), dict):
            now = arguments.get(name)
            return {"name": name, "value": now if isinstance(now, str) else ""}
    return None


def _tell_count(result: Any, count: int, *, is_page: bool) -> str:
    total = find_total(result)
    if total is not None and total > count:
        is_capped = result.get("is_count_capped") is True
        told = _("%(count)s of more than %(total)s.") if is_capped else _("%(count)s of %(total)s.")
        return told % {"count": to_text(count), "total": to_text(total)}
    if is_page:
        return _("%(count)s on this page.") % {"count": to_text(count)}
    return _("%(count)s in all.") % {"count": to_text(count)}


def _tell_notes(
    result: Any, rows: Sequence[Any], columns: Sequence[Column], *, has_more: bool
) -> Iterator[str]:
    if has_more:
        yield _("There are more.")
    if len(rows) > MAX_ROWS:
        told = _("Only the first %(shown)s rows are shown. Search for what you need.")
        yield told % {"shown": to_text(MAX_ROWS)}
    if len(columns) > MAX_COLUMNS:
        told = _("Only the first %(shown)s columns are shown.")
        yield told % {"shown": to_text(MAX_COLUMNS)}
    note = result.get("note") if isinstance(result, Mapping) else None
    if isinstance(note, str) and note and not has_more:
        # With more rows, it says how a program gets them.
        yield note
