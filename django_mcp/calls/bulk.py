"""Insert rows without model objects, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import Model

__all__ = ["insert_rows"]


def insert_rows(
    connection: BaseDatabaseWrapper,
    model: type[Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    suffix: str = "",
) -> None:
    """Insert rows in the order given.

    Args:
        connection: the database.
        model: the model of the table.
        columns: names of the model's fields, in the order of a row's values.
        rows: values in the form of the database driver.
        suffix: the end of the statement, such as an `ON CONFLICT` clause.
    """
    quote = connection.ops.quote_name
    fields: list[Any] = [model._meta.get_field(name) for name in columns]
    names = ", ".join(quote(field.column) for field in fields)
    target = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One text, which the database parses: a tenth of this process's cost of binding a
            # parameter for each value.
            values = ", ".join(
                f"(item->>{at})::{field.cast_db_type(connection)}"
                for at, field in enumerate(fields)
            )
            text = msgspec.json.encode(rows, enc_hook=str).decode()
            source = f"{values} FROM json_array_elements(%s) AS item"
            cursor.execute(f"{target} SELECT {source} {suffix}", [text])
        else:
            marks = ", ".join(["%s"] * len(fields))
            cursor.executemany(f"{target} VALUES ({marks}) {suffix}", rows)
