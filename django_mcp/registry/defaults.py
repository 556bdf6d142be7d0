"""The defaults of parameters: check at registration that they fit, and copy those that can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from django_mcp.protocol.json import JSONObject, is_lazy
from django_mcp.registry import hints
from django_mcp.registry.adapters import UnsupportedType, make_adapter
from django_mcp.registry.arguments import Reader
from django_mcp.registry.plain_types import is_plain_value, plain_schema
from django_mcp.registry.problems import RegistrationError, conversion_error, describe_conversion
from django_mcp.registry.signatures import EMPTY, Parameter, is_field
from django_mcp.registry.unions import NodeGraph


def check_defaults(parameters: Sequence[Parameter], source: str) -> None:
    """Refuse parameters with a default that their type does not have.

    None is a default of every type, and means that nothing was given. Types with functions of the site
    are left out: these would run while the site starts.
    """
    for parameter in parameters:
        for default in _find_defaults(parameter):
            if default is None or is_lazy(default):
                continue
            if plain_schema(parameter.annotation) is not None:
                fault = (
                    None if is_plain_value(default, parameter.annotation) else "it has another type"
                )
            else:
                fault = _find_default_fault(default, parameter.annotation)
            if fault is not None:
                raise RegistrationError(
                    f"{source}: the default of the parameter `{parameter.name}`, {default!r:.60}, does not fit "
                    f"its annotation: {fault}. Correct one of them."
                )


def _find_defaults(parameter: Parameter) -> Iterator[Any]:
    """Yield the defaults of a parameter, in the function and in a `Field(...)`."""
    if parameter.default is not EMPTY:
        yield parameter.default
    for each in hints.strip_with_metadata(parameter.annotation)[1]:
        if is_field(each) and not each.is_required() and each.default_factory is None:
            yield each.default


def _find_default_fault(default: Any, annotation: Any) -> str | None:
    """Return why a default does not fit a type that is not plain, or None."""
    try:
        adapter = make_adapter(annotation)
    except UnsupportedType:
        return None  # reported where all parameters are adapted
    schema: Any = adapter.core_schema
    if any(node["type"].startswith("function-") for node in NodeGraph(schema).nodes):
        return None
    try:
        value = adapter.validate_python(default)
    except conversion_error() as error:
        problem = describe_conversion(error, default)[0]
        return f"{problem.pointer or 'it'} {problem.message}"
    if _is_alike(value, default):
        return None
    return "the function would get it as it is, and not as pydantic converts it"


_COLLECTIONS = (list, tuple, set, frozenset)


def _is_alike(value: Any, default: Any) -> bool:
    """Return whether a converted default is what the function would get."""
    if value == default:
        return True
    # Authors avoid defaults that can be changed.
    if isinstance(value, _COLLECTIONS) and isinstance(default, _COLLECTIONS):
        pairs = zip(value, default, strict=False)
        return len(value) == len(default) and all(_is_alike(*pair) for pair in pairs)
    if isinstance(value, dict) and isinstance(default, dict):
        return value.keys() == default.keys() and all(
            _is_alike(value[key], default[key]) for key in value
        )
    return type(value) is type(default)


def copy_defaults(read: Reader, parameters: Sequence[Parameter]) -> Reader:
    """Return a reader that gives each call defaults of its own, where a function could change them.

    Python makes a default such as `[]` once, and what one caller leaves in it is seen by the next.
    """
    changeable = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not EMPTY and _can_change(parameter.default)
    }
    if not changeable:
        return read

    def read_with_defaults(arguments: JSONObject) -> dict[str, Any]:
        bound = read(arguments)
        for name, default in changeable.items():
            if name not in bound:
                bound[name] = deepcopy(default)
        return bound

    return read_with_defaults


def _can_change(default: Any) -> bool:
    """Return whether a default has no hash, as is usual for what can be changed, and can be copied."""
    if is_lazy(default):
        return False
    try:
        hash(default)
    except TypeError:
        return _can_copy(default)
    return False


def _can_copy(default: Any) -> bool:
    # Locks and open files, for example, cannot: such an object is meant to be shared.
    try:
        deepcopy(default)
    except Exception:  # noqa: BLE001 - whatever a class of the site raises
        return False
    return True
