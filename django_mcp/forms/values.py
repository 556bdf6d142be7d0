"""Values of clients on their way into queries: which of them a column can hold, and which errors are about them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal, DecimalException
from functools import lru_cache
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    connections,
    models,
    router,
)
from django.utils.translation import gettext as _

from django_mcp.execution.moments import read_moment
from django_mcp.log import logger
from django_mcp.registry.big_integers import MAX_EXACT

MAX_TEXT_CHARS = 200
"""Of a text that is searched for."""

MAX_EXPONENT = 1000
"""Decimals with more digits in front of the point, or behind it, reach no database."""

MAX_INTEGER = 2**63
"""Integers are smaller, on every database."""


BOUNDS = ("[)", "[]", "(]", "()")
"""Which ends belong to a range: those in square brackets do."""


def is_a(value: Any, path: str) -> bool:
    """Return whether an object is of a class, which its path names, as its package may be missing."""
    cls: Any = type(value)
    return _is_class(cls, path)


@lru_cache(maxsize=1024)
def _is_class(found: Any, path: str) -> bool:
    return any(f"{cls.__module__}.{cls.__qualname__}" == path for cls in found.__mro__)


def text_of(instance: models.Model) -> str | None:
    """Return what an object is called; None, if its `__str__` fails, which it may for rows that nobody expected."""
    try:
        return str(instance)
    except DatabaseError:
        raise  # its transaction is over
    except Exception:
        logger.warning("An object of %s has no text", instance._meta.label, exc_info=True)
        return None


def value_field(field: Any) -> Any:
    """Follow foreign keys to the field whose values are stored, and return it."""
    while True:
        if isinstance(field, models.ForeignKey):
            field = field.target_field
        elif field.is_relation:
            return field.related_model._meta.pk
        elif isinstance(field, models.GeneratedField):
            field = field.output_field
        else:
            return field


def may_be_rounded(field: Any) -> bool:
    """Return whether a field, or the key that it refers to, may have integers that clients round.

    Those are of 64 bits, unless validators or choices keep them small. A key that a database counts
    up is none, unless a validator of the site permits as much.
    """
    own_field = value_field(field)
    is_counted = isinstance(own_field, models.AutoField)
    if not isinstance(own_field, models.BigIntegerField):
        return False
    if is_counted:
        # Without the limits that the database has.
        own = getattr(own_field, "_validators", ())
        return any(abs(limit) > MAX_EXACT for limit in _limits_of(own, BaseValidator))
    largest = _limits_of(own_field.validators, MaxValueValidator)
    smallest = _limits_of(own_field.validators, MinValueValidator)
    choices = [value for value, _label in own_field.flatchoices or ()]
    if choices:
        return any(type(choice) is int and abs(choice) > MAX_EXACT for choice in choices)
    return (
        min(largest, default=MAX_INTEGER) > MAX_EXACT
        or max(smallest, default=-MAX_INTEGER) < -MAX_EXACT
    )


def _limits_of(validators: Iterable[Any], kind: type[BaseValidator]) -> list[int]:
    limits = (each.limit_value for each in validators if isinstance(each, kind))
    values = [limit() if callable(limit) else limit for limit in limits]
    return [value for value in values if isinstance(value, int)]


def takes_pattern(lookup: str) -> bool:
    """Return whether a lookup, or a path with one at its end, compares with a regular expression.

    One of a client can keep a database busy.
    """
    return lookup.rpartition("__")[2] in ("regex", "iregex")


def to_python(field: Any, value: Any, using: str | None = None) -> Any:
    """Return a value of JSON as a field has it, if its column can be compared with it.

    Args:
        field: of a model; of a relation, the field that it leads to.
        value: as a client sent it.
        using: the database; by default the one that the model of the field is read from.

    Raises:
        ValidationError: no row can have the value.
    """
    compared = value_field(field)
    check_plain(value)
    converted = _convert(compared, value)
    check_column(compared, converted, using or router.db_for_read(field.model))
    return converted


def _convert(field: Any, value: Any) -> Any:
    base = getattr(field, "base_field", None)
    if base is not None and isinstance(value, list):  # of an array or a range of PostgreSQL
        value = [None if each is None else _convert(base, each) for each in value]
    converted = _try(field.to_python, value)
    return read_moment(converted) if isinstance(converted, datetime) else converted


def check_plain(value: Any) -> None:
    """Check that a value of JSON has no text that some database cannot hold.

    Raises:
        ValidationError: it has a null character, or half of a surrogate pair.
    """
    if isinstance(value, str):
        if "\0" in value:
            raise ValidationError(_("Null characters are not allowed."))
        if not value.isascii():
            _try(str.encode, value)
    elif isinstance(value, list | dict):
        for part in value if isinstance(value, list) else [*value, *value.values()]:
            check_plain(part)


def check_column(field: Any, value: Any, using: str) -> None:
    """Check that the column of a field can hold a value, or be compared with it.

    The validators that a site has added are not asked: they may refuse what rows have.

    Raises:
        ValidationError: it cannot.
    """
    if value is None:
        return
    connection = connections[using]
    if isinstance(value, Decimal) and not (
        value.is_finite() and abs(value.adjusted()) < MAX_EXPONENT
    ):
        raise _invalid()
    if isinstance(field, models.GenericIPAddressField) and value:
        field.run_validators(value)
    prepared = _try(lambda each: field.get_db_prep_value(each, connection), value)
    if isinstance(prepared, int) and not isinstance(prepared, bool):
        low = high = None
        if isinstance(field, models.IntegerField):
            low, high = connection.ops.integer_field_range(field.get_internal_type())
        if not (-MAX_INTEGER if low is None else low) <= prepared <= (high or MAX_INTEGER - 1):
            raise _invalid()


_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code raises that a value of a client does not suit."""


def _try(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except _FAULTS:
        raise _invalid() from None


def _invalid() -> ValidationError:
    return ValidationError(_("Enter a valid value."))


_STATES = ("22", "23", "54", "42804")
"""How SQLSTATE begins: data exceptions, violated constraints, limits such as the size of an index row, and a value of
another type than its column, such as a number for a range."""

_MYSQL = {
    1116, 1139, 1153, 1264, 1265, 1292, 1366, 1367, 1406, 1411, 1441, 1525, 1690, 3140, 3141, 3143, 3144, 3685, 3692,
}  # fmt: skip
"""Errors about data that MySQL and MariaDB report as operational ones."""

_TEXTS = (
    # SQLite
    "binding parameter", "blob too big", "expression tree is too large", "integer overflow", "json path",
    "malformed json", "parser stack overflow", "pattern too complex", "too many sql variables",
    "tables in a join", "user-defined function raised exception",
    # PostgreSQL
    "stack depth limit exceeded",
    # psycopg
    "cannot adapt type", "cannot contain nul",
)  # fmt: skip


_IN_RESPONSE = re.compile(r"(DataError|IntegrityError|OverflowError|InvalidOperation)\b")
"""How pydantic tells of an error about a value, of which it keeps the text alone."""


_PREPARATION = (
    "adapt_", "execute", "get_db_prep_", "get_prep_", "prepare_value", "process_rhs", "year_lookup_bounds",
)  # fmt: skip
"""Functions of Django that bring values into the form of the database."""


_CONVERSIONS = ("to_internal_value", "to_python")
"""Functions of fields, and of serializers, that bring values of clients into the form of the site."""

_PAGINATORS = ("paginate_queryset", "apaginate_queryset")
"""Functions of Django Ninja that read the cursor of a client."""

_OTHERS = ("clean", "get_queryset", "run_validators", "validate")
"""What they call that is code of the site."""


def is_of_conversion(error: BaseException) -> bool:
    """Return whether an error was raised while a field converted a value of a client.

    Fields of Django and REST framework let some of them through, such as that of a URL which is none.
    """
    if not isinstance(error, _FAULTS):
        return False
    names = [frame.f_code.co_name for frame, _line in traceback.walk_tb(error.__traceback__)]
    while names:
        name = names.pop()
        if name.startswith(_OTHERS):
            return False
        if name in _CONVERSIONS:
            return True
    return False


def _is_of_preparation(error: BaseException) -> bool:
    """Return whether an error was raised by Django while it prepared a value for a query."""
    frames = (frame for frame, _line in traceback.walk_tb(error.__traceback__))
    return any(
        frame.f_code.co_name.startswith(_PREPARATION)
        and frame.f_globals.get("__name__", "").startswith("django.db.")
        for frame in frames
    )


def _is_of_pydantic(error: Exception) -> bool:
    """Return whether pydantic refuses the cursor of a client, or met an error about a value.

    The latter while it read a lazy queryset. A paginator of Django Ninja lets the former through.
    """
    if not type(error).__module__.startswith("pydantic"):
        return False
    frames = (frame for frame, _line in traceback.walk_tb(error.__traceback__))
    if any(frame.f_code.co_name in _PAGINATORS for frame in frames):
        return True
    problems: Any = error
    met = (str(problem.get("ctx", {}).get("error")) for problem in problems.errors())
    return any(_IN_RESPONSE.match(text) or _has_known_text(text) for text in met)


def _has_known_text(text: str) -> bool:
    lowered = text.lower()
    return any(known_text in lowered for known_text in _TEXTS)


def is_about_values(error: BaseException) -> bool:
    """Return whether an error means that a database, or its driver, cannot take a value."""
    if isinstance(error, DataError | IntegrityError | DecimalException | OverflowError):
        return True
    if isinstance(error, _FAULTS):
        return _is_of_preparation(error) or _is_of_pydantic(error) or is_of_conversion(error)
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
    has_code = any(isinstance(code, str) and code.startswith(_STATES) for code in codes)
    return (
        has_code
        or (bool(error.args) and isinstance(error.args[0], int) and error.args[0] in _MYSQL)
        or _has_known_text(str(error))
    )


_NO_VALUE = re.compile(r"NOT NULL constraint failed|ORA-014(?:00|07)")
"""In the texts of SQLite and Oracle."""

_NO_VALUE_STATE = "23502"
_NO_VALUE_MYSQL = (1048, 1364)


def tell_refusal(error: IntegrityError) -> str:
    """Return what a caller is told of a row that a database refuses, without the names of its columns."""
    states = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
    if (
        _NO_VALUE_STATE in states
        or (error.args and error.args[0] in _NO_VALUE_MYSQL)
        or _NO_VALUE.search(str(error))
    ):
        return _("The database requires a value that is missing.")
    return _("This conflicts with other data: a value is already in use, or no longer exists.")
