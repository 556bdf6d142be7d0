"""Write many rows in one statement, at a tenth of what Django's objects cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Model


def insert_rows(
    connection: BaseDatabaseWrapper,
    model: type[Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    suffix: str = "",
) -> None:
    """Insert rows in the order given.

    Args:
        model: the model of the table.
        columns: names of the model's fields, in the order of a row's values.
        rows: values in the form of the database driver.
        suffix: the end of the statement, such as an `ON CONFLICT` clause.
    """
    quote = connection.ops.quote_name
    targets: list[Any] = [model._meta.get_field(name) for name in columns]
    names = ", ".join(quote(field.column) for field in targets)
    target = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One text, which the database parses: a tenth of this process's cost of binding a
            # parameter for each value.
            values = ", ".join(
                f"(item->>{at})::{field.cast_db_type(connection)}"
                for at, field in enumerate(targets)
            )
            text = msgspec.json.encode(rows, enc_hook=str).decode()
            source = f"{values} FROM json_array_elements(%s) AS item"
            cursor.execute(f"{target} SELECT {source} {suffix}", [text])
        else:
            marks = ", ".join(["%s"] * len(targets))
            cursor.executemany(f"{target} VALUES ({marks}) {suffix}", rows)


def upsert_rows(
    using: str,
    model: type[Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    key: Sequence[str],
    changed: Sequence[str],
    is_sum: bool = False,
) -> None:
    """Insert rows in the order given; of those that exist, change some fields. In the caller's transaction.

    Args:
        key: the first of the columns, by which a row is known.
        changed: those whose value is replaced.
        is_sum: the value is added to the one that is there.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    old = quote(model._meta.db_table) + "." if is_sum else ""
    if connection.vendor == "mysql":
        marks, new = "ON DUPLICATE KEY UPDATE", "VALUES({})"
    elif connection.features.supports_update_conflicts_with_target:
        marks = f"ON CONFLICT ({', '.join(map(quote, key))}) DO UPDATE SET"
        new = "excluded.{}"
    else:
        _upsert_each(using, model, columns, rows, key, changed, is_sum=is_sum)
        return
    sets = []
    for name in map(quote, changed):
        value = new.format(name)
        sets.append(f"{name} = {old}{name} + {value}" if is_sum else f"{name} = {value}")
    insert_rows(connection, model, columns, rows, f"{marks} {', '.join(sets)}")


def _upsert_each(
    using: str,
    model: type[Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    key: Sequence[str],
    changed: Sequence[str],
    *,
    is_sum: bool,
) -> None:
    table = model._default_manager.using(using)
    for row in rows:
        new = dict(zip(columns, row, strict=True))
        same = {name: new.pop(name) for name in key}
        _, is_new = table.get_or_create(**same, defaults=new)
        if not is_new:
            update = {name: F(name) + new[name] if is_sum else new[name] for name in changed}
            table.filter(**same).update(**update)
