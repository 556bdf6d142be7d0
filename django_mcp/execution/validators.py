"""Run the validators of Django on what clients send, and describe them in JSON Schema."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any

from django.core.exceptions import ValidationError

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.problems import show

_MODULE = "django.core.validators"

_LIMITS = {
    "MinValueValidator": ("minimum", max),
    "MaxValueValidator": ("maximum", min),
}
_LENGTHS = {
    "MinLengthValidator": ({"string": "minLength", "array": "minItems"}, max),
    "MaxLengthValidator": ({"string": "maxLength", "array": "maxItems"}, min),
}
"""The keywords that say what a validator does, and which of two values for one holds."""

_SPECIAL = re.compile(r"\\[^dAZ.\-/+*?()\[\]{}|^$\\]|\(\?(?!:)|(?<!^)\\A|\\Z(?!$)")
"""Parts of a pattern that other languages read in another way than Python does."""


class DjangoValidators:
    """See `FieldValidators`. A validator is one of Django, or of a class that derives from one."""

    advice = f", or use a validator of {_MODULE}"

    def is_validator(self, value: Any) -> bool:
        if inspect.isfunction(value):
            return value.__module__ == _MODULE
        return callable(value) and self.is_validator_class(type(value))

    def is_validator_class(self, cls: type) -> bool:
        return any(base.__module__ == _MODULE for base in cls.__mro__)

    def find_fault(self, validator: Any) -> str | None:
        if not _has_pattern(validator):
            return None
        try:
            _compile(validator)
        except ValueError as error:
            return (
                f"the pattern {_regex(validator).pattern!r:.100} cannot be matched in linear time ({error}), and a "
                "client chooses the text. Write it without look-around and back-references"
            )
        return None

    def make_check(self, validator: Any) -> Callable[[Any], None]:
        if _has_pattern(validator):
            return partial(_check_pattern, validator, _compile(validator))
        return partial(_check_value, validator)

    def describe(self, validator: Any, schema: JSONObject) -> None:
        name, limit = _compared_as(validator), _number(getattr(validator, "limit_value", None))
        if name in _LIMITS and limit is not None:
            keyword, choose = _LIMITS[name]
            schema[keyword] = choose(schema.get(keyword, limit), limit)
        elif name in _LENGTHS and limit is not None:
            keywords, choose = _LENGTHS[name]
            branches = [schema, *schema.get("anyOf", ())]
            kinds = {branch.get("type") for branch in branches if isinstance(branch, dict)}
            for keyword in (keywords[kind] for kind in keywords if kind in kinds):
                schema[keyword] = choose(schema.get(keyword, limit), limit)
        elif _has_pattern(validator) and not validator.inverse_match and "pattern" not in schema:
            regex = _regex(validator)
            if regex.flags == re.UNICODE and not _SPECIAL.search(regex.pattern):
                schema["pattern"] = re.sub(r"\\Z$", "$", re.sub(r"^\\A", "^", regex.pattern))


def _check_value(validator: Any, value: Any) -> None:
    try:
        validator(value)
    except OverflowError:
        # Of a validator that calculates with floats, such as one of steps.
        raise ValueError("The number is too large.") from None
    except ValidationError as error:
        raise ValueError(" ".join(error.messages)) from None


def _check_pattern(validator: Any, matches: Callable[[str], bool], value: Any) -> None:
    if matches(str(value)) == bool(validator.inverse_match):
        message = str(validator.message)
        raise ValueError(message.replace("%(value)s", show(str(value))))


def _has_pattern(validator: Any) -> bool:
    """Return whether a validator does no more than match a pattern of its author's."""
    calls = (vars(base)["__call__"] for base in type(validator).__mro__ if "__call__" in vars(base))
    call = next(calls, None)
    return (
        getattr(call, "__module__", "") == _MODULE
        and getattr(call, "__qualname__", "") == "RegexValidator.__call__"
    )


def _regex(validator: Any) -> re.Pattern[str]:
    regex: re.Pattern[str] = validator.regex
    return regex


def _compile(validator: Any) -> Callable[[str], bool]:
    """Return a function that matches the pattern of a validator in linear time; raise ValueError if there is none."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    regex = _regex(validator)
    letters = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.VERBOSE, "x"))
    flags = "".join(letter for flag, letter in letters if regex.flags & flag)
    pattern = regex.pattern.replace(r"\Z", r"\z")
    try:
        matching = SchemaValidator(
            core_schema.str_schema(
                pattern=f"(?{flags}){pattern}" if flags else pattern, regex_engine="rust-regex"
            )
        )
    except (SchemaError, UnicodeEncodeError, TypeError) as error:
        lines = str(error).splitlines()
        told = next((line[7:] for line in lines if line.startswith("error: ")), lines[-1])
        raise ValueError(told) from error
    return matching.isinstance_python


def _compared_as(validator: Any) -> str:
    """Return the name of Django's validator that compares as this one does; `""` if its class has its own way."""
    for base in type(validator).__mro__:
        if base.__module__ == _MODULE:
            return base.__name__
        if not vars(base).keys().isdisjoint(("compare", "clean", "__call__")):
            return ""
    return ""


def _number(limit: Any) -> int | float | None:
    """Return a limit as JSON has it; None for a date, a function or what is no number in JSON."""
    if isinstance(limit, Decimal):
        limit = (
            int(limit) if limit.is_finite() and limit == limit.to_integral_value() else float(limit)
        )
    if type(limit) is int or (type(limit) is float and isfinite(limit)):
        return limit
    return None
