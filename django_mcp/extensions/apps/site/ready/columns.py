"""The columns of rows, as their schema describes them, or as the rows show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.extensions.apps.site.values import label_of, to_number
from django_mcp.protocol.json import JSONObject

MAX_COLUMNS = 30
"""Columns of a table."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


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
    return Column(path=tuple(path), title=label_of(path[-1], schema), kind=kind_of(schema))


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


def is_numeric(column: Column, rows: Sequence[Any]) -> bool:
    """Return whether all values of a column are numbers, or texts of numbers, and there is one."""
    values = [value for value in map(column.read, rows) if value is not None]
    return bool(values) and all(to_number(value) is not None for value in values)
