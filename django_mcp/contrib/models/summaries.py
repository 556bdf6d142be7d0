"""Counts, sums, averages and extremes of rows in groups, which the database computes in one query."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connections, models
from django.db.models import Case, Count, ExpressionWrapper, F, Func, Q, QuerySet, When, Window
from django.db.models.functions import TruncDay, TruncMonth, TruncWeek, TruncYear

from django_mcp.contrib.chosen_fields import check_name, check_names, names_schema
from django_mcp.contrib.cursors import NOTE_SCHEMA
from django_mcp.contrib.models.paging import may_be_long
from django_mcp.contrib.models.schema import describe_value, find_writer
from django_mcp.forms.values import is_a, value_field
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.big_integers import write_integer
from django_mcp.registry.listed import Listed
from django_mcp.registry.object_schemas import object_schema

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

_EDGES = (
    ("gte", datetime(1, 1, 3, tzinfo=UTC)),
    ("lt", datetime(9999, 12, 30, tzinfo=UTC)),
)
"""Between them, a moment has a day in every time zone."""

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
    if not value.is_finite():
        return None
    return format(value, "f" if places is None else f".{places}f")


_HALF = 32
"""So many bits are in the lower half of an integer of a database."""


class _Summed:
    """One of the functions of a column.

    No stored value may make it fail for those who ask for it, so nothing that the database adds up overflows.
    """

    def __init__(self, function: str, column: Column, using: str) -> None:
        self.name = function
        self._column = column
        self._field = value_field(column.field)
        self._is_decimal = isinstance(self._field, models.DecimalField)
        self._places = self._field.decimal_places if self._is_decimal else None
        connection = connections[using]
        is_sqlite = connection.vendor == "sqlite"
        self._is_postgres = connection.vendor == "postgresql"
        is_sum = function == "sum"
        digits = self._field.max_digits if self._is_decimal else None
        self._is_scaled = is_sqlite and is_sum and digits is not None and digits <= _EXACT_DIGITS
        self._is_float = isinstance(self._field, models.FloatField)
        # A sum may be longer than a duration of Python can be.
        self._is_duration = (
            isinstance(self._field, models.DurationField)
            and function in _SUMS
            and (self._is_postgres or not connection.features.has_native_duration_field)
        )
        is_integer = isinstance(self._field, models.IntegerField)
        self.is_halved = (
            is_sqlite and is_sum and (is_integer or self._is_duration or self._is_scaled)
        )

    def expressions(self, name: str) -> dict[str, Any]:
        """Return what the database computes, under names that begin with one; values are ordered by them in turn."""
        value = self._value()
        if not self.is_halved:
            return {name: _FUNCTIONS[self.name](value, **self._output())}
        # SQLite refuses a sum of more than 64 bits. One of the lower halves has fewer, whatever the values.
        high = models.Sum(_whole(value, f"((%(expressions)s) >> {_HALF})"))
        low = models.Sum(_whole(value, f"((%(expressions)s) & {2**_HALF - 1})"))
        carried = _whole(low, f"((%(expressions)s) >> {_HALF})")
        return {
            name: ExpressionWrapper(high + carried, output_field=models.BigIntegerField()),
            f"{name}_low": _whole(low, f"((%(expressions)s) & {2**_HALF - 1})"),
        }

    def _value(self) -> Any:
        value = self._column.value()
        if self._is_scaled:
            # Whole numbers of the last place, since SQLite has decimals as floats.
            return _whole(value, f"CAST(ROUND(%(expressions)s * 1e{self._places}) AS INTEGER)")
        if self._is_duration and not self._is_postgres:
            return ExpressionWrapper(value, output_field=models.BigIntegerField())
        if self._is_postgres and self.name in _SUMS and (self._is_duration or self._is_float):
            template = "CAST(%(expressions)s AS numeric)"
            if self._is_duration:
                template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) * 1000000 AS numeric)"
            number = models.DecimalField(max_digits=1000, decimal_places=6)
            return Func(value, template=template, output_field=number)
        return value

    def _output(self) -> dict[str, Any]:
        if not self._is_decimal:
            return {}
        digits = self._field.max_digits
        field = models.DecimalField(max_digits=digits, decimal_places=self._places)
        return {"output_field": field}

    def write(self, row: Mapping[str, Any], name: str) -> Any:
        """Return what was computed under a name as results have it."""
        value = row[name]
        if self.is_halved and value is not None:
            value = (value << _HALF) + row[f"{name}_low"]
        if value is None or (isinstance(value, float | Decimal) and not math.isfinite(value)):
            return None
        if self._is_duration:
            return _write_duration(round(value))
        if self._is_scaled:
            return _write_decimal(Decimal(value).scaleb(-(self._places or 0)), self._places)
        if self.name == "avg":
            return self._write_average(value)
        if self._is_decimal:
            return _write_decimal(value, self._places)
        if self._is_float:
            found = float(value)
            return found if math.isfinite(found) else None
        if self.name == "sum" and isinstance(value, int | Decimal):
            return write_integer(int(value))
        return self._column.write(value)

    def _write_average(self, value: Any) -> Any:
        if self._is_decimal:
            return _write_decimal(value, (self._places or 0) + 2)
        if isinstance(value, int | float | Decimal):
            return float(f"{value:.10g}")
        return value


def _whole(value: Any, template: str) -> Any:
    return Func(value, template=template, output_field=models.BigIntegerField())


def _write_duration(microseconds: int) -> timedelta | str:
    """Return a duration, as text if Python has none that is so long."""
    try:
        return timedelta(microseconds=microseconds)
    except OverflowError:
        days, rest = divmod(abs(microseconds), _MICROSECONDS_OF_DAY)
        sign = "-" if microseconds < 0 else ""
        return f"{sign}P{days}DT{Decimal(rest) / 1_000_000:f}S"


_MICROSECONDS_OF_DAY = 24 * 60 * 60 * 1_000_000


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
        for function in _FUNCTIONS:
            self._read_values(function, arguments.get(function, ()))
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

    def _read_values(self, function: str, given: Sequence[str]) -> None:
        kind = "is_number" if function in _SUMS else "is_ordered"
        seen = {name: each for name, each in self._columns.items() if getattr(each, kind)}
        check_names(function, given, seen)
        for name in dict.fromkeys(given):
            column = seen[name]
            self._values[f"{function}__{name}"] = _Summed(function, column, self._rows.db)
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
        halved = {name for name, each in self._values.items() if each.is_halved}
        order = [F(place).asc(nulls_last=True) for place in places.values()]
        if given is None:
            return order
        name = given.removeprefix("-")
        check_name(["ordering"], name, names)
        first = [names[name], *([f"{names[name]}_low"] if name in halved else [])]
        if given.startswith("-"):
            return [*(F(place).desc(nulls_last=True) for place in first), *order]
        return [*(F(place).asc(nulls_last=True) for place in first), *order]

    def read(self) -> tuple[list[JSONObject], int]:
        """Return the first groups, and how many there are in all."""
        values = {"mcp_count": Count("pk")}
        for index, each in enumerate(self._values.values()):
            values |= each.expressions(f"mcp_value_{index}")
        if not self._groups:
            return [self._write(self._rows.aggregate(**values))], 1
        by = {f"mcp_group_{n}": self._group(*each) for n, each in enumerate(self._groups.values())}
        grouped = self._rows.order_by().values(**by).annotate(**values)
        counted = grouped.annotate(mcp_total=Window(Count("*")))
        rows = list(counted.order_by(*self._order)[: self._limit])
        return [self._write(row) for row in rows], rows[0]["mcp_total"] if rows else 0

    def _group(self, column: Column, truncate: Any) -> Any:
        value = column.value()
        if truncate is None:
            return value
        local = truncate(value, output_field=models.DateField())
        if not (settings.USE_TZ and isinstance(value_field(column.field), models.DateTimeField)):
            return local
        # At the edges, the day in another time zone may be one that no date has.
        least, most = ((f"{column.lookup}__{at}", edge) for at, edge in _EDGES)
        stored = truncate(
            value, output_field=models.DateField(), tzinfo=connections[self._rows.db].timezone
        )
        return Case(
            When(Q(least, most), then=local), default=stored, output_field=models.DateField()
        )

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
            written.setdefault(each.name, {})[name] = each.write(row, f"mcp_value_{index}")
        return written


def _write_group(value: Any, column: Column, truncate: Any) -> Any:
    if truncate is None:
        return column.write(value)
    if isinstance(value, datetime):
        # Some databases give the first moment of a day.
        value = value.date()
    return value.isoformat() if isinstance(value, date) else value
