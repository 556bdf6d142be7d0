"""Columns of ready-made tables, and values as a person reads them: in the language and the time zone of the request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from html import escape
from itertools import islice
from typing import Any

from django.utils import formats, timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_mcp.protocol.json import JSONObject

MAX_COLUMNS = 30
"""Columns of a table."""

MAX_CELL_CHARS = 200
MAX_TEXT_CHARS = 5000
"""Of a value in a card."""

MAX_PARTS = 3
"""Parts of an object, and items of a list, that a cell shows."""

NOTHING = "\u2013"
"""What is shown where there is no value: a dash."""

_NAMES = ("text", "name", "title", "label", "number", "username", "code")
"""The members by which people know an object, the likeliest first."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?")
_ADDRESS = re.compile(r"https?://\S+")
_UNSAFE = re.compile("[&<>\"']")

_TAGGED = ("moment", "day", "address")
"""The kinds of values that have an element of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A member of rows.

    Attributes:
        path: its name, and those inside of it; `()`: the row itself.
        title: for people.
        kind: `"number"`, `"moment"`, `"day"`, `"boolean"`, `"address"`, `"list"`, `"object"` or `"text"`.
    """

    path: tuple[str, ...]
    title: str
    kind: str

    @property
    def name(self) -> str:
        """Its path as a text."""
        return ".".join(self.path)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.kind == "number"

    def with_title(self, title: str) -> Column:
        """Return the column with another title."""
        return replace(self, title=title)

    def read(self, row: Any) -> Any:
        """Return its value of a row; None: there is none."""
        if len(self.path) == 1 and type(row) is dict:
            return row.get(self.path[0])
        return find(row, self.path)


def find(value: Any, path: Sequence[str]) -> Any:
    """Return what is at a path inside of a value; None: nothing is."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


# -- schemas


def resolve(schema: Any, root: JSONObject) -> JSONObject:
    """Return a schema without references and without null, as far as one kind of value is left."""
    for _step in range(10):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            place, _, name = reference[2:].partition("/")
            schema = {**root.get(place, {}).get(name, {}), **_without(schema, "$ref")}
            continue
        several = schema.get("anyOf") or schema.get("oneOf")
        if not several:
            return dict(schema)
        kinds = [each for each in several if each != {"type": "null"}]
        first = kinds[0] if kinds else {}
        schema = {**first, **_without(schema, "anyOf", "oneOf")}
    return {}


def _without(schema: Mapping[str, Any], *names: str) -> JSONObject:
    return {name: each for name, each in schema.items() if name not in names}


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the kind of the values of a schema."""
    given = schema.get("type")
    types = {given} if isinstance(given, str) else set(given or ())
    told = str(schema.get("description") or "")
    form = schema.get("format")
    if types & {"integer", "number"} or form == "decimal" or "Format: decimal." in told:
        return "number"
    if "boolean" in types:
        return "boolean"
    if "array" in types:
        return "list"
    if "object" in types:
        return "object"
    if form == "date-time":
        return "moment"
    if form == "date" or "Format: date," in told:
        return "day"
    return "address" if form == "uri" or "Format: uri." in told else "text"


def find_columns(
    schema: JSONObject,
    root: JSONObject,
    rows: Sequence[Any],
    chosen: Sequence[Sequence[str]] | None = None,
) -> list[Column]:
    """Return the columns of rows: those of their schema, and where it tells none, those of the rows.

    Args:
        schema: of one row.
        root: the whole schema, which has its definitions.
        rows: what is shown.
        chosen: the paths of the columns; None: all.
    """
    paths = chosen
    if paths is None:
        paths = [(name,) for name in resolve(schema, root).get("properties") or {}]
        if not paths:
            members = (str(name) for row in rows if isinstance(row, Mapping) for name in row)
            paths = [(name,) for name in islice(dict.fromkeys(members), MAX_COLUMNS + 1)]
    columns = [_read_column(path, schema, root) for path in paths]
    if not columns and rows:
        columns = [Column(path=(), title=_("Value"), kind="text")]
    return [_look(column, rows) for column in columns]


def split_names(names: Sequence[str] | None) -> list[list[str]] | None:
    """Return the paths of members that a site names; None: it names none."""
    return None if names is None else [name.split(".") for name in names]


def _read_column(path: Sequence[str], schema: JSONObject, root: JSONObject) -> Column:
    for name in path:
        schema = resolve((resolve(schema, root).get("properties") or {}).get(name), root)
    title = str(schema.get("title") or "").strip() or path[-1].replace("__", " ").replace("_", " ")
    return Column(path=tuple(path), title=title[:1].upper() + title[1:], kind=kind_of(schema))


def _look(column: Column, rows: Sequence[Any]) -> Column:
    """Return a column with a kind that all of its values have, where its schema says no more than text."""
    if column.kind != "text":
        return column
    values = [value for value in map(column.read, rows) if value is not None and value != ""]
    for kind, pattern in (("moment", _MOMENT), ("day", _DAY)):
        if values and all(isinstance(each, str) and pattern.fullmatch(each) for each in values):
            return replace(column, kind=kind)
    if values and all(type(each) in (int, float) for each in values):
        return replace(column, kind="number")
    return column


# -- values


def to_number(value: Any) -> Decimal | int | float | None:
    """Return a value as a number; None, if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        try:
            return Decimal(value)
        except InvalidOperation:
            return None
    return None


def is_numeric(column: Column, rows: Sequence[Any]) -> bool:
    """Return whether all values of a column are numbers, or texts of numbers, and there is one."""
    values = [value for value in map(column.read, rows) if value is not None]
    return bool(values) and all(to_number(value) is not None for value in values)


def to_text(value: Any, kind: str = "text", *, is_long: bool = False) -> str:
    """Return a value as text, which is not escaped.

    Args:
        value: from JSON.
        kind: of its column.
        is_long: whether there is room for a long text.
    """
    if value is None or value == "":
        return NOTHING
    if kind == "text" and type(value) is str:
        return cut(value, MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS)
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    number = to_number(value) if kind == "number" or not isinstance(value, str) else None
    if number is not None:
        return str(formats.number_format(number))
    if isinstance(value, str):
        told = _to_time(value, kind, is_long=is_long) if kind in ("moment", "day") else None
        return told or cut(value, MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS)
    return cut(_summarize(value, 0), MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS) or NOTHING


def _to_time(value: str, kind: str, *, is_long: bool) -> str | None:
    prefix = "" if is_long else "SHORT_"
    try:
        if kind == "day":
            day = parse_date(value)
            return None if day is None else formats.date_format(day, f"{prefix}DATE_FORMAT")
        moment = parse_datetime(value)
        if moment is None:
            return None
        if timezone.is_aware(moment):
            moment = timezone.localtime(moment)
        return formats.date_format(moment, f"{prefix}DATETIME_FORMAT")
    except (ValueError, OverflowError):
        return None


def _summarize(value: Any, depth: int) -> str:
    """Return a short text of an object or a list."""
    if isinstance(value, Mapping):
        named = [name for name in _NAMES if isinstance(value.get(name), str) and value[name]]
        parts = [value[named[0]]] if named else list(islice(value.values(), MAX_PARTS))
        return " · ".join(_write_parts(parts, depth))
    if isinstance(value, list):
        rest = len(value) - MAX_PARTS
        told = ", ".join(_write_parts(value[:MAX_PARTS], depth))
        return f"{told} +{rest}" if rest > 0 else told
    return to_text(value)


def _write_parts(parts: Sequence[Any], depth: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Mapping | list):
            if depth < MAX_PARTS:
                yield _summarize(part, depth + 1)
        elif part is not None:
            yield to_text(part)


def cut(text: str, most: int) -> str:
    """Return a text with at most so many characters, of which the last one says that it is cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def escape_text(text: str) -> str:
    """Return a text escaped for HTML; most need nothing."""
    return escape(text) if _UNSAFE.search(text) else text


def write_html(value: Any, kind: str, *, is_long: bool = False) -> str:
    """Return a value as escaped HTML; see `to_text`."""
    text = to_text(value, kind, is_long=is_long)
    escaped = escape_text(text)
    if kind in _TAGGED and isinstance(value, str):
        if kind == "address":
            is_link = len(value) <= MAX_TEXT_CHARS and _ADDRESS.fullmatch(value)
            return f'<a href="{escape(value)}">{escaped}</a>' if is_link else escaped
        if text not in (value, NOTHING):
            return f'<time datetime="{escape(value)}">{escaped}</time>'
    return escaped


def to_html(value: Any, kind: str, *, is_long: bool = False) -> SafeString:
    """Return a value as escaped HTML for a template; see `to_text`."""
    return mark_safe(write_html(value, kind, is_long=is_long))  # noqa: S308 - escaped above
