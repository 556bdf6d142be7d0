"""Resolve and inspect type hints."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from django_mcp.registry.problems import RegistrationError, innermost

UNIONS = (Union, types.UnionType)
_LISTS = (list, tuple, set, frozenset)


def resolve_hints(function: Callable[..., Any], source: str) -> dict[str, Any]:
    """Return the type hints of a callable by parameter name, with `Annotated` kept."""
    target = innermost(function)
    if not inspect.isroutine(target) and not hasattr(target, "__wrapped__"):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, localns=_closure(target), include_extras=True)
    except NameError as error:
        written = getattr(inspect.unwrap(target), "__annotations__", {}).values()
        labels = [text for text in written if str(text).startswith(f"{error.name}.")]
        if labels and isinstance(labels[0], str):
            raise RegistrationError(
                f"{source}: the annotation {labels[0]!r} is a text, and no {error.name!r} exists at run time. "
                f"Annotate the class itself; that of settings.AUTH_USER_MODEL is get_user_model()."
            ) from None
        raise RegistrationError(
            f"{source}: the name {error.name!r} in its annotations does not exist at run time. "
            f"Import it outside `if TYPE_CHECKING:`, or define it at the top of the module."
        ) from None
    except (AttributeError, SyntaxError, TypeError) as error:
        raise RegistrationError(
            f"{source}: its annotations cannot be read: {error}. Correct them."
        ) from None


def _closure(function: Any) -> dict[str, Any] | None:
    inner = inspect.unwrap(function)
    code, cells = getattr(inner, "__code__", None), getattr(inner, "__closure__", None)
    if not code or not cells:
        return None
    known = dict(inner.__globals__)
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return known


_LITERALS = (str, int, bool, bytes, enum.Enum, types.NoneType)


def find_fault(annotation: Any) -> str | None:
    """Return why an annotation is no type, such as a function or a list; None if nothing is wrong.

    Python and pydantic accept some of these, and clients could send anything then, or nothing.
    """
    inner = strip(annotation)
    name = getattr(inner, "__name__", "")
    if inspect.isroutine(inner):
        return f"the function `{name}` is no type. Write the type, or call the function if it returns one"
    if isinstance(inner, list | tuple | dict | set):
        return (
            f"{inner!r:.60} is no type. Write one such as list[str], or int | str for alternatives"
        )
    if get_origin(inner) is Literal:
        wrong = [value for value in get_args(inner) if not isinstance(value, _LITERALS)]
        if wrong:
            return (
                f"a Literal has plain values, and {wrong[0]!r:.60} is none. The choices of a model field are "
                f"its TextChoices class, or Literal[tuple(values)]"
            )
        return None
    if get_origin(inner) is Callable:  # whose parameters are a list
        return None
    return next(filter(None, map(find_fault, get_args(inner))), None)


def strip_with_metadata(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without `Annotated` and `type X = ...` around it, and the metadata found."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            metadata = (*annotation.__metadata__, *metadata)
            annotation = annotation.__origin__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, metadata


def strip(annotation: Any) -> Any:
    """Return a type without `Annotated` and `type X = ...` around it."""
    return strip_with_metadata(annotation)[0]


def members(annotation: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union; any other type is its own only alternative."""
    inner = strip(annotation)
    if get_origin(inner) in UNIONS:
        return tuple(member for arg in get_args(inner) for member in members(arg))
    return (inner,)


def is_nullable(annotation: Any) -> bool:
    """Return whether None is a value of a type."""
    return any(
        member in (None, types.NoneType, Any, object)
        or (get_origin(member) is Literal and None in get_args(member))
        for member in members(annotation)
    )


def find_optional(annotation: Any) -> Any | None:
    """Return T of `Optional[T]`, with the `Annotated` inside; None for other types."""
    inner = strip(annotation)
    if get_origin(inner) not in UNIONS:
        return None
    rest = [arg for arg in get_args(inner) if strip(arg) is not types.NoneType]
    return rest[0] if len(rest) == 1 and len(get_args(inner)) == 2 else None


def is_typed_dict(annotation: Any) -> bool:
    """Return whether a type is a TypedDict."""
    return isinstance(annotation, type) and hasattr(annotation, "__required_keys__")


def is_model(annotation: Any) -> bool:
    """Return whether a type is a pydantic model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(annotation, type):
        return False
    return issubclass(annotation, pydantic.BaseModel)


def is_record(annotation: Any) -> bool:
    """Return whether a type has declared fields: a TypedDict, a dataclass or a pydantic model."""
    if not isinstance(annotation, type):
        return False
    return is_typed_dict(annotation) or dataclasses.is_dataclass(annotation) or is_model(annotation)


def is_structured(annotation: Any) -> bool:
    """Return whether values of a type are JSON objects or arrays."""
    for member in members(annotation):
        kind = get_origin(member) or member
        if is_record(kind) or getattr(kind, "__module__", "") == "collections.abc":
            return True
        if isinstance(kind, type) and issubclass(kind, (*_LISTS, Mapping)):
            return True
    return False


def is_list(annotation: Any) -> bool:
    """Return whether values of a type, other than None, are JSON arrays."""
    kinds = [get_origin(member) or member for member in members(annotation)]
    kinds = [kind for kind in kinds if kind not in (None, types.NoneType)]
    return all(isinstance(kind, type) and issubclass(kind, _LISTS) for kind in kinds)


def find_choices(annotation: Any) -> dict[str, Any] | None:
    """Return the values of a `Literal`, `Enum` or `bool` by their text; None for other types.

    None is left out of the alternatives: callers express it by leaving out the argument.
    """
    choices: dict[str, Any] = {}
    for part in members(annotation):
        if part in (None, types.NoneType):
            continue
        if get_origin(part) is Literal:
            values: list[Any] = [value for value in get_args(part) if value is not None]
        elif isinstance(part, type) and issubclass(part, enum.Enum):
            values = [member.value for member in part]
        elif part is bool:
            values = [True, False]
        else:
            return None
        choices.update((_text(value), value) for value in values)
    return choices or None


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    return str(value).lower() if isinstance(value, bool) else str(value)
