"""JSON Schemas of model fields, and values of fields as JSON has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.core import validators
from django.db import models
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.html import strip_tags

from django_mcp.contrib.models.converted import (
    Conversion,
    find_conversion,
    has_ranges,
    is_converted,
)
from django_mcp.execution.moments import localize
from django_mcp.forms.labels import describe_labels
from django_mcp.forms.values import may_be_rounded, value_field
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.big_integers import or_digits, write_integer
from django_mcp.registry.object_schemas import or_null

MAX_CHOICES = 200
"""A field with more choices is described by its type alone."""

_FORMATS: tuple[tuple[type[models.Field[Any, Any]], JSONObject], ...] = (
    (models.BooleanField, {"type": "boolean"}),
    (models.IntegerField, {"type": "integer"}),
    (models.FloatField, {"type": "number"}),
    (models.DecimalField, {"type": "string", "format": "decimal"}),
    (models.DateTimeField, {"type": "string", "format": "date-time"}),
    (models.DateField, {"type": "string", "format": "date"}),
    (models.TimeField, {"type": "string", "format": "time"}),
    (models.DurationField, {"type": "string", "format": "duration"}),
    (models.UUIDField, {"type": "string", "format": "uuid"}),
    (models.EmailField, {"type": "string", "format": "email"}),
    (models.URLField, {"type": "string", "format": "uri"}),
    (models.JSONField, {}),
)
"""The first class that a field is of decides; all other fields are strings."""


def describe_value(field: Any, *, is_input: bool) -> JSONObject:
    """Return the schema of the values of a field, without null and without texts.

    Args:
        field: of a model.
        is_input: whether clients send the values: then it has choices and limits, which stored values
            may break, and decimals may be numbers.
    """
    own_field = value_field(field)
    if not is_input:
        conversion = _find_conversion(own_field)
        if conversion is not None:
            return conversion.schema
    if hasattr(own_field, "base_field") and not has_ranges(
        own_field
    ):  # an ArrayField of PostgreSQL
        return {"type": "array", "items": describe_value(own_field.base_field, is_input=is_input)}
    schema = _describe_kind(own_field)
    if is_input:
        schema.update(_choices(own_field, schema) or _limits(own_field, schema))
    return or_digits(schema) if may_be_rounded(own_field) and "enum" not in schema else schema


_TEXT: JSONObject = {"type": "string"}


def _describe_kind(field: Any) -> JSONObject:
    return dict(next((kind for cls, kind in _FORMATS if isinstance(field, cls)), _TEXT))


def _find_conversion(field: Any) -> Conversion | None:
    if not is_converted(field):
        return None
    natural = next((types for cls, types in _NATURAL if isinstance(field, cls)), (str,))
    return find_conversion(
        field,
        _describe_kind(field),
        lambda part: describe_value(part, is_input=False),
        natural,
        str if natural == (str,) else _find_plain_writer(field),
    )


_NATURAL: tuple[tuple[type[models.Field[Any, Any]], tuple[type, ...]], ...] = (
    (models.BooleanField, (bool,)),
    (models.IntegerField, (int,)),
    (models.FloatField, (float, int)),
    (models.DecimalField, (Decimal,)),
    (models.DateTimeField, (datetime,)),
    (models.DateField, (date,)),
    (models.TimeField, (time,)),
    (models.DurationField, (timedelta,)),
    (models.UUIDField, (UUID,)),
    (models.JSONField, (dict, list, str, int, float, bool)),
)
"""The types of the values of Django's fields; those of all others are strings."""


def _choices(field: Any, schema: JSONObject) -> JSONObject:
    choices = [value for value, _label in field.flatchoices or ()]
    if not 0 < len(choices) <= MAX_CHOICES or any(
        type(choice) not in (str, int) for choice in choices
    ):
        return {}
    if field.blank and "" not in choices and schema.get("type") == "string":
        choices.append("")
    return {"enum": choices}


_LIMITS: tuple[tuple[type[Any], str, str], ...] = (
    (validators.MinValueValidator, "number", "minimum"),
    (validators.MaxValueValidator, "number", "maximum"),
    (validators.MinLengthValidator, "string", "minLength"),
    (validators.MaxLengthValidator, "string", "maxLength"),
)


def _limits(field: Any, schema: JSONObject) -> JSONObject:
    if isinstance(field, models.DecimalField):
        return {"type": ["string", "number"]}
    kind = "number" if schema.get("type") == "integer" else schema.get("type")
    limits: JSONObject = {}
    for validator in field.validators:
        for cls, of_kind, keyword in _LIMITS:
            if of_kind == kind and type(validator) is cls:
                limit = validator.limit_value
                limits[keyword] = limit() if callable(limit) else limit
    return limits


def describe_field(field: Any, *, is_input: bool, nullable: bool | None = None) -> JSONObject:
    """Return the schema of a field with its title, its description and null if it may be that."""
    schema = describe_value(field, is_input=is_input)
    if isinstance(field, models.FileField) and not is_input:
        nullable = True  # where there is no file
    if field.null if nullable is None else nullable:
        schema = or_null(schema)
    if getattr(field, "verbose_name", None):
        schema["title"] = field.verbose_name
    if getattr(field, "help_text", "") or getattr(field, "flatchoices", None):
        schema["description"] = _describe(field)
    return schema


def _description(field: Any) -> str:
    parts = [strip_tags(str(field.help_text)).strip(), _labels(field)]
    return " ".join(filter(None, parts))


def _labels(field: Any) -> str:
    labels = [(value, str(label)) for value, label in field.flatchoices or () if value != ""]
    if len(labels) > MAX_CHOICES:
        return ""
    return describe_labels(labels)


_describe = lazy(_description, str)
"""The help text and the labels of the choices, in the active language."""

describe_choices = lazy(_labels, str)
"""The labels of the choices of a field, in the active language."""


def read_value(field: Any) -> Callable[[Any], Any]:
    """Return a function that reads the value of a field from an instance, in a form for JSON."""
    if isinstance(field, models.FileField):
        file: Callable[[Any], Any] = attrgetter(field.attname)
        return lambda instance: _find_address(file(instance))
    own_field = value_field(field)
    value: Callable[[Any], Any] = attrgetter(field.attname)
    conversion = _find_conversion(own_field)
    if conversion is not None:
        convert = conversion.write
        return lambda instance: (
            None if value(instance) is None else convert(value(instance), instance)
        )
    write = _find_plain_writer(own_field)
    if write is not None:
        return lambda instance: write(value(instance))
    if isinstance(own_field, _PLAIN) or hasattr(own_field, "base_field"):
        return value
    to_text = field.value_to_string
    return lambda instance: None if value(instance) is None else to_text(instance)


def read_values(field: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that reads the values of a field from several instances, as `read_value` does from one."""
    own_field = value_field(field)
    if isinstance(own_field, models.DateTimeField) and find_writer(own_field) is write_plain:
        moment: Callable[[Any], Any] = attrgetter(field.attname)
        return lambda instances: _write_moments([moment(instance) for instance in instances])
    read = read_value(field)
    return lambda instances: [read(instance) for instance in instances]


def _write_moments(values: Sequence[Any]) -> list[Any]:
    zone = timezone.get_current_timezone()
    return [
        localize(value, zone) if isinstance(value, datetime) else write_plain(value)
        for value in values
    ]


def _find_address(file: Any) -> str | None:
    """Return the URL of a file, or its name if its storage has none; None, if there is no file."""
    if not file:
        return None
    try:
        return str(file.url)
    except Exception:
        # A storage may have no URLs, or not for this file.
        logger.debug("No URL of %s", file, exc_info=True)
        return str(file)


def find_writer(field: Any) -> Callable[[Any], Any] | None:
    """Return what gives the values of a field the form that results have; None: they have it."""
    conversion = _find_conversion(field)
    if conversion is not None:
        convert = conversion.write
        return lambda value: None if value is None else convert(value, None)
    return _find_plain_writer(field)


def _find_plain_writer(field: Any) -> Callable[[Any], Any] | None:
    """Return what writes the values that the field of Django has."""
    if isinstance(field, models.DecimalField) and (field.decimal_places or 0) > _PLACES:
        return _write_decimal
    if hasattr(field, "base_field"):
        return find_writer(field.base_field)
    if may_be_rounded(field):
        return _write_integers
    return write_plain if isinstance(field, models.DateTimeField) else None


def _write_integers(value: Any) -> Any:
    if isinstance(value, list):
        return [_write_integers(each) for each in value]
    return write_integer(value) if type(value) is int else value


def write_plain(value: Any) -> Any:
    """Return a value with its date-times, also in lists and dicts, in the current time zone."""
    if isinstance(value, datetime):
        return localize(value)
    if isinstance(value, list | tuple):
        return [write_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: write_plain(each) for key, each in value.items()}
    return value


_PLACES = 6
"""With more places behind the point, Python writes small numbers such as `0E-10`."""


def _write_decimal(value: Any) -> Any:
    return format(value, "f") if isinstance(value, Decimal) else value


_PLAIN = (*(cls for cls, _ in _FORMATS), models.CharField, models.TextField)
