"""The arguments that select the rows of a list: those for its pages, its filters and its order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError
from rest_framework import filters

from django_mcp.contrib.drf.filtersets import (
    filterset_parameters,
    has_filtersets,
    pattern_parameters,
)
from django_mcp.contrib.http_calls import QUERY
from django_mcp.contrib.lists import describe_order
from django_mcp.forms.values import MAX_TEXT_CHARS, takes_pattern
from django_mcp.protocol.json import JSONObject


def page_parameters(view: Any, max_results: int) -> dict[str, JSONObject]:
    """Return the parameters of a view's pages, with at most `max_results` rows each."""
    if view.paginator is None:
        return {}
    parameters = dict(_described(view.paginator.get_schema_operation_parameters(view)))
    for name, schema in parameters.items():
        if schema.get("type") == "integer":
            is_offset = name == getattr(view.paginator, "offset_query_param", None)
            schema["minimum"] = 0 if is_offset else 1
    sizes = (
        (getattr(view.paginator, "page_size_query_param", None), "max_page_size"),
        (getattr(view.paginator, "limit_query_param", None), "max_limit"),
    )
    for size_name, attribute in sizes:
        if size_name in parameters:
            limit = getattr(view.paginator, attribute, None) or max_results
            parameters[size_name]["maximum"] = min(limit, max_results)
    return parameters


def filter_parameters(view: Any, left_out: list[str]) -> dict[str, JSONObject]:
    """Return the parameters of a view's filters. Why those of a backend are missing is added to `left_out`."""
    parameters: dict[str, JSONObject] = {}
    for backend in _backends_of(view):
        with _leaving_out(backend, left_out):
            if isinstance(backend, filters.SearchFilter):
                if backend.get_search_fields(view, view.request):
                    for name, schema in _described(backend.get_schema_operation_parameters(view)):
                        # The query has a condition for each word and each field.
                        parameters[name] = {**schema, "maxLength": MAX_TEXT_CHARS}
            elif isinstance(backend, filters.OrderingFilter):
                parameters |= _ordering(backend, view)
            elif has_filtersets(backend):
                parameters |= filterset_parameters(backend, view)
            else:
                parameters |= _described(backend.get_schema_operation_parameters(view))
    return parameters


def find_patterns(view: Any, left_out: list[str]) -> list[str]:
    """Return the parameters of a view's filters that take regular expressions."""
    patterns: list[str] = []
    for backend in _backends_of(view):
        with _leaving_out(backend, left_out):
            if isinstance(backend, filters.SearchFilter):
                lookups = [
                    backend.lookup_prefixes.get(name[:1], name)
                    for name in map(str, backend.get_search_fields(view, view.request) or ())
                ]
                if any(map(takes_pattern, lookups)):
                    patterns.append(backend.search_param)
            elif has_filtersets(backend):
                patterns += pattern_parameters(backend, view)
    return patterns


def find_order(view: Any) -> str:
    """Return what the rows of a view are ordered by; "" if it does not tell."""
    try:
        is_ordered = any(isinstance(each, filters.OrderingFilter) for each in _backends_of(view))
        given = getattr(view, "ordering", None) if is_ordered else None
        return describe_order(view.get_queryset(), given)
    except Exception:  # noqa: BLE001 - a view may need a call for its rows
        return ""


def _backends_of(view: Any) -> list[Any]:
    return [backend() for backend in view.filter_backends]


@contextmanager
def _leaving_out(backend: Any, left_out: list[str]) -> Iterator[None]:
    """Leave out the parameters of a backend that cannot be read without a call."""
    try:
        yield
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the backend, or the view, needs of a call
        name = type(backend).__name__
        left_out.append(f"those of {name}, which failed with {type(error).__name__}: {error}")


def _ordering(backend: filters.OrderingFilter, view: Any) -> dict[str, JSONObject]:
    """Return the parameter with the fields that can be ordered by, and no others."""
    valid = backend.get_valid_fields(view.get_queryset(), view, {"request": view.request})
    names = [name for name, _ in valid]
    return {
        backend.ordering_param: {
            "type": "string",
            "enum": [order for name in names for order in (name, f"-{name}")],
            "description": str(backend.ordering_description),
        }
    }


def _described(parameters: Any) -> Iterator[tuple[str, JSONObject]]:
    """Yield the names and schemas of OpenAPI parameters in the query."""
    for parameter in parameters:
        if parameter.get("in", QUERY) == QUERY:
            schema = dict(parameter.get("schema", {}))
            if parameter.get("description"):
                schema["description"] = str(parameter["description"])
            if parameter.get("required"):
                schema["required"] = True
            yield parameter["name"], schema
