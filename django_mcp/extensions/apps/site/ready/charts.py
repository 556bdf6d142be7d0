"""Charts: the numbers of rows over their dates or categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from django_mcp.extensions.apps.core.app import Rendered
from django_mcp.extensions.apps.core.ready import Chart
from django_mcp.extensions.apps.site.ready.columns import (
    MAX_COLUMNS,
    Column,
    find_columns,
    is_numeric,
)
from django_mcp.extensions.apps.site.ready.rows import find_rows
from django_mcp.extensions.apps.site.ready.tables import MAX_ROWS, Context, title_of, write_table
from django_mcp.extensions.apps.site.values import to_number, to_text
from django_mcp.protocol.json import JSONObject, encode

MAX_SERIES = 8
"""Lines, or bars at one place: more cannot be told apart."""

_TIMES = ("moment", "day")

_GROUP, _COUNT = "group", "count"
"""The members of a row of a generated summary: what the rows are grouped by, and how many there are."""


def describe_chart(app: Chart, rendered: Rendered) -> Context:
    """Return the variables of a chart."""
    tool = rendered.tool
    schema = tool.published(tool.output_schema or {})
    rows, described, _member = find_rows(schema, rendered.result, app.rows)
    shown = [row for row in rows[:MAX_ROWS] if isinstance(row, Mapping)]
    columns = find_flat_columns(described, schema, shown)
    x, by, ys = _choose(app, columns, shown)
    title = title_of(app.title, rendered, is_plural=True)
    context: Context = {
        "title": title,
        "points": None,
        "heads": [{"title": each.title, "is_number": each.is_number} for each in columns],
        "rows": write_table(shown, columns, None) if shown else "",
        "notes": list(_tell_notes(rendered.result, len(rows))),
    }
    if x is None or not ys or not shown:
        return context
    is_time = x.kind in _TIMES
    points, left_out = _make_points(shown, x, by, ys, is_time=is_time)
    if left_out:
        told = _("Only %(shown)s of the series are drawn.")
        context["notes"].append(told % {"shown": MAX_SERIES})
    about = _("%(title)s: %(series)s by %(axis)s")
    names = ", ".join(each.title for each in ys)
    return {
        **context,
        "kind": app.kind or ("line" if is_time and len(points["labels"]) > 1 else "bar"),
        "points": encode(points).decode() if points["labels"] else None,
        "about": about % {"title": title, "series": names, "axis": x.title},
    }


def find_flat_columns(schema: JSONObject, root: JSONObject, rows: Sequence[Any]) -> list[Column]:
    """Return the columns of rows, and those inside of objects in their place."""
    paths: list[tuple[str, ...]] = []
    for column in find_columns(schema, root, rows):
        values = [column.read(row) for row in rows]
        objects = [value for value in values if isinstance(value, Mapping)]
        members = dict.fromkeys(str(name) for value in objects for name in value)
        paths += [(*column.path, name) for name in members] if objects else [column.path]
    columns = find_columns(schema, root, rows, paths[:MAX_COLUMNS])
    is_summary = any(column.path[:1] == (_GROUP,) for column in columns)
    return [_name(column) if is_summary else column for column in columns]


def _name(column: Column) -> Column:
    """Return a column of a summary with a title for people."""
    if column.name == _COUNT:
        return column.with_title(_("Number"))
    functions = {"sum": _("Sum"), "avg": _("Average"), "min": _("Minimum"), "max": _("Maximum")}
    if len(column.path) == 2 and column.path[0] in functions:
        told = _("%(function)s of %(name)s")
        return column.with_title(
            told % {"function": functions[column.path[0]], "name": column.title.lower()}
        )
    return column


def _choose(
    app: Chart, columns: Sequence[Column], rows: Sequence[Any]
) -> tuple[Column | None, Column | None, list[Column]]:
    """Return the columns of the axis, of the series and of the numbers."""
    names = {column.name: column for column in columns}
    groups = [column for column in columns if column.path[:1] == (_GROUP,)]
    others = groups or [column for column in columns if not column.is_number]
    times = [column for column in others if column.kind in _TIMES]
    x = names.get(app.x) if app.x is not None else next(iter(times or others), None)
    by = names.get(app.by) if app.by is not None else None
    if app.by is None and len(groups) > 1:
        by = next((column for column in groups if column is not x), None)
    if app.y is not None:
        ys = [names[name] for name in app.y if name in names]
    else:
        numbers = [
            column
            for column in columns
            if column not in (x, by, *groups) and is_numeric(column, rows) and not _is_key(column)
        ]
        # The sums of a summary are not of the size of its counts.
        ys = [column for column in numbers if column.name != _COUNT or not groups] or numbers
    return x, by, ys[:1] if by is not None else ys


def _is_key(column: Column) -> bool:
    name = column.path[-1] if column.path else ""
    return name in ("id", "pk") or name.endswith("_id")


def _make_points(
    rows: Sequence[Any], x: Column, by: Column | None, ys: Sequence[Column], *, is_time: bool
) -> tuple[JSONObject, int]:
    """Return what the page draws, and how many series are left out."""
    places: dict[Any, Any] = {}
    for row in rows:
        value = x.read(row)
        place = _to_seconds(value, x.kind) if is_time else value
        if place is not None and isinstance(place, str | int | float):
            places.setdefault(place, value)
    order = sorted(places) if is_time else list(places)
    index = {place: at for at, place in enumerate(order)}
    series: dict[str, list[Any]] = {}
    for row in rows:
        value = x.read(row)
        place = _to_seconds(value, x.kind) if is_time else value
        at = index.get(place) if isinstance(place, str | int | float) else None
        if at is None:
            continue
        for y in ys:
            name = y.title if by is None else to_text(by.read(row), by.kind)
            series.setdefault(name, [None] * len(order))[at] = y.read(row)
    drawn = list(series.items())[:MAX_SERIES]
    points: JSONObject = {
        "isTime": is_time,
        "label": x.title,
        "labels": [to_text(places[place], x.kind) for place in order],
        "x": order if is_time else [],
        "series": [
            {
                "label": name,
                "values": [_to_float(value) for value in values],
                "shown": [to_text(value, "number") for value in values],
            }
            for name, values in drawn
        ],
    }
    return points, len(series) - len(drawn)


def _to_float(value: Any) -> float | None:
    number = to_number(value)
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _to_seconds(value: Any, kind: str) -> int | None:
    """Return a day, or a moment in the zone of the request, as if it were of UTC."""
    if not isinstance(value, str):
        return None
    try:
        if kind == "day":
            day = parse_date(value)
            moment = None if day is None else datetime.combine(day, time())
        else:
            moment = parse_datetime(value)
            if moment is not None and timezone.is_aware(moment):
                moment = timezone.localtime(moment)
        return None if moment is None else int(moment.replace(tzinfo=UTC).timestamp())
    except (ValueError, OverflowError):
        return None


def _tell_notes(result: Any, count: int) -> Iterator[str]:
    if count > MAX_ROWS:
        yield _("Only the first %(shown)s points are drawn.") % {"shown": to_text(MAX_ROWS)}
    note = result.get("note") if isinstance(result, Mapping) else None
    if isinstance(note, str) and note:
        yield note
