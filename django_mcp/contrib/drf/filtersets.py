"""JSON Schemas of the filters of django-filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms

from django_mcp.protocol.json import JSONObject


def has_filtersets(backend: Any) -> bool:
    """Return whether a filter backend is one of django-filter's."""
    return hasattr(backend, "get_filterset_class")


def filterset_parameters(backend: Any, view: Any) -> dict[str, JSONObject]:
    """Return the parameters of a view's filters, by their names in the query."""
    filterset = backend.get_filterset_class(view, view.get_queryset())
    if filterset is None:
        return {}
    return {
        name: schema
        for filter_name, each in filterset.base_filters.items()
        for name, schema in _parameters(filter_name, each)
    }


def _parameters(name: str, each: Any) -> Iterator[tuple[str, JSONObject]]:
    field = each.field
    described: JSONObject = {}
    text = field.help_text or each.label
    if text:
        described["description"] = str(text)
    if field.required:
        described["required"] = True
    suffixes = getattr(field.widget, "suffixes", None)
    if not suffixes:
        yield name, {**_schema(field), **described}
        return
    # A range has a parameter for each of its ends.
    for suffix, part in zip(suffixes, field.fields, strict=True):
        yield f"{name}_{suffix}" if suffix else name, {**_schema(part), **described}


def _schema(field: forms.Field) -> JSONObject:
    from django_filters.fields import BaseCSVField

    if isinstance(field, BaseCSVField):
        return {"type": "string"}  # several values with commas
    if isinstance(field, forms.ModelMultipleChoiceField):
        return {"type": "array", "items": {"type": ["string", "integer"]}}
    if isinstance(field, forms.ModelChoiceField):
        return {"type": ["string", "integer"]}
    if isinstance(field, forms.MultipleChoiceField):
        return {"type": "array", "items": {"enum": _keys(field)}}
    if isinstance(field, forms.ChoiceField):
        return {"enum": _keys(field)}
    for kind, schema in _SCHEMAS:
        if isinstance(field, kind):
            return dict(schema)
    return {"type": "string"}


def _keys(field: forms.ChoiceField) -> list[Any]:
    found: list[Any] = []
    choices: Any = field.choices
    for key, label in choices:
        if isinstance(label, list | tuple):
            found += [each for each, _ in label]
        elif key != "":
            found.append(key)
    return found


_SCHEMAS: list[tuple[type[forms.Field], JSONObject]] = [
    (forms.BooleanField, {"type": "boolean"}),
    (forms.IntegerField, {"type": "number"}),  # a FloatField and a DecimalField are of this class
    (forms.DateField, {"type": "string", "format": "date"}),
    (forms.UUIDField, {"type": "string", "format": "uuid"}),
]
