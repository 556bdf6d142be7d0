"""JSON Schemas of the filters of django-filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.db import DatabaseError

from django_mcp.contrib.drf.schemas import plain_key
from django_mcp.contrib.view_problems import without_queries
from django_mcp.forms.values import takes_pattern
from django_mcp.protocol.json import JSONObject

MAX_JOINS = 20
"""Values of a filter for rows that have all of them: the query has a join for each."""


def has_filtersets(backend: Any) -> bool:
    """Return whether a filter backend is one of django-filter's."""
    return hasattr(backend, "get_filterset_class")


def filterset_parameters(backend: Any, view: Any) -> dict[str, JSONObject]:
    """Return the parameters of a view's filters, by their names in the query."""
    return {
        name: schema
        for filter_name, each in _filters_of(backend, view).items()
        if not _takes_pattern(each)
        for name, schema in _parameters(filter_name, each)
    }


def pattern_parameters(backend: Any, view: Any) -> list[str]:
    """Return the names of the filters that take regular expressions, which become no parameters."""
    return [name for name, each in _filters_of(backend, view).items() if _takes_pattern(each)]


def _filters_of(backend: Any, view: Any) -> Mapping[str, Any]:
    filterset = backend.get_filterset_class(view, view.get_queryset())
    declared: Mapping[str, Any] = {} if filterset is None else filterset.base_filters
    return declared


def _takes_pattern(each: Any) -> bool:
    if not hasattr(each, "get_lookup_choices"):
        return takes_pattern(each.lookup_expr)
    # The client chooses the lookup, by default among all of the field.
    lookups = each.lookup_choices or ["regex"]
    return any(takes_pattern(it if isinstance(it, str) else it[0]) for it in lookups)


def _parameters(name: str, each: Any) -> Iterator[tuple[str, JSONObject]]:
    try:
        # Choices that are read from the database may be of rows that not every caller sees.
        with without_queries():
            described = dict(_describe(name, each))
    except DatabaseError:
        raise
    except Exception:  # noqa: BLE001 - whatever its choices need of a call
        described = {name: _schema_of_key(each)}
    yield from described.items()


def _describe(name: str, each: Any) -> Iterator[tuple[str, JSONObject]]:
    described: JSONObject = {}
    field = each.field
    text = field.help_text or each.label
    if text:
        described["description"] = str(text)
    if field.required:
        described["required"] = True
    suffixes = getattr(field.widget, "suffixes", None)
    if getattr(each, "conjoined", False):
        described["maxItems"] = MAX_JOINS
    if not suffixes:
        yield name, {**_schema(field), **described}
        return
    # A range has a parameter for each of its ends.
    for suffix, part in zip(suffixes, field.fields, strict=True):
        yield f"{name}_{suffix}" if suffix else name, {**_schema(part), **described}


def _schema_of_key(each: Any) -> JSONObject:
    """Return the schema of a filter whose values only a call can tell."""
    key: JSONObject = {"type": ["string", "integer"]}
    if issubclass(each.field_class, forms.MultipleChoiceField | forms.ModelMultipleChoiceField):
        key = {"type": "array", "items": key}
        if getattr(each, "conjoined", False):
            key["maxItems"] = MAX_JOINS
    if each.extra.get("required"):
        key["required"] = True
    text = each.extra.get("help_text") or each.label
    return {**key, "description": str(text)} if text else key


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
    keys: list[Any] = []
    choices: Any = field.choices
    for key, label in choices:
        if isinstance(label, list | tuple):
            keys += [plain_key(each) for each, _ in label]
        elif key != "":
            keys.append(plain_key(key))
    return keys


_SCHEMAS: list[tuple[type[forms.Field], JSONObject]] = [
    (forms.BooleanField, {"type": "boolean"}),
    (forms.IntegerField, {"type": "number"}),  # a FloatField and a DecimalField are of this class
    (forms.DateField, {"type": "string", "format": "date"}),
    (forms.UUIDField, {"type": "string", "format": "uuid"}),
]
