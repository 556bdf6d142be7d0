"""Check a value with `jsonschema`, in bounded time and without quoting the value.

`jsonschema` writes the whole value into each message, matches patterns with `re` and compares
items pairwise. This module replaces the keywords for which that matters, and leaves the rest to
the library. `validators.py` describes the errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.subschemas import REFERENCES
from django_mcp.registry.patterns import compile_pattern, steps_of_match, surplus_of

if TYPE_CHECKING:
    from fractions import Fraction

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MAX_REFERENCES = 10

MAX_BRANCH_ERRORS = 100
"""Errors kept of each alternative of an `anyOf` or `oneOf`."""

_VALUES_PER_STEP = 8
"""Items or members that a keyword examines in one step. Measured."""


class ValidationBudget(Struct):
    """What one check may still do, and what it has found.

    Attributes:
        steps_left: how many keywords may still be applied.
        root: the schema; None if it has an `$id`, so that a reference may lead elsewhere.
        known: constants by branch, and results by branches and value.
    """

    steps_left: int
    root: JSONObject | None
    known: dict[Any, Any] = field(default_factory=dict)


budget: ContextVar[ValidationBudget] = ContextVar("budget")
"""The running check."""


_REFERENCE_COST = 10
"""Steps for resolving a reference. Measured."""


class BudgetSpent(Exception):
    """The budget is spent: the value is too large, or the schema branches too much for it."""


def spend(steps: int) -> None:
    """Take steps off the budget of the running check."""
    running = budget.get()
    running.steps_left -= steps
    if running.steps_left < 0:
        raise BudgetSpent


@functools.cache
def validator_class(name: str) -> type[Validator]:
    """Return `jsonschema`'s class of this name, with the keywords of this module."""
    import jsonschema
    from jsonschema import validators

    base = getattr(jsonschema, name)
    chosen = {**base.VALIDATORS, **{k: v for k, v in _OURS.items() if k in base.VALIDATORS}}
    extend: Any = validators.extend
    extended: type[Validator] = extend(
        base, {keyword: _counted(keyword, function) for keyword, function in chosen.items()}
    )
    return extended


def _counted(keyword: str, function: Callable[..., Any]) -> Callable[..., Any]:
    cost = _REFERENCE_COST if keyword in REFERENCES else 1

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        spend(cost)
        return function(validator, value, instance, schema)

    def apply_to_each(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        looked_at = value if keyword == "enum" else instance
        size = len(looked_at) if isinstance(looked_at, list | dict) else 0
        spend(cost + size // _VALUES_PER_STEP)
        return function(validator, value, instance, schema)

    return apply_to_each if keyword in _LOOKING_AT_EACH else apply


FITS_NONE = "fits none of the allowed forms"


def _error(message: str = "", **where: Any) -> ValidationError:
    from jsonschema import ValidationError

    return ValidationError(message, **where)


def _fails_if(test: Callable[[Any, Any, Any], bool]) -> Callable[..., Any]:
    """Return a keyword with one possible error, which `validators.py` describes."""

    def keyword(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
        if test(validator, value, instance):
            yield _error()

    return keyword


def _is_not_of(validator: Any, types: Any, instance: Any) -> bool:
    names = [types] if isinstance(types, str) else types
    return not any(validator.is_type(instance, name) for name in names)


def _occurs(pattern: str, text: str) -> bool:
    spend(steps_of_match(surplus_of(pattern), len(text)))
    return compile_pattern(pattern)(text)


def _is_no_multiple(validator: Any, step: Any, instance: Any) -> bool:
    if not validator.is_type(instance, "number"):
        return False
    return (_exact(instance) / _exact(step)).denominator != 1


def _exact(number: Any) -> Fraction:
    from fractions import Fraction

    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _holds_duplicates(_: Any, wanted: Any, instance: Any) -> bool:
    if not wanted or not isinstance(instance, list):
        return False
    return len({_frozen(item) for item in instance}) < len(instance)


def _is_none_of(_: Any, choices: Any, instance: Any) -> bool:
    is_container = isinstance(instance, list | dict)
    if is_container and not any(isinstance(choice, list | dict) for choice in choices):
        return True  # without comparing all its contents
    return _frozen(instance) not in map(_frozen, choices)


def _frozen(value: Any) -> Any:
    """Return a hashable form that is equal exactly for equal JSON values."""
    if isinstance(value, list | dict):
        spend(len(value) // _VALUES_PER_STEP)
    if isinstance(value, dict):
        return frozenset((key, _frozen(each)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(_frozen(part) for part in value)
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) >= _COLLIDING:
        return (int, hex(value))
    return value


_COLLIDING = 2**60
"""From here on, different whole numbers with the same hash can be found."""


def _required(_: Any, names: list[str], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    for name in names if isinstance(instance, dict) else ():
        if name not in instance:
            yield _error(path=[name])


def _dependent_required(
    _: Any, dependents: dict[str, list[str]], instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    for name, needed in dependents.items() if isinstance(instance, dict) else ():
        for needed_name in needed if name in instance else ():
            if needed_name not in instance:
                yield _error(name, path=[needed_name])


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict) or allowed is True:
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in known or any(_occurs(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield _error(path=[name])
        else:
            yield from validator.descend(value, allowed, path=name)


def _pattern_properties(
    validator: Any, schemas: dict[str, Any], instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    for pattern, inner in schemas.items() if isinstance(instance, dict) else ():
        for name, value in instance.items():
            if _occurs(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _property_names(
    validator: Any, inner: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    for name in instance if isinstance(instance, dict) else ():
        yield from validator.descend(name, inner, path=name)


def _fits_one(most: int) -> Callable[..., Any]:
    """Return a keyword that fails unless one alternative fits, of `most` that are counted.

    In a recursive schema, alternatives lead to the same part of a value again and again, which would
    double the work with each level. So the result is kept for each array and object.
    """

    def keyword(
        validator: Any, branches: list[Any], instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        key, known = (id(branches), id(instance)), budget.get().known
        _, fitting, failures = known.get(key, (None, None, []))
        if fitting is None:
            likely = (
                branch for branch in branches if not _is_ruled_out(validator, branch, instance)
            )
            fitting_branches = (branch for branch in likely if _fits(validator, branch, instance))
            fitting = len(list(islice(fitting_branches, most)))
            for index, branch in enumerate(() if fitting else branches):
                # `jsonschema` does not say which branch an error of `False` is of.
                errors = (
                    ()
                    if branch is False
                    else validator.descend(instance, branch, schema_path=index)
                )
                failures.extend(islice(errors, MAX_BRANCH_ERRORS))
            if isinstance(instance, dict | list) and budget.get().root is not None:
                known[key] = (instance, fitting, failures)
        if fitting != 1:
            # Without failures, nothing else tells the two apart.
            yield _error("" if fitting else FITS_NONE, context=failures)

    return keyword


def _fits(validator: Any, schema: Any, instance: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _is_ruled_out(validator: Any, branch: Any, instance: Any) -> bool:
    """Return whether a constant such as `{"op": {"const": "and"}}` shows that a branch does not fit."""
    known = budget.get().known
    if id(branch) not in known:
        known[id(branch)] = _find_constants(branch, {"const", "enum"} & validator.VALIDATORS.keys())
    return isinstance(instance, dict) and any(
        name in instance and _is_none_of(None, choices, instance[name])
        for name, choices in known[id(branch)].items()
    )


def _find_constants(branch: Any, keywords: set[str]) -> dict[str, list[Any]]:
    """Return the possible values of properties that have few, if they are easily found."""
    target: Any = branch
    for _ in range(_MAX_REFERENCES):
        if not isinstance(target, dict) or "$ref" not in target:
            break
        names = str(target["$ref"]).split("/")
        target = budget.get().root if names[0] == "#" else None
        for name in names[1:]:
            target = target.get(name) if isinstance(target, dict) else None
    properties = target.get("properties") if isinstance(target, dict) else None
    return {
        name: [schema["const"]] if keyword == "const" else schema["enum"]
        for name, schema in (properties or {}).items()
        for keyword in keywords
        # Before 2019-09, a reference makes the keywords beside it void.
        if isinstance(schema, dict) and keyword in schema and "$ref" not in schema
    }


_LOOKING_AT_EACH = frozenset(
    {"additionalProperties", "enum", "patternProperties", "propertyNames", "uniqueItems"}
)

_OURS: dict[str, Callable[..., Any]] = {
    "type": _fails_if(_is_not_of),
    "pattern": _fails_if(lambda _, p, value: isinstance(value, str) and not _occurs(p, value)),
    "multipleOf": _fails_if(_is_no_multiple),
    "uniqueItems": _fails_if(_holds_duplicates),
    "enum": _fails_if(_is_none_of),
    "const": _fails_if(lambda _, constant, value: _is_none_of(_, [constant], value)),
    "minLength": _fails_if(lambda _, n, value: isinstance(value, str) and len(value) < n),
    "maxLength": _fails_if(lambda _, n, value: isinstance(value, str) and len(value) > n),
    "minItems": _fails_if(lambda _, n, value: isinstance(value, list) and len(value) < n),
    "maxItems": _fails_if(lambda _, n, value: isinstance(value, list) and len(value) > n),
    "minProperties": _fails_if(lambda _, n, value: isinstance(value, dict) and len(value) < n),
    "maxProperties": _fails_if(lambda _, n, value: isinstance(value, dict) and len(value) > n),
    "required": _required,
    "dependentRequired": _dependent_required,
    "additionalProperties": _additional_properties,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "anyOf": _fits_one(most=1),
    "oneOf": _fits_one(most=2),
    "not": _fails_if(_fits),
}
