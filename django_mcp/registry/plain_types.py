"""Describe plain types in JSON Schema without pydantic, and let it convert their values when the first come."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin
from weakref import WeakSet

from django_mcp.protocol.json import JSONObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_DEPTH = 8
"""Types inside of each other that are described here; pydantic reads deeper ones."""

_SCALARS = (
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (bool, "boolean"),
    (types.NoneType, "null"),
)


def plain_schema(annotation: Any, max_depth: int = MAX_DEPTH) -> JSONObject | None:
    """Return the JSON Schema of a type as pydantic writes it; None if the type is not plain.

    Plain are scalars of JSON, `Any`, and lists, `dict[str, ...]` and `Optional` of plain types.
    """
    if annotation is Any:
        return {}
    for scalar, name in _SCALARS:
        if annotation is scalar:
            return {"type": name}
    if not max_depth:
        return None
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is list and len(inner) == 1:
        inner_schema = plain_schema(inner[0], max_depth - 1)
        return None if inner_schema is None else {"items": inner_schema, "type": "array"}
    if kind is dict and len(inner) == 2 and inner[0] is str:
        inner_schema = plain_schema(inner[1], max_depth - 1)
        return (
            None
            if inner_schema is None
            else {"additionalProperties": inner_schema or True, "type": "object"}
        )
    if kind in (Union, types.UnionType) and len(inner) == 2 and types.NoneType in inner:
        inner_schema = plain_schema(inner[inner[0] is types.NoneType], max_depth - 1)
        return None if inner_schema is None else {"anyOf": [inner_schema, {"type": "null"}]}
    return None


def is_plain_value(value: Any, annotation: Any) -> bool:
    """Return whether a value is of a plain type, as pydantic has it."""
    if annotation is Any:
        return True
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is list:
        is_collection = isinstance(value, list | tuple | set | frozenset)
        return is_collection and all(is_plain_value(each, inner[0]) for each in value)
    if kind is dict:
        return isinstance(value, dict) and all(
            isinstance(key, str) and is_plain_value(each, inner[1]) for key, each in value.items()
        )
    if kind in (Union, types.UnionType):
        return any(is_plain_value(value, each) for each in inner)
    if annotation is types.NoneType:
        return value is None
    if annotation is bool:
        return value in (True, False)
    if annotation is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, int | float if annotation is float else annotation)


class LazyAdapter:
    """pydantic's converter of a type, which is made at once or, if it waits, for the first value.

    One that may fail must not wait: registration reports it.
    """

    def __init__(self, make: Callable[[], TypeAdapter[Any]], *, waits: bool) -> None:
        self._make = make
        if waits:
            _waiting.add(self)
        else:
            self.adapter = make()

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """The converter. Two threads may make it at once; both are the same."""
        return self._make()

    @cached_property
    def validate(self) -> Callable[[Any], Any]:
        """Takes a value and returns it as the type has it, or raises pydantic's `ValidationError`."""
        return self.adapter.validator.validate_python


_waiting: WeakSet[LazyAdapter] = WeakSet()


def make_conversions() -> None:
    """Make the converters that wait, in a process that is about to serve."""
    for conversions in list(_waiting):
        conversions.validate  # noqa: B018
        _waiting.discard(conversions)
