"""Describe what is wrong with a value for a model: completely, in order, and within bounds.

The errors come from `jsonschema` (the published schema) or from pydantic (what the types require
beyond the schema). A client's values are quoted only in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import encode, to_pointer
from django_mcp.registry.keywords import spend
from django_mcp.registry.problems import Problem

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from pydantic import ValidationError as ConversionError

MAX_PROBLEMS = 50
"""Problems reported at once; the rest are counted. Our own limit."""

MAX_CONVERSION_ERRORS = 1000
"""Errors of pydantic that are described, since more would take long. Our own limit."""

_MAX_SHOWN_CHARS = 80
_MAX_MESSAGE_CHARS = 300
_MAX_QUOTED_CHARS = 200
_MAX_NAMES = 20
_COMPARED_PER_STEP = 100
"""Pairs of characters compared in one step of a check. Our own limit, measured."""
_ARTICLED = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def in_order(problems: Iterable[Problem], *, has_more: bool = False) -> list[Problem]:
    """Return up to `MAX_PROBLEMS` problems, ordered by pointer and without duplicates.

    `has_more` says that the search ended before all were found.
    """
    found = sorted(set(problems), key=lambda each: (each.pointer, each.message))
    left = len(found) - MAX_PROBLEMS
    if left <= 0 and not has_more:
        return found
    count = f"{left} or more" if has_more and left > 0 else "perhaps" if has_more else str(left)
    return [*found[:MAX_PROBLEMS], Problem("", f"and {count} further problems")]


def show(value: Any) -> str:
    """Return a value for a message, as short JSON on one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        cut = value[:_MAX_SHOWN_CHARS].encode("utf-8", "replace").decode()
        text = encode(cut).decode()
        return text if len(value) <= _MAX_SHOWN_CHARS else f'{text[:-1]}…"'
    if isinstance(value, int) and abs(value) >= 10**_MAX_SHOWN_CHARS:
        return "a very large number"
    return encode(value).decode()


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[: _MAX_MESSAGE_CHARS - 1] + "…"


# -- errors of jsonschema


def describe_errors(errors: Iterable[ValidationError]) -> Iterator[Problem]:
    """Yield the problems of errors of `jsonschema`; an alternative may yield several.

    The errors come from the validators in `keywords.py`.
    """
    for error in errors:
        if error.validator in ("anyOf", "oneOf") and error.context:
            yield from _describe_alternatives(error)
        else:
            yield Problem(to_pointer(error.absolute_path), _clip(_describe(error)))


def _describe(error: ValidationError) -> str:
    keyword: Any = error.validator
    describe = _MESSAGES.get(keyword)
    if describe is not None:
        return describe(error)
    if keyword is None:
        return "is not allowed"
    bound = _BOUNDS.get(keyword)
    if bound is not None:
        instance: Any = error.instance
        unit = bound[1]
        shown = str(len(instance)) if unit else show(instance)
        return f"must {bound[0]} {show(error.validator_value)}{unit}, not {shown}"
    return error.message[:_MAX_QUOTED_CHARS]


_BOUNDS = {
    "minimum": ("be at least", ""),
    "maximum": ("be at most", ""),
    "exclusiveMinimum": ("be more than", ""),
    "exclusiveMaximum": ("be less than", ""),
    "multipleOf": ("be a multiple of", ""),
    "minLength": ("have at least", " characters"),
    "maxLength": ("have at most", " characters"),
    "minItems": ("have at least", " items"),
    "maxItems": ("have at most", " items"),
    "minProperties": ("have at least", " members"),
    "maxProperties": ("have at most", " members"),
}


def _describe_type(error: ValidationError) -> str:
    return f"must be {_either(_types(error))}, not {_typed(error)}"


def _typed(error: ValidationError) -> str:
    value = error.instance
    return f"the string {show(value)}" if isinstance(value, str) else show(value)


def _either(types: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(_ARTICLED.get(each, each) for each in types))


def _describe_enum(error: ValidationError) -> str:
    choices: Any = error.validator_value
    shown = ", ".join(show(choice) for choice in choices[:_MAX_NAMES])
    more = ", …" if len(choices) > _MAX_NAMES else ""
    return f"must be one of {shown}{more}; not {show(error.instance)}"


def _describe_unknown(error: ValidationError) -> str:
    schema: Any = error.schema
    name = str(error.path[-1])
    known = [str(each) for each in schema.get("properties", {})]
    if len(name) <= _MAX_SHOWN_CHARS:
        import difflib

        # Comparing two names takes up to the square of their length.
        spend(min(len(known), 100) * (1 + len(name) ** 2 // _COMPARED_PER_STEP))
        close = difflib.get_close_matches(name, known[:100], n=1)
        if close:
            return f"is unknown; did you mean {show(close[0])}?"
    if not known:
        return "is unknown; there are no members here"
    more = ", …" if len(known) > _MAX_NAMES else ""
    return f"is unknown; known are {', '.join(map(show, known[:_MAX_NAMES]))}{more}"


_MESSAGES: dict[str, Callable[[ValidationError], str]] = {
    "type": _describe_type,
    "enum": _describe_enum,
    "const": lambda error: f"must be {show(error.validator_value)}, not {show(error.instance)}",
    "required": lambda _: "is required",
    "dependentRequired": lambda error: f"is required together with {show(error.message)}",
    "additionalProperties": _describe_unknown,
    "pattern": lambda error: (
        f"must match the pattern {show(error.validator_value)}, not {show(error.instance)}"
    ),
    "uniqueItems": lambda _: "must not hold an item twice",
    "not": lambda _: "is of a form that is excluded",
    "anyOf": lambda _: "fits none of the allowed forms",
    "oneOf": lambda _: "fits more than one of the allowed forms, and must fit one",
    "contains": lambda _: "holds too few items of the kind it must hold",
    "minContains": lambda _: "holds too few items of the kind it must hold",
    "maxContains": lambda _: "holds too many items of one kind",
}


def _describe_alternatives(error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of a value in the alternative that it comes nearest to."""
    branches: dict[Any, list[ValidationError]] = {}
    for each in error.context or ():
        branches.setdefault(each.schema_path[0], []).append(each)
    mistyped = [own[0] for own in branches.values() if _is_mistyped(own)]
    fitting = [own for own in branches.values() if not _is_mistyped(own)]
    pointer = to_pointer(error.absolute_path)
    if not fitting:
        types = [name for each in mistyped for name in _types(each)]
        yield Problem(pointer, _clip(f"must be {_either(types)}, not {_typed(error)}"))
        return
    nearest = min(fitting, key=_distance)
    if len(fitting) > 1:
        yield Problem(pointer, f"fits none of the {len(branches)} allowed forms; the nearest fails")
    yield from describe_errors(nearest)


def _is_mistyped(errors: Sequence[ValidationError]) -> bool:
    return any(error.validator == "type" and not error.path for error in errors)


def _types(error: ValidationError) -> list[str]:
    types: Any = error.validator_value
    return [types] if isinstance(types, str) else list(types)


def _distance(errors: Sequence[ValidationError]) -> tuple[int, int]:
    """Return how far off an alternative is: a wrong constant means that another was intended."""
    wrong = sum(error.validator in ("const", "enum") for error in errors)
    return (wrong, len(errors))


# -- errors of pydantic


def conversion_error() -> type[ConversionError]:
    """Return the class of pydantic's error, for `except`: by then a conversion has loaded pydantic."""
    from pydantic import ValidationError

    return ValidationError


def describe_conversion(error: ConversionError, value: Any) -> list[Problem]:
    """Return the problems of an error of pydantic for the value it was given."""
    count = error.error_count()
    if count > MAX_CONVERSION_ERRORS:  # pydantic writes out all of them or none
        return [Problem("", f"has {count} values that cannot be read; send less at once")]
    found = [
        Problem(to_pointer(_path(each, value)), _clip(_words(each)))
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return in_order(found)


_WORDS = {"missing": "is required", "extra_forbidden": "is unknown"}


def _words(error: Any) -> str:
    message: str = error["msg"]
    return _WORDS.get(error["type"], message.replace("Input should", "should", 1))


def _path(error: Any, value: Any) -> Iterator[str | int]:
    """Yield the steps of a location that exist in the value; the others name alternatives."""
    location = error["loc"]
    absent = len(location) - 1 if error["type"] == "missing" else None
    for index, step in enumerate(location):
        found = _step(value, step)
        if found is not _NOTHING or index == absent:
            yield step
            value = found


_NOTHING: Any = object()


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step, _NOTHING)
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and 0 <= step < len(value) else _NOTHING
    # A handler may have returned an object, whose attributes are read.
    return getattr(value, step, _NOTHING) if isinstance(step, str) else _NOTHING
