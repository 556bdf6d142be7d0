"""The values of arguments as an operation converts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from django_mcp.contrib.http_calls import BODY, PATH, QUERY
from django_mcp.contrib.ninja.responses import WHOLE

_PLACES = {"path": PATH, "query": QUERY, "form": BODY, "body": BODY}
"""Where the arguments of each source of parameters go."""


def has_arguments(model: Any) -> bool:
    """Return whether a model of an operation's parameters reads arguments of the tool."""
    return model.__ninja_param_source__ in _PLACES


def find_converted(parameters: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the place, the name and the value of each argument, without those that are objects of the site's schemas.

    Args:
        parameters: the instance of a model of an operation's parameters.
    """
    place = _PLACES[parameters.__ninja_param_source__]
    for name, value in _find_values(parameters):
        if not _has_schemas(value):
            yield place, name, value


def _find_values(parameters: Any) -> Iterator[tuple[str, Any]]:
    paths = getattr(parameters, "__ninja_flatten_map__", None)
    if paths is not None:
        for name, path in paths.items():
            value = parameters
            for step in path:
                value = dict(_find_fields(value)).get(step)
            yield name, value
        return
    single = getattr(parameters, "__read_from_single_attr__", None)
    body = getattr(parameters, single) if single else parameters
    yield from _find_fields(body) if isinstance(body, BaseModel) else [(WHOLE, body)]


def _find_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a schema's fields by the names that clients send; nothing for what is no schema."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield field.alias or name, getattr(value, name)


def _has_schemas(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_schemas, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_schemas, value))
    return isinstance(value, BaseModel)
