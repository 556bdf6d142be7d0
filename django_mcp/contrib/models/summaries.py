"""Counts, sums, averages and extremes of rows in groups, which the database computes in one query."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.db import connections, models
from django.db.models import Case, Count, F, Func, Q, QuerySet, When, Window
from django.db.models.functions import TruncDay, TruncMonth, TruncWeek, TruncYear

from django_mcp.contrib.chosen_fields import check_name, check_names, names_schema
from django_mcp.contrib.cursors import NOTE_SCHEMA
from django_mcp.contrib.generated import object_schema
from django_mcp.contrib.models.paging import may_be_long
from django_mcp.contrib.models.schema import describe_value, find_writer
from django_mcp.contrib.values import is_a, value_field
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.big_integers import write_integer
from django_mcp.registry.listed import Listed

SUMMARIZE = "summarize"
"""What the tool does, as options name it."""

MAX_GROUPS = 200
"""Groups in a result."""

_SUMS: Mapping[str, Any] = {"sum": models.Sum, "avg": models.Avg}
_ENDS: Mapping[str, Any] = {"min": models.Min, "max": models.Max}
_FUNCTIONS: Mapping[str, Any] = {**_SUMS, **_ENDS}

_UNITS: Mapping[str, Any] = {
    "day": TruncDay,
    "week": TruncWeek,
    "month": TruncMonth,
    "year": TruncYear,
}
"""What dates are grouped by, in the current time zone; a group is called by its first day."""

ARGUMENTS = ("group_by", *_FUNCTIONS, "ordering", "limit")
"""Arguments of the tool; a filter of such a name is none."""

OUTPUT = object_schema(
    {
        "groups": {
            "type": "array",
            "items": object_schema(
                {
                    "group": {"type": "object"},
                    "count": {"type": "integer"},
                    **{name: {"type": "object"} for name in _FUNCTIONS},
                },
                required=["count"],
            ),
        },
        "total": {"type": "integer", "description": "How many groups there are in all."},
        "note": NOTE_SCHEMA,
    },
    required=["groups", "total"],
)
"""The output schema of the tool."""

_NUMBERS = (models.IntegerField, models.DecimalField, models.FloatField, models.DurationField)
_DATES = (models.DateField, models.TimeField)
_EXACT_DIGITS = 15
"""So many digits of a decimal are exact in SQLite, which has floats in their place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column that a tool shows.

    Attributes:
        lookup: its path from the model.
        field: its field.
        visible: the condition under which the caller sees its value; None: always.
    """

    lookup: str
    field: Any
    visible: Q | None = None

    @property
    def is_money(self) -> bool:
        """Whether a column beside it says the currency."""
        return is_a(self.field, "djmoney.models.fields.MoneyField")

    @property
    def is_group(self) -> bool:
        """Whether rows can be grouped by it: its values are plain and short ones, as they are stored."""
        is_file = isinstance(value_field(self.field), models.FileField)
        if self.is_money or is_file or may_be_long(self.field):
            return False
        schema = describe_value(self.field, is_input=False)
        kind = schema.get("type")
        kinds = {kind} if isinstance(kind, str) else {*(kind or ())}
        return "anyOf" in schema or (bool(kinds) and kinds.isdisjoint({"array", "object"}))

    @property
    def is_number(self) -> bool:
        """Whether its values can be added."""
        is_key = self.field.is_relation or self.field.primary_key
        return not is_key and isinstance(value_field(self.field), _NUMBERS) and self._is_plain

    @property
    def is_date(self) -> bool:
        """Whether its values have a day."""
        return isinstance(value_field(self.field), models.DateField) and self._is_plain

    @property
    def is_ordered(self) -> bool:
        """Whether its values have a smallest and a largest one."""
        is_time = isinstance(value_field(self.field), _DATES) and self._is_plain
        return self.is_number or is_time

    @property
    def _is_plain(self) -> bool:
        # A field of another package may store something else than it shows.
        return self.is_money or not hasattr(type(value_field(self.field)), "from_db_value")

    @property
    def currency(self) -> Column:
        """The column that says the currency."""
        name = getattr(self.field, "currency_field_name", None) or f"{self.field.name}_currency"
        field = self.field.model._meta.get_field(name)
        start, separator, _name = self.lookup.rpartition("__")
        return Column(lookup=f"{start}{separator}{name}", field=field, visible=self.visible)

    def value(self) -> Any:
        """Return the expression of its value, null where the caller does not see it."""
        if self.visible is None:
            return F(self.lookup)
        return Case(When(self.visible, then=F(self.lookup)), default=None)

    def write(self, value: Any) -> Any:
        """Return one of its values as results have it."""
        return None if value is None else _writer(value_field(self.field))(value)


def _writer(field: Any) -> Callable[[Any], Any]:
    if isinstance(field, models.DecimalField):
        return lambda value: _write_decimal(value, field.decimal_places)
    return find_writer(field) or (lambda value: value)


def _write_decimal(value: Any, places: int | None) -> Any:
    if not isinstance(value, Decimal):
        return value
    return format(value, "f" if places is None else f".{places}f")


class _Summed:
    """One of the functions of a column."""

    def __init__(self, function: str, column: Column, vendor: str) -> None:
        self.name = function
        self._column = column
        self._field = value_field(column.field)
        self._is_decimal = isinstance(self._field, models.DecimalField)
        self._places = self._field.decimal_places if self._is_decimal else None
        digits = self._field.max_digits if self._is_decimal else None
        self._is_scaled = (
            vendor == "sqlite"
            and function == "sum"
            and digits is not None
            and digits <= _EXACT_DIGITS
        )

    def expression(self) -> Any:
        """Return what the database computes."""
        value = self._column.value()
        if self._is_scaled:
            # Whole numbers of the last place, since SQLite has decimals as floats.
            template = f"CAST(ROUND(%(expressions)s * 1e{self._places}) AS INTEGER)"
            value = Func(value, template=template, output_field=models.BigIntegerField())
            return models.Sum(value)
        kind = {}
        if self._is_decimal:
            kind["output_field"] = models.DecimalField(
                max_digits=self._field.max_digits, decimal_places=self._places
            )
        return _FUNCTIONS[self.name](value, **kind)

    def write(self, value: Any) -> Any:
        """Return a computed value as results have it."""
        if value is None:
            return None
        if self._is_scaled:
            value = Decimal(value).scaleb(-(self._places or 0))
        if self.name == "avg":
            return self._write_average(value)
        if self._is_decimal:
            return _write_decimal(value, self._places)
        if self.name == "sum" and isinstance(value, int | Decimal):
            return write_integer(int(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return self._column.write(value)

    def _write_average(self, value: Any) -> Any:
        if self._is_decimal:
            return _write_decimal(value, (self._places or 0) + 2)
        if isinstance(value, int | float | Decimal):
            return float(f"{value:.10g}") if math.isfinite(value) else None
        return value


def describe(columns: Mapping[str, Column]) -> JSONObject:
    """Return the schemas of the arguments that say what is computed, for all columns that there are."""
    properties: JSONObject = {}
    groups = [name for name, column in columns.items() if column.is_group]
    dates = [name for name, column in columns.items() if column.is_date]
    if groups:
        told = f"Columns: {', '.join(groups)}."
        if dates:
            units = ", ".join(f"__{unit}" for unit in _UNITS)
            told += f" {', '.join(dates)} may end with {units}."
        properties["group_by"] = names_schema(told)
    for functions, kind in ((_SUMS, "is_number"), (_ENDS, "is_ordered")):
        names = [name for name, column in columns.items() if getattr(column, kind)]
        if names:
            told = f"Columns: {', '.join(names)}."
            properties |= {function: names_schema(told) for function in functions}
    properties["ordering"] = {
        "type": "string",
        "maxLength": 200,
        "description": "What is in group_by, count, or such as sum__name; - in front: descending.",
    }
    properties["limit"] = {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_GROUPS,
        "default": MAX_GROUPS,
        "description": "How many groups to return.",
    }
    return properties


def without_own(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that select rows."""
    return {name: value for name, value in arguments.items() if name not in ARGUMENTS}


def summarize(
    rows: QuerySet[Any],
    columns: Mapping[str, Column],
    arguments: Mapping[str, Any],
    explain: Callable[..., str],
) -> JSONObject:
    """Return the groups of some rows.

    Args:
        rows: those that the caller may see, and that the filters select.
        columns: that the caller sees, by name.
        arguments: of the call.
        explain: returns a note about the search; takes `is_empty`, whether nothing was found.

    Raises:
        ArgumentErrors: another column is named.
    """
    summary = _Summary(rows, columns, arguments)
    groups, total = summary.read()
    result: JSONObject = {"groups": groups, "total": total}
    told = explain(is_empty=not any(group["count"] for group in groups))
    notes = [_note(len(groups), total) if len(groups) < total else "", told]
    if any(notes):
        result["note"] = " ".join(filter(None, notes))
    return Listed(result, "groups", lambda kept: {"note": _note(kept, total)}, told=told)


def _note(kept: int, total: int) -> str:
    return (
        f"The first {kept} of {total} groups. Filter the rows, or order the groups otherwise, "
        "to get the others."
    )


class _Summary:
    def __init__(
        self, rows: QuerySet[Any], columns: Mapping[str, Column], arguments: Mapping[str, Any]
    ) -> None:
        # Not the rows themselves: a join by a filter would count them several times.
        plain: QuerySet[Any] = QuerySet(rows.model, using=rows.db)
        self._rows = plain.filter(pk__in=rows.order_by().values("pk"))
        self._columns = columns
        self._limit = arguments.get("limit", MAX_GROUPS)
        self._groups: dict[str, tuple[Column, Any]] = {}
        self._values: dict[str, _Summed] = {}
        self._read_groups(arguments.get("group_by", ()))
        vendor = connections[rows.db].vendor
        for function in _FUNCTIONS:
            self._read_values(function, arguments.get(function, ()), vendor)
        self._order = self._read_order(arguments.get("ordering"))

    def _read_groups(self, given: Sequence[str]) -> None:
        seen: dict[str, tuple[Column, Any]] = {}
        for name, column in self._columns.items():
            if column.is_group:
                seen[name] = (column, None)
            if column.is_date:
                seen |= {f"{name}__{unit}": (column, each) for unit, each in _UNITS.items()}
        check_names("group_by", given, seen)
        self._groups = {name: seen[name] for name in dict.fromkeys(given)}

    def _read_values(self, function: str, given: Sequence[str], vendor: str) -> None:
        kind = "is_number" if function in _SUMS else "is_ordered"
        seen = {name: each for name, each in self._columns.items() if getattr(each, kind)}
        check_names(function, given, seen)
        for name in dict.fromkeys(given):
            column = seen[name]
            self._values[f"{function}__{name}"] = _Summed(function, column, vendor)
            if column.is_money:
                # Amounts of several currencies have no sum.
                self._groups.setdefault(f"{name}_currency", (column.currency, None))

    def _read_order(self, given: str | None) -> list[Any]:
        places = {name: f"mcp_group_{index}" for index, name in enumerate(self._groups)}
        names = {
            **places,
            "count": "mcp_count",
            **{name: f"mcp_value_{index}" for index, name in enumerate(self._values)},
        }
        order = [F(place).asc(nulls_last=True) for place in places.values()]
        if given is None:
            return order
        name = given.removeprefix("-")
        check_name(["ordering"], name, names)
        place = F(names[name])
        is_descending = given.startswith("-")
        first = place.desc(nulls_last=True) if is_descending else place.asc(nulls_last=True)
        return [first, *order]

    def read(self) -> tuple[list[JSONObject], int]:
        """Return the first groups, and how many there are in all."""
        values = {
            "mcp_count": Count("pk"),
            **{f"mcp_value_{n}": each.expression() for n, each in enumerate(self._values.values())},
        }
        if not self._groups:
            return [self._write(self._rows.aggregate(**values))], 1
        by = {f"mcp_group_{n}": self._group(*each) for n, each in enumerate(self._groups.values())}
        grouped = self._rows.order_by().values(**by).annotate(**values)
        counted = grouped.annotate(mcp_total=Window(Count("*")))
        rows = list(counted.order_by(*self._order)[: self._limit])
        return [self._write(row) for row in rows], rows[0]["mcp_total"] if rows else 0

    def _group(self, column: Column, truncate: Any) -> Any:
        value = column.value()
        return value if truncate is None else truncate(value, output_field=models.DateField())

    def _write(self, row: Mapping[str, Any]) -> JSONObject:
        written: JSONObject = {}
        if self._groups:
            written["group"] = {
                name: _write_group(row[f"mcp_group_{index}"], *each)
                for index, (name, each) in enumerate(self._groups.items())
            }
        written["count"] = row["mcp_count"]
        for index, (key, each) in enumerate(self._values.items()):
            name = key.removeprefix(f"{each.name}__")
            written.setdefault(each.name, {})[name] = each.write(row[f"mcp_value_{index}"])
        return written


def _write_group(value: Any, column: Column, truncate: Any) -> Any:
    if truncate is None:
        return column.write(value)
    return value.isoformat() if isinstance(value, date) else value
