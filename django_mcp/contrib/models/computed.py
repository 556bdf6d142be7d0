"""Properties and methods of a model that are shown: how they are read and described."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from django.db.models import Model

from django_mcp.contrib.models.paths import PathError
from django_mcp.protocol.json import JSONObject

Read = Callable[[Any], Any]
"""Reads a value for JSON from an instance."""


def read_computed(model: type[Model], name: str) -> tuple[Read, JSONObject]:
    """Return what reads a property or a method without arguments from an instance.

    Raises:
        PathError: it is something else.
    """
    static_value = inspect.getattr_static(model, name)
    function = getattr(static_value, "fget", None) or getattr(static_value, "func", None)
    if function is not None:
        return attrgetter(name), describe_return(function, name)
    if inspect.isfunction(static_value) and len(inspect.signature(static_value).parameters) == 1:
        return lambda instance: getattr(instance, name)(), describe_return(static_value, name)
    raise PathError(f"{name!r} of {model._meta.label} is neither a field nor a property")


def describe_return(function: Callable[..., Any], name: str) -> JSONObject:
    """Return the schema of what a function returns, by its annotation."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        annotation = typing.get_type_hints(function).get("return", Any)
        schema = TypeAdapter(annotation).json_schema(mode="serialization")
    except (NameError, TypeError, PydanticSchemaGenerationError, PydanticUserError):
        # Only the type is not known: a value that has no form in JSON is told when it is read.
        schema = {}
    if "$defs" in schema:  # references, which lead nowhere inside of another schema
        schema = {}
    # Some releases of pydantic describe decimals by a pattern that looks around, which no schema here may.
    schema.pop("pattern", None)
    return {**schema, "title": name.replace("_", " ")}
