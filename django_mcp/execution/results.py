"""Convert Django's querysets, exceptions and language for the server core."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice
from types import NoneType
from typing import Any
from uuid import UUID

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    ObjectDoesNotExist,
    PermissionDenied,
    ValidationError,
)
from django.utils.translation import gettext as _

from django_mcp.protocol.errors import ToolError
from django_mcp.registry.returns import ReturnError
from django_mcp.server.exchange.call import Failure, FailureKind

MAX_ROWS = 10_000
"""Rows of a queryset that are read for one result. Our own limit: the size of a result is limited as
well, but known only after all rows are in memory."""

_PLAIN = (
    str, int, float, bytes, Decimal, date, time, timedelta, UUID, dict, list, NoneType,
)  # fmt: skip


class DjangoConverter:
    """Converts querysets of named values to lists.

    Model instances are refused: only fields named by a type, `values()` or a dict are published.
    """

    def needs_thread(self, value: Any) -> bool:
        """Return whether converting `value` may query the database, which must not happen on the event loop."""
        if type(value) in _PLAIN and type(value) is not list:
            return False
        if isinstance(value, list | tuple) and value:
            value = value[0]
        return _is_rows(value) or _is_model(value)

    def convert(self, value: Any) -> Any:
        """Return a list for a queryset of named values; any other object as it is.

        Raises:
            ReturnError: it is a model instance, or a queryset of them.
            ToolError: a queryset has more than `MAX_ROWS` rows.
        """
        if _is_model(value):
            raise ReturnError(_unnamed(type(value)))
        return _read_rows(value) if _is_rows(value) else value


def _unnamed(model: type[Any]) -> str:
    return (
        f"{model.__name__} is a model, and nothing names the fields to publish: declare them in the return "
        f"annotation with a dataclass, a TypedDict or a pydantic model, or return queryset.values('id', ...) "
        f"or a dict"
    )


def _is_of(value: Any, module: str, *names: str) -> bool:
    """Return whether a value is of one of a module's classes, without loading the module.

    It is not, if nothing has loaded the module. Loading it needs settings.
    """
    found = sys.modules.get(module)
    return found is not None and isinstance(value, tuple(getattr(found, name) for name in names))


def _is_rows(value: Any) -> bool:
    return _is_of(value, "django.db.models.query", "QuerySet", "RawQuerySet") or _is_of(
        value, "django.db.models.manager", "BaseManager"
    )


def _is_model(value: Any) -> bool:
    return _is_of(value, "django.db.models.base", "Model")


def _read_rows(value: Any) -> list[Any]:
    if not isinstance(value, Iterable):
        value = value.all()
    if _gives_instances(value):
        raise ReturnError(_unnamed(value.model))
    # A limit in the query, unless it has one or was executed.
    is_open = value._result_cache is None and not value.query.is_sliced
    rows = list(islice(value[: MAX_ROWS + 1] if is_open else value, MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise ToolError(
            _("There are more than %(count)d rows: ask for fewer.") % {"count": MAX_ROWS}
        )
    # values_list(named=True) asks for the names.
    return [row._asdict() for row in rows] if rows and hasattr(rows[0], "_asdict") else rows


def _gives_instances(rows: Any) -> bool:
    """Return whether the rows are instances of a model."""
    query = sys.modules["django.db.models.query"]
    kind = getattr(rows, "_iterable_class", query.ModelIterable)
    return issubclass(kind, query.ModelIterable)


class DjangoExceptions:
    """Maps Django's exceptions for denied, missing and invalid things to failures.

    The application's own text of an exception reaches the client, as in Django's error pages; texts
    about Django's internals do not.
    """

    def map(self, error: Exception) -> Failure | None:
        if isinstance(error, ValidationError):
            return Failure(kind=FailureKind.INVALID, message="\n".join(_validation_texts(error)))
        if isinstance(error, PermissionDenied):
            return Failure(
                kind=FailureKind.DENIED, message=_own_text(error) or _("Permission denied.")
            )
        if isinstance(error, ObjectDoesNotExist):
            return Failure(kind=FailureKind.MISSING, message=_missing_text(error))
        if _is_of(error, "django.http.response", "Http404"):
            return Failure(kind=FailureKind.MISSING, message=_own_text(error) or _("Not found."))
        return None

    def missing(self) -> Failure:
        return Failure(kind=FailureKind.MISSING, message=_("Not found."))


def _own_text(error: Exception) -> str:
    """Return the application's text of an exception; "" if it has none."""
    first = error.args[0] if error.args else ""
    # A URL resolver passes a dict of the patterns that it tried.
    return "" if isinstance(first, dict | list | tuple) else str(first)


def _missing_text(error: ObjectDoesNotExist) -> str:
    # Of "shop.models.Order.DoesNotExist" only "Order" may be published.
    model, _dot, name = type(error).__qualname__.rpartition(".")
    if name == "DoesNotExist" and model:
        return _("%(name)s not found.") % {"name": model.rpartition(".")[2]}
    return _("Not found.")


def _validation_texts(error: ValidationError) -> Iterator[str]:
    if not hasattr(error, "error_dict"):
        yield from error.messages
        return
    for field, messages in error.message_dict.items():
        for message in messages:
            yield message if field == NON_FIELD_ERRORS else f"{field}: {message}"
