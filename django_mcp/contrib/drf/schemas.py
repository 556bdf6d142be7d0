"""JSON Schemas of serializers: what a client may send to one."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from django.utils.functional import Promise
from rest_framework import fields, relations, serializers

from django_mcp.contrib.credentials import find_passwords
from django_mcp.forms import key_schema
from django_mcp.forms.schema import MAX_DECIMAL_CHARS
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import or_null

_SHORT_EXPONENT = r"^[^eE]*([eE][-+]?[0-9]{1,3})?$"
"""A number such as 1E1000000 would have a million digits when it is written."""


class UnsupportedField(Exception):
    """A field that JSON cannot carry, such as a file, is required. `args` are its path."""


def schema_of(serializer: serializers.BaseSerializer, *, partial: bool = False) -> JSONObject:
    """Return the JSON Schema of the data that a serializer accepts.

    Read-only and hidden fields are left out, and so are optional files.

    Args:
        serializer: an instance; with `many=True` the schema is that of an array.
        partial: no field is required, as for PATCH.

    Raises:
        UnsupportedField: a file is required.
    """
    if isinstance(serializer, serializers.ListSerializer):
        return _list_schema(serializer, serializer.child, partial=partial)
    if not isinstance(serializer, serializers.Serializer):
        return {"type": "object"}  # a BaseSerializer reads what it wants
    reads = type(serializer).to_internal_value is not serializers.Serializer.to_internal_value
    if reads and not serializer.fields:
        return {"type": "object"}  # such as one of several kinds
    properties: dict[str, JSONObject] = {}
    required = []
    for name, field in serializer.fields.items():
        if field.read_only or isinstance(field, fields.HiddenField):
            continue
        is_required = field.required and not partial
        if isinstance(field, fields.FileField):
            if is_required:
                raise UnsupportedField(name)
            continue
        properties[name] = _field_schema(field)
        if is_required:
            required.append(name)
    schema: JSONObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schema


def find_files(serializer: Any) -> list[str]:
    """Return the names of the files that a serializer takes and that its schema leaves out."""
    while isinstance(serializer, serializers.ListSerializer):
        serializer = serializer.child
    return [
        name
        for name, field in getattr(serializer, "fields", {}).items()
        if isinstance(field, fields.FileField) and not field.read_only
    ]


def find_credentials(serializer: Any) -> list[str]:
    """Return what says that a serializer is about passwords or sign-ins: its name, and those of its fields."""
    while isinstance(serializer, serializers.ListSerializer):
        serializer = serializer.child
    if serializer is None:
        return []
    inputs = {
        name: field
        for name, field in getattr(serializer, "fields", {}).items()
        if not field.read_only
    }
    hidden = [
        f"the password {name}"
        for name, field in inputs.items()
        if field.style.get("input_type") == "password"
    ]
    return [type(serializer).__name__, *find_passwords(inputs), *hidden]


def repeats_lookups(field: Any) -> bool:
    """Return whether a field looks each value of a list up in the database, as a relation to many does."""
    if isinstance(field, relations.ManyRelatedField):
        return True
    if hasattr(field, "child"):  # of a list
        return _looks_up(field.child)
    return any(map(repeats_lookups, _inner_fields(field)))


def _looks_up(field: Any) -> bool:
    if isinstance(field, relations.RelatedField | relations.ManyRelatedField):
        return True
    # Those of unique values ask for each.
    if any(hasattr(validator, "queryset") for validator in getattr(field, "validators", ())):
        return True
    inner = [field.child] if hasattr(field, "child") else _inner_fields(field)
    return any(map(_looks_up, inner))


def _inner_fields(field: Any) -> list[Any]:
    inner = getattr(field, "fields", None)
    return (
        []
        if inner is None
        else [inner_field for inner_field in inner.values() if not inner_field.read_only]
    )


def _field_schema(field: fields.Field) -> JSONObject:
    """Return the schema of one field, with its help text and default."""
    schema = _plain_schema(field)
    if field.allow_null:
        schema = or_null(schema)
    if field.help_text:
        schema["description"] = _text(field.help_text)
    default = plain_key(field.default)
    if isinstance(field.default, str | int | float | bool | Enum):
        schema["default"] = default
    return schema


def _plain_schema(field: fields.Field) -> JSONObject:
    if isinstance(field, serializers.BaseSerializer):
        return schema_of(field, partial=bool(getattr(field, "partial", False)))
    for kind, build in _BUILDERS:
        if isinstance(field, kind):
            return build(field)
    return {}


def plain_key(key: Any) -> Any:
    """Return the value by which a client chooses a key: JSON has no dates, and a member of an enum is its value."""
    if isinstance(key, Enum):
        key = key.value
    if key is None or isinstance(key, bool):
        return key
    for kind in (str, int, float):
        if isinstance(key, kind):
            return kind(key) if kind is not str else str.__str__(key)
    return str(key)


def _bounds(field: Any) -> JSONObject:
    bounds = _kept(minimum=field.min_value, maximum=field.max_value)
    return {
        name: value if isinstance(value, int) else float(value) for name, value in bounds.items()
    }


def _text(value: Any) -> Any:
    """Return a text; a lazy one is translated for each client."""
    return value if isinstance(value, Promise) else str(value)


def _kept(**values: Any) -> JSONObject:
    return {name: value for name, value in values.items() if value is not None}


def _string(field: fields.CharField) -> JSONObject:
    minimum = field.min_length
    if minimum is None and not field.allow_blank and not field.allow_null:
        minimum = 1
    return {"type": "string", **_kept(minLength=minimum, maxLength=field.max_length)}


def _formatted(name: str) -> Callable[[fields.Field], JSONObject]:
    return lambda field: {
        "type": "string",
        "format": name,
        **_kept(maxLength=getattr(field, "max_length", None)),
    }


def _integer(field: fields.IntegerField) -> JSONObject:
    return {"type": "integer", **_bounds(field)}


def _number(field: fields.FloatField) -> JSONObject:
    return {"type": "number", **_bounds(field)}


def _decimal(field: fields.DecimalField) -> JSONObject:
    """Accept a text, which keeps every digit, and a number."""
    return {
        "type": ["string", "number"],
        "maxLength": MAX_DECIMAL_CHARS,
        "pattern": _SHORT_EXPONENT,
        **_bounds(field),
    }


def _choice(field: fields.ChoiceField) -> JSONObject:
    keys = [plain_key(key) for key in field.choices]
    if getattr(field, "allow_blank", False) and "" not in keys:
        keys.append("")
    return {"enum": keys}


def _choices(field: fields.MultipleChoiceField) -> JSONObject:
    items = {"enum": [plain_key(key) for key in field.choices]}
    return {"type": "array", "items": items, **_kept(minItems=None if field.allow_empty else 1)}


def _list(field: fields.ListField) -> JSONObject:
    return _list_schema(field, field.child)


def _list_schema(field: Any, child: fields.Field, *, partial: bool = False) -> JSONObject:
    is_serializer = isinstance(child, serializers.BaseSerializer)
    items = schema_of(child, partial=partial) if is_serializer else _field_schema(child)
    least = field.min_length
    if least is None and not field.allow_empty:
        least = 1
    return {"type": "array", "items": items, **_kept(minItems=least, maxItems=field.max_length)}


def _dict(field: fields.DictField) -> JSONObject:
    return {"type": "object", "additionalProperties": _field_schema(field.child)}


def _many_related(field: relations.ManyRelatedField) -> JSONObject:
    items = _field_schema(field.child_relation)
    return {"type": "array", "items": items, **_kept(minItems=None if field.allow_empty else 1)}


def _primary_key(field: relations.PrimaryKeyRelatedField) -> JSONObject:
    if field.pk_field is not None:
        return _field_schema(field.pk_field)
    queryset = field.queryset
    return key_schema(None if queryset is None else queryset.model._meta.pk)


# The first class that fits decides, so subclasses come before their bases.
_BUILDERS: list[tuple[Any, Callable[[Any], JSONObject]]] = [
    (fields.BooleanField, lambda _: {"type": "boolean"}),
    (fields.UUIDField, _formatted("uuid")),
    (fields.EmailField, _formatted("email")),
    (fields.URLField, _formatted("uri")),
    (fields.IPAddressField, lambda _: {"type": "string"}),
    (fields.CharField, _string),
    (fields.MultipleChoiceField, _choices),
    (fields.ChoiceField, _choice),
    (fields.IntegerField, _integer),
    (fields.FloatField, _number),
    (fields.DecimalField, _decimal),
    (fields.DateTimeField, lambda _: {"type": "string"}),
    (fields.DateField, _formatted("date")),
    (fields.TimeField, lambda _: {"type": "string"}),
    (fields.DurationField, lambda _: {"type": "string"}),
    (fields.ListField, _list),
    (fields.DictField, _dict),
    (relations.ManyRelatedField, _many_related),
    (relations.PrimaryKeyRelatedField, _primary_key),
    (relations.HyperlinkedRelatedField, lambda _: {"type": "string"}),
    (relations.SlugRelatedField, lambda _: {"type": ["string", "integer"]}),
]
