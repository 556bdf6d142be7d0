"""Rows in every table of the package: `python -m tests.support.upgrade.rows fill` or `show`.

`show` prints them, the columns of the tables, and whether another row can be added, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import django
from django.apps import apps
from django.db import connection, models

APPS = ("django_mcp", "django_mcp_oauth")
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def tables() -> list[type[models.Model]]:
    """Return the models of the package, those first that others refer to."""
    found = [model for app in APPS for model in apps.get_app_config(app).get_models()]
    return sorted(found, key=lambda model: len(_parents(model)))


def _parents(model: type[models.Model]) -> list[type[models.Model]]:
    return [field.related_model for field in model._meta.concrete_fields if field.is_relation]  # type: ignore[misc]


def fill(number: int = 1) -> None:
    """Add a row to each table, and the rows of other apps that it refers to."""
    made: dict[type[models.Model], Any] = {}
    for model in tables():
        _make(model, made, number)


def _make(model: type[models.Model], made: dict[type[models.Model], Any], number: int) -> Any:
    if model not in made:
        values = {
            field.name: _value(field, made, number)
            for field in model._meta.concrete_fields
            if not isinstance(field, models.AutoField) and field.related_model is not model
        }
        made[model] = model._base_manager.create(**values)
    return made[model]


def _value(field: Any, made: dict[type[models.Model], Any], number: int) -> Any:
    if field.is_relation:
        return _make(field.related_model, made, number)
    if field.choices:
        return field.choices[0][0]
    for kind, make in _MAKERS.items():
        if isinstance(field, kind):
            return make(number)
    return f"{field.name}-{number}"[: field.max_length]


_MAKERS: dict[type[models.Field[Any, Any]], Callable[[int], Any]] = {
    models.BooleanField: lambda _: True,
    models.DateTimeField: lambda _: THEN,
    models.DateField: lambda _: THEN.date(),
    models.IntegerField: lambda number: number,
    models.FloatField: float,
    models.JSONField: lambda number: {"number": number},
    models.BinaryField: lambda number: bytes([number]),
    models.UUIDField: lambda number: f"00000000-0000-4000-8000-{number:012}",
}
"""What makes a value of a field, by its class; any other field gets a text."""


def show() -> dict[str, Any]:
    """Return the rows of each table, and its columns."""
    shown: dict[str, Any] = {}
    for model in tables():
        rows = list(model._base_manager.order_by("pk"))
        columns = [field.attname for field in model._meta.concrete_fields]
        with connection.cursor() as cursor:
            described = connection.introspection.get_table_description(cursor, model._meta.db_table)
        shown[model._meta.label] = {
            "rows": [{name: str(getattr(row, name)) for name in columns} for row in rows],
            "table": sorted(
                [each.name, str(each.type_code), bool(each.null_ok)] for each in described
            ),
        }
    return shown


if __name__ == "__main__":
    django.setup()
    if sys.argv[1:] == ["fill"]:
        fill()
    else:
        found = show()
        fill(1 + max(len(each["rows"]) for each in found.values()))
        print(json.dumps(found))
