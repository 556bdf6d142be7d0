"""Integers that a client in JavaScript would round: they may be texts of digits."""

from __future__ import annotations

import re
from typing import Annotated, Any

from django_mcp.protocol.json import JSONObject

MAX_EXACT = 2**53 - 1
"""The largest integer that every client reads exactly.

Source: RFC 8259, section 6.
"""

_MAX_DIGITS = 40
_DIGITS = re.compile(r"-?[0-9]{1,40}", re.ASCII)


class _Digits:
    """The hooks of pydantic for `BigInt`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            _read,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(
                write_integer, when_used="json-unless-none"
            ),
        )

    def __get_pydantic_json_schema__(self, _core_schema: Any, _handler: Any) -> JSONObject:
        return or_digits({"type": "integer"})


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _DIGITS.fullmatch(value) is None:
        raise ValueError("it is not an integer in digits")
    return int(value)


def write_integer(value: int) -> int | str:
    """Return an integer as results have it: as digits, if clients would round it."""
    return value if -MAX_EXACT <= value <= MAX_EXACT else str(value)


def write_integers(value: Any) -> Any:
    """Return a value of JSON in which the integers are as results have them; see `write_integer`."""
    if type(value) is int:
        return write_integer(value)
    if isinstance(value, dict):
        return {name: write_integers(each) for name, each in value.items()}
    return [write_integers(each) for each in value] if isinstance(value, list) else value


def level_numbers(value: Any) -> Any:
    """Return a value of JSON in a form that is equal for those which a client in JavaScript sends for each other.

    Such a client sends 1 for `1.0` and 0 for `-0.0`. An integer that it would round is like its digits.
    """
    if type(value) is float and value.is_integer():
        return write_integer(int(value))
    if isinstance(value, dict):
        return {name: level_numbers(each) for name, each in value.items()}
    return (
        [level_numbers(each) for each in value]
        if isinstance(value, list)
        else write_integers(value)
    )


def or_digits(schema: JSONObject) -> JSONObject:
    """Return the schema of an integer, or of its digits."""
    text = {"type": "string", "pattern": f"^-?[0-9]{{1,{_MAX_DIGITS}}}$"}
    return {"anyOf": [schema, text]}


BigInt = Annotated[int, _Digits()]
"""An integer of any size, such as a key of 64 bits.

As an argument it is an integer or a text of up to 40 digits. In a result it is a text if it is
beyond 2**53, because clients that read numbers as JavaScript does would round it.
"""
