"""Convert between Django and the server core: querysets, exceptions and forms."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    ObjectDoesNotExist,
    PermissionDenied,
    SynchronousOnlyOperation,
    ValidationError,
)
from django.utils.choices import flatten_choices
from django.utils.translation import gettext as _

from django_mcp.execution.moments import parse_moment, read_moment, write_moment
from django_mcp.execution.outages import is_conflict, report_pool_timeout
from django_mcp.execution.validators import DjangoValidators
from django_mcp.log import logger
from django_mcp.protocol.asks import FormError
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject, present, to_pointer
from django_mcp.registry.forms import Form, make_form
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.registry.returns import ReturnError
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.session_data import SESSION_ENDED

if TYPE_CHECKING:
    from django.forms import BaseForm, Field

MAX_ROWS = 10_000
"""Rows of a queryset that are read for one result. The size of a result is limited as
well, but known only after all rows are in memory."""

MAX_CHOICES = 200
"""A field with more choices, such as one for all products, becomes a text field."""

MAX_NUMBER = 10**18
"""Larger numbers are refused, since they are slow to convert to text."""

_PLAIN = (
    str, int, float, bytes, Decimal, date, time, timedelta, UUID, dict, list, NoneType,
)  # fmt: skip


class DjangoConverter:
    """Converts querysets of named values to lists, and date-times by the settings of the site.

    Model instances are refused: only fields named by a type, `values()` or a dict are published.
    """

    validators = DjangoValidators()

    def needs_thread(self, value: Any) -> bool:
        """Return whether converting `value` may query the database, which must not happen on the event loop."""
        if type(value) in _PLAIN and type(value) is not list:
            return False
        if isinstance(value, list | tuple) and value:
            value = value[0]
        return _is_rows(value) or _is_model(value)

    def read_moment(self, moment: datetime, *, needs_offset: bool = False) -> datetime:
        """See `Moments.read_moment`."""
        try:
            return read_moment(moment, needs_offset=needs_offset)
        except ValidationError as error:
            raise ValueError(" ".join(error.messages)) from None

    def write_moment(self, moment: datetime) -> datetime:
        """See `Moments.write_moment`."""
        return write_moment(moment)

    def report(self, text: str) -> None:
        """See `ResultConverter.report`."""
        logger.warning("%s", text)

    def convert(self, value: Any) -> Any:
        """Return a list for a queryset of named values of at most `MAX_ROWS` rows; any other object as it is."""
        if _is_model(value):
            raise ReturnError(_unnamed(type(value)))
        if isinstance(value, find_class("django.db.models.fields.files", "FieldFile")):
            raise ReturnError(
                f"{value.field.name!r} is a file: return its name or url, or File(it) alone for its contents"
            )
        return _read_rows(value) if _is_rows(value) else value


DJANGO_CONVERTER = DjangoConverter()
"""The one of all servers: what is compiled for a class is found again by it."""


def _unnamed(model: type[Any]) -> str:
    return (
        f"{model.__name__} is a model, and nothing names the fields to publish: declare them in the return "
        f"annotation with a dataclass, a TypedDict or a pydantic model, or return queryset.values('id', ...) "
        f"or a dict"
    )


def find_class(module: str, name: str) -> type[Any] | tuple[()]:
    """Return a class for `isinstance`; nothing is of it while its module, which this does not load, is not loaded."""
    # Loading Django's modules of models needs settings.
    loaded_class: type[Any] | tuple[()] = getattr(sys.modules.get(module), name, ())
    return loaded_class


def _is_rows(value: Any) -> bool:
    module = "django.db.models.query"
    kinds = (find_class(module, "QuerySet"), find_class(module, "RawQuerySet"))
    return isinstance(value, (*kinds, find_class("django.db.models.manager", "BaseManager")))


def _is_model(value: Any) -> bool:
    return isinstance(value, find_class("django.db.models.base", "Model"))


def _read_rows(value: Any) -> list[Any]:
    if not isinstance(value, Iterable):
        value = value.all()
    models = sys.modules["django.db.models.query"].ModelIterable
    is_unnamed = getattr(value, "_fields", None) == ()  # values() without names is every column
    if is_unnamed or issubclass(getattr(value, "_iterable_class", models), models):
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


_SQLITE_LOCKED = (
    ". Transactions that write at the same time wait for each other if you set OPTIONS of this SQLite database "
    "to {'transaction_mode': 'IMMEDIATE', 'timeout': 20}"
)


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
            # Of "shop.models.Order.DoesNotExist" only "Order" may be published.
            model, _dot, name = type(error).__qualname__.rpartition(".")
            if name != "DoesNotExist" or not model:
                return self.missing()
            message = _("%(name)s not found.") % {"name": model.rpartition(".")[2]}
            return Failure(kind=FailureKind.MISSING, message=message)
        if isinstance(error, SynchronousOnlyOperation):
            # The log shows it below the traceback.
            error.add_note(
                "This handler is asynchronous: use the asynchronous methods of the ORM (aget(), acount(), "
                "async for), or write it with def."
            )
        if isinstance(error, AttributeError | TypeError) and "'coroutine'" in str(error):
            error.add_note(
                "An await was forgotten. In a handler with def, call the plain method: elicit() for aelicit()."
            )
        if isinstance(
            error, find_class("django.db.transaction", "TransactionManagementError")
        ) and "select_for_update" in str(error):
            error.add_note(
                "Only a synchronous tool that writes gets a transaction by itself, none with read_only=True "
                "or atomic=False: leave these out, write atomic=True, or open transaction.atomic()."
            )
        # Python's module for SQLite reports a large integer by an exception of its own.
        if isinstance(error, OverflowError | find_class("django.db.utils", "DatabaseError")):
            return _map_database_error(error)
        if isinstance(error, find_class("django.http.response", "Http404")):
            return Failure(kind=FailureKind.MISSING, message=_own_text(error) or _("Not found."))
        return None

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, find_class("django.db.utils", "DatabaseError")) and is_conflict(
            error
        )

    def missing(self) -> Failure:
        return Failure(kind=FailureKind.MISSING, message=_("Not found."))


def _map_database_error(error: Exception) -> Failure | None:
    if isinstance(error, OverflowError):
        return _refuse_value(error) if "SQLite INTEGER" in str(error) else None
    if _is_of_ended_session(error):
        return Failure(kind=FailureKind.TOOL_ERROR, message=SESSION_ENDED)
    if report_pool_timeout(error):
        return Failure(kind=FailureKind.TOOL_ERROR, message=_("The server is busy. Try again."))
    if isinstance(error, find_class("django.db.utils", "DataError")):
        return _refuse_value(error)
    if not is_conflict(error):
        return None
    logger.warning(
        "A call failed, because others used the same rows: %s%s",
        str(error).partition("\n")[0],
        _SQLITE_LOCKED if "is locked" in str(error) else "",
    )
    text = _("Others used the same data at the same moment. Try again.")
    return Failure(kind=FailureKind.TOOL_ERROR, message=text)


def _refuse_value(error: Exception) -> Failure:
    """Return the failure of a call whose value the database cannot take, such as a number that is too large."""
    logger.warning("A value of a call was refused: %s", str(error).partition("\n")[0])
    logger.debug("Why a value of a call was refused", exc_info=error)
    text = _("The database cannot take a value: it is too large, too long, or not valid.")
    return Failure(kind=FailureKind.INVALID, message=text)


def _is_of_ended_session(error: Exception) -> bool:
    """Return whether a commit failed because `ctx.session` was written and the session ended before it.

    PostgreSQL checks only then whether the session of an item is there; see `RowData`.
    """
    # Loads models, which importing a server must not.
    from django.db import IntegrityError

    from django_mcp.models.sessions import SessionItem

    if not isinstance(error, IntegrityError):
        return False

    table = getattr(getattr(error.__cause__, "diag", None), "table_name", None)
    return table == SessionItem._meta.db_table


def _own_text(error: Exception) -> str:
    """Return the application's text of an exception; "" if it has none."""
    first = error.args[0] if error.args else ""
    # A URL resolver passes a dict of the patterns that it tried.
    return "" if isinstance(first, dict | list | tuple) else str(first)


def _validation_texts(error: ValidationError) -> Iterator[str]:
    if not hasattr(error, "error_dict"):
        yield from error.messages
        return
    for field, messages in error.message_dict.items():
        for message in messages:
            yield message if field == NON_FIELD_ERRORS else f"{field}: {message}"


def make_django_form(schema: Any) -> Form:
    """Return the form of a Django form class, or of anything else that the core makes forms of.

    A `functools.partial` of such a class has further arguments for it, such as `instance`.
    """
    made = schema.func if isinstance(schema, functools.partial) else schema
    if isinstance(made, type) and issubclass(made, find_class("django.forms.forms", "BaseForm")):
        return _DjangoForm(schema)
    return make_form(schema, DJANGO_CONVERTER)


class _DjangoForm(Form):
    """A form class of the site, bound to the user's answer."""

    needs_thread = True

    def __init__(self, make: Callable[..., BaseForm]) -> None:
        self._make = make

    @property
    def schema(self) -> JSONObject:
        form = self._make()
        asked = {name: field for name, field in form.fields.items() if _is_asked(field)}
        return {
            "type": "object",
            "properties": {
                name: _describe(field, name, form.get_initial_for_field(field, name))
                for name, field in asked.items()
            },
            "required": [name for name, field in asked.items() if field.required],
        }

    def read(self, content: Any) -> Any:
        """See `Form.read`; the form validates the answer, with its own error messages."""
        if type(content) is not dict:
            raise ArgumentErrors([Problem("", _("Enter a valid value."))])
        unbound = self._make()
        asked = {name for name, field in unbound.fields.items() if _is_asked(field)}
        given = {name: value for name, value in content.items() if name in asked}
        wrong = [name for name, value in given.items() if not _is_plain(value)]
        if wrong:
            invalid = _("Enter a valid value.")
            raise ArgumentErrors([Problem(to_pointer([name]), invalid) for name in wrong])
        hidden = {
            name: unbound.get_initial_for_field(field, name)
            for name, field in unbound.fields.items()
            if name not in asked
        }
        for name, value in given.items():
            try:
                given[name] = _to_data(unbound.fields[name], value)
            except ValidationError as error:
                raise ArgumentErrors(
                    [Problem(to_pointer([name]), text) for text in error.messages]
                ) from None
        data = {unbound.add_prefix(name): value for name, value in {**hidden, **given}.items()}
        form = self._make(data=data)
        if form.is_valid():
            return form
        problems = [
            Problem("" if name == NON_FIELD_ERRORS else to_pointer([name]), str(message))
            for name, messages in form.errors.items()
            for message in messages
        ]
        raise ArgumentErrors(problems)


def _to_data(field: Field, value: Any) -> Any:
    """Return a value as a field takes it; a date-time as the site has it, which the field itself does not."""
    from django import forms

    if not (isinstance(field, forms.DateTimeField) and isinstance(value, str)):
        return value
    moment = parse_moment(value)
    return value if moment is None else moment


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    if isinstance(value, int | float):
        return -MAX_NUMBER < value < MAX_NUMBER
    return isinstance(value, str)


def _is_asked(field: Field) -> bool:
    return not field.disabled and not field.widget.is_hidden


def _describe(field: Field, name: str, initial: Any) -> JSONObject:
    from django.forms.utils import pretty_name
    from django.utils.html import strip_tags

    described = _kind(field, name)
    return present(
        **described,
        title=str(field.label or pretty_name(name)),
        description=strip_tags(str(field.help_text)) if field.help_text else None,
        default=_default(field.prepare_value(initial), described["type"]),
    )


def _kind(field: Any, name: str) -> JSONObject:
    from django import forms

    if isinstance(field.widget, forms.PasswordInput):
        raise FormError(f"The field {name!r} is secret: have the user visit a page (elicit_url).")
    if isinstance(field, forms.FileField | forms.MultiValueField | forms.JSONField):
        raise FormError(f"The field {name!r} ({type(field).__name__}) cannot be asked for.")
    if isinstance(field, forms.NullBooleanField | forms.BooleanField):
        return {"type": "boolean"}
    if isinstance(field, forms.ChoiceField):
        return _choices(field)
    if isinstance(field, forms.IntegerField):
        is_whole = not isinstance(field, forms.FloatField | forms.DecimalField)
        described: JSONObject = {"type": "integer" if is_whole else "number"}
        bounds: dict[str, Any] = {"minimum": field.min_value, "maximum": field.max_value}
        for key, bound in bounds.items():
            value = bound() if callable(bound) else bound
            if value is not None:
                described[key] = value if isinstance(value, int) else float(value)
        return described
    return {"type": "string", **_text_rules(field)}


def _choices(field: Any) -> JSONObject:
    from django import forms

    choices: Iterable[Any] = flatten_choices(field.choices)
    shown_choices = list(
        islice((choice for choice in choices if choice[0] not in ("", None)), MAX_CHOICES + 1)
    )
    shown = [{"const": str(value), "title": str(label)} for value, label in shown_choices]
    if isinstance(field, forms.MultipleChoiceField | forms.ModelMultipleChoiceField):
        items: JSONObject = {"anyOf": shown} if shown else {"enum": []}
        return {"type": "array", "items": items, **({"minItems": 1} if field.required else {})}
    if len(shown_choices) > MAX_CHOICES or not shown:
        return {"type": "string"}
    return {"type": "string", "oneOf": shown}


def _text_rules(field: Any) -> JSONObject:
    from django import forms

    formats = (
        (forms.EmailField, "email"),
        (forms.URLField, "uri"),
        (forms.DateTimeField, "date-time"),
        (forms.DateField, "date"),
    )
    return present(
        minLength=getattr(field, "min_length", None),
        maxLength=getattr(field, "max_length", None),
        format=next((name for kind, name in formats if isinstance(field, kind)), None),
    )


def _default(value: Any, kind: str) -> Any:
    """Return a field's initial value as JSON, if it has one."""
    if value is None or value == "":
        return None
    if kind == "array":
        return [str(part) for part in value] if isinstance(value, list | tuple) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind in ("integer", "number"):
        return float(value) if isinstance(value, Decimal) else value
    return value.isoformat() if isinstance(value, date | time) else str(value)
