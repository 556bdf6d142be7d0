"""Fields whose values are objects of their own, such as money, phone numbers, countries and ranges: their form in JSON."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from django import forms
from django.db.models import Model

from django_mcp.forms.values import is_a
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema, or_null

MONEY_SCHEMA = object_schema(
    {
        "amount": {"type": "string", "format": "decimal"},
        "currency": {"type": "string", "description": "The code of ISO 4217, such as EUR."},
    },
    required=["amount", "currency"],
)

_BOUNDS_SCHEMA: JSONObject = {
    "type": "string",
    "description": "Which ends belong to the range: [ or ], those that do; ( or ), those that do not; empty: none.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """The form in JSON of the values of a field.

    Attributes:
        schema: of the values, without null.
        write: takes a value, which is not None, and the instance that has it; None, if it is part of a
            list. Returns the form of the value.
    """

    schema: JSONObject
    write: Callable[[Any, Any], Any]


def has_ranges(field: Any) -> bool:
    """Return whether a field of a model has ranges of PostgreSQL."""
    return hasattr(field, "base_field") and hasattr(field, "range_type")


def find_conversion(
    field: Any,
    schema: JSONObject,
    describe: Callable[[Any], JSONObject],
    natural: tuple[type, ...],
    write_natural: Callable[[Any], Any] | None,
) -> Conversion | None:
    """Return how values of a field are brought into JSON; None, if they are what Django's own field has.

    Args:
        field: of a model, not a relation.
        schema: what the class of Django has that the field is made from.
        describe: returns the schema of the values of a field.
        natural: the types of the values that this class of Django has.
        write_natural: returns the form of those; None: they have it.
    """
    if not is_converted(field):
        return None
    if has_ranges(field):
        return _of_range(describe(field.base_field))
    if _is_money(field):
        return Conversion(schema=MONEY_SCHEMA, write=_write_money)
    if isinstance(_form_field(field), forms.MultipleChoiceField):
        choices = [value for value, _label in getattr(field, "flatchoices", None) or ()]
        is_integer = bool(choices) and all(type(value) is int for value in choices)
        item = {"type": "integer" if is_integer else "string"}
        return Conversion(
            schema={"type": "array", "items": item},
            write=lambda values, _instance: [_write_part(each, is_integer) for each in values],
        )
    return _of_field(field, schema, natural, write_natural)


def is_converted(field: Any) -> bool:
    """Return whether values of a field are brought into JSON in another way than those of Django's own field."""
    if has_ranges(field) or _is_money(field):
        return True
    return not hasattr(field, "base_field") and _makes_objects(field)


def _is_money(field: Any) -> bool:
    return is_a(field, "djmoney.models.fields.MoneyField")


def _makes_objects(field: Any) -> bool:
    """Return whether the class of a field, which is none of Django's, makes objects of the stored values."""
    load = getattr(type(field), "from_db_value", None)
    if load is not None and not _is_of_django(load):
        return True
    model = getattr(field, "model", None)
    if not (isinstance(model, type) and issubclass(model, Model)):
        return False
    name = getattr(field, "attname", "")
    attribute = next((vars(cls)[name] for cls in model.__mro__ if name in vars(cls)), None)
    return attribute is not None and not _is_of_django(type(attribute))


def _is_of_django(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] == "django"


def _form_field(field: Any) -> Any:
    with suppress(Exception):  # of a package that needs more than its field for this
        return field.formfield()
    return None


def _of_range(base: JSONObject) -> Conversion:
    ends = {"lower": or_null(base), "upper": or_null(base), "bounds": _BOUNDS_SCHEMA}

    def write(value: Any, _instance: Any) -> JSONObject:
        return {
            "lower": value.lower,
            "upper": value.upper,
            "bounds": "empty" if value.isempty else value._bounds,
        }

    return Conversion(schema=object_schema(ends, required=list(ends)), write=write)


def _write_money(value: Any, _instance: Any) -> JSONObject:
    return {"amount": str(value.amount), "currency": str(value.currency)}


def _write_part(value: Any, is_integer: bool) -> Any:  # noqa: FBT001
    value = value.value if isinstance(value, Enum) else value
    return int(value) if is_integer else str(value)


def _of_field(
    field: Any,
    schema: JSONObject,
    natural: tuple[type, ...],
    write_natural: Callable[[Any], Any] | None,
) -> Conversion:
    kind = schema.get("type")
    # An object may be written as a text where the class of Django has none.
    shown = schema if kind in (None, "string") else {**schema, "type": [kind, "string"]}

    def write(value: Any, instance: Any) -> Any:
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, natural):
            return value if write_natural is None else write_natural(value)
        if isinstance(value, str):
            return str(value)
        prepared: Any = value
        with suppress(Exception):  # of a value that the field shows and does not store
            prepared = field.get_prep_value(value)
        if prepared is None:
            return None
        if isinstance(value, _CONTAINERS) and isinstance(prepared, str):
            # A field that says nothing else would write it as Python does.
            return prepared
        return str(field.value_to_string(_holder(field, value, instance)))

    return Conversion(schema=shown, write=write)


_CONTAINERS = (list, tuple, set, frozenset, dict)


def _holder(field: Any, value: Any, instance: Any) -> Any:
    """Return an object of the model of a field that has a value."""
    # A foreign key shows a value of another model.
    is_own = isinstance(instance, field.model)
    holder = object.__new__(type(instance)) if is_own else field.model()
    vars(holder).update({**(vars(instance) if is_own else {}), field.attname: value})
    return holder
