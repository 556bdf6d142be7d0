"""Make plainer what handlers return of Django's: querysets, managers and model instances."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext as _

from django_mcp.protocol.errors import ToolError

if TYPE_CHECKING:
    from django.db.models import Field, Model

__all__ = ["MAX_ROWS", "DjangoConverter"]

MAX_ROWS = 10_000
"""Rows of a queryset that are read for one result; a handler that has more returns a part of them.
Ours: the size of a result is bounded as well, but only known once all rows are in memory."""

_JSON_READY = (
    str, int, float, bytes, Decimal, date, time, timedelta, UUID, dict, list, NoneType,
)  # fmt: skip


class DjangoConverter:
    """Turn a queryset into a list of its rows, and a model instance into a dict of its columns.

    The names of the columns are those of the attributes (`customer_id`). A user's password is
    never among them. A handler that means fewer returns those, or declares them.
    """

    def needs_thread(self, value: Any) -> bool:
        """Return whether converting `value` may ask the database, which the event loop must not."""
        if type(value) in _JSON_READY and type(value) is not list:
            return False
        if isinstance(value, list | tuple) and value:
            value = value[0]
        return _is_rows(value) or _is_model(value)

    def convert(self, value: Any) -> Any:
        """Return something plainer for an object of Django's; any other as it is.

        Raises:
            ToolError: a queryset has more than `MAX_ROWS` rows.
        """
        if _is_rows(value):
            return _read_rows(value)
        if _is_model(value):
            return _columns_of(value)
        return value


def _is_rows(value: Any) -> bool:
    # An object of a module that nobody has loaded cannot exist; loading it needs settings.
    query = sys.modules.get("django.db.models.query")
    if query is not None and isinstance(value, query.QuerySet | query.RawQuerySet):
        return True
    manager = sys.modules.get("django.db.models.manager")
    return manager is not None and isinstance(value, manager.BaseManager)


def _is_model(value: Any) -> bool:
    base = sys.modules.get("django.db.models.base")
    return base is not None and isinstance(value, base.Model)


def _read_rows(value: Any) -> list[Any]:
    if not isinstance(value, Iterable):
        value = value.all()
    # A limit in the query, unless it has one or has been asked.
    query = getattr(value, "query", None)
    is_open = getattr(value, "_result_cache", ()) is None and not getattr(query, "is_sliced", True)
    rows = list(islice(value[: MAX_ROWS + 1] if is_open else value, MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise ToolError(
            _("There are more than %(count)d rows: ask for fewer.") % {"count": MAX_ROWS}
        )
    # Of values_list(named=True) the names are what was asked for.
    return [row._asdict() for row in rows] if rows and hasattr(rows[0], "_asdict") else rows


def _columns_of(instance: Model) -> dict[str, Any]:
    return {
        field.attname: _value_of(field, instance)
        for field in instance._meta.concrete_fields
        if not _is_secret(field, instance)
    }


def _is_secret(field: Field[Any, Any], instance: Model) -> bool:
    base = getattr(sys.modules.get("django.contrib.auth.base_user"), "AbstractBaseUser", None)
    return base is not None and field.name == "password" and isinstance(instance, base)


def _value_of(field: Field[Any, Any], instance: Model) -> Any:
    value = getattr(instance, field.attname)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    # Files give their names, geometries and the like the text that fixtures have.
    return value if isinstance(value, _JSON_READY) else field.value_to_string(instance)
