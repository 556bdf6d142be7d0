"""A text field whose values are compared exactly, on every database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.expressions import Combinable

if TYPE_CHECKING:
    _CharField = models.CharField[str | int | Combinable, str]
else:
    _CharField = models.CharField


class KeyField(_CharField):
    """A text that identifies rows, such as a name, an owner or a digest.

    MySQL and MariaDB compare texts without regard to case and to spaces at the end, so that one owner
    would be another. Here they compare them as the other databases do.
    """

    def db_parameters(self, connection: Any) -> Any:
        """Return Django's parameters, with the collation of MySQL and MariaDB that compares bytes."""
        parameters = super().db_parameters(connection)
        if connection.vendor == "mysql":
            is_mariadb = connection.mysql_is_mariadb
            # Both pad neither of two texts with spaces.
            parameters["collation"] = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        return parameters


def set_collations(app_label: str) -> Callable[[Any, Any], None]:
    """Return what gives the columns of an app's fields their collation, in a migration.

    Columns that later migrations add have it from the start.
    """

    def alter(apps: Any, schema_editor: Any) -> None:
        connection = schema_editor.connection
        if connection.vendor != "mysql":
            return
        quote = connection.ops.quote_name
        for model in apps.get_app_config(app_label).get_models():
            changes = ", ".join(
                f"MODIFY {quote(field.column)} {field.db_type(connection)} "
                f"COLLATE {field.db_parameters(connection)['collation']} NOT NULL"
                for field in model._meta.local_fields
                if isinstance(field, KeyField)
            )
            if changes:
                schema_editor.execute(f"ALTER TABLE {quote(model._meta.db_table)} {changes}")

    return alter
