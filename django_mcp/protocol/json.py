"""The JSON codec.

`msgspec` rejects what JSON does not have (NaN, Infinity, bad UTF-8, lone surrogates), keeps
integers exact and uses the last of duplicate keys. This module adds a limit on nesting, so that
recursive code cannot overflow the stack.
"""

from __future__ import annotations

import json  # noqa: TID251  (msgspec has no hook for the pairs of an object)
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

JSONValue: TypeAlias = Any
"""None, bool, int, float, str, list or dict: what `decode` returns."""

JSONObject: TypeAlias = dict[str, Any]

MAX_DEPTH = 64
"""Levels of nesting accepted from a peer; deeper data is a parse error."""

_decode = msgspec.json.Decoder().decode


class JSONDecodeError(ValueError):
    """The bytes are not acceptable JSON: malformed, not UTF-8, or nested too deeply."""


def decode(data: bytes | str) -> JSONValue:
    """Return the JSON value written in `data`.

    Raises:
        JSONDecodeError: not UTF-8, not JSON (such as NaN), or deeper than `MAX_DEPTH`.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    try:
        value = _decode(data)
    except RecursionError:
        raise JSONDecodeError("nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise JSONDecodeError(str(error)) from None
    # Brackets are counted only if there is room for too many: a level of an object takes five bytes.
    has_room = b"[" in data or len(data) > 5 * MAX_DEPTH
    brackets = data.count(b"[") + data.count(b"{") if has_room else 0
    if brackets > MAX_DEPTH and is_deeper_than(value, MAX_DEPTH):
        raise JSONDecodeError("nested too deeply")
    return value


def has_repeated_keys(data: bytes) -> bool:
    """Return whether an object in JSON text, which `decode` accepts, has a key more than once."""
    has_any = False

    def collect(pairs: list[tuple[str, Any]]) -> None:
        nonlocal has_any
        has_any = has_any or len({key for key, _value in pairs}) < len(pairs)

    json.loads(data, object_pairs_hook=collect)
    return has_any


def has_more_values(data: bytes, limit: int) -> bool:
    """Return whether JSON text holds more than `limit` values, without decoding it.

    An object counts as `OBJECT_WEIGHT` values, a list as `LIST_WEIGHT`, a number whose exponent may
    be close to the range of floats as `EXPONENT_WEIGHT`, and each `LONG_DIGITS` digits in a row as
    `DIGITS_WEIGHT` more. The contents of strings do not count.
    """
    # Nothing weighs more for its length than an empty object, which has two bytes.
    if len(data) * OBJECT_WEIGHT // 2 <= limit:
        return False
    exponents = data.count(b"e") + data.count(b"E")
    upper = _weigh_containers(data) + EXPONENT_WEIGHT * exponents
    if upper + DIGITS_WEIGHT * (len(data) // LONG_DIGITS) <= limit:
        return False
    if upper + _weigh_digits(data) <= limit:
        return False
    plain = _without_escapes(data)
    if plain.count(b'"') > 4 * limit:  # each value may have a key
        return True
    return _weigh_plain(plain) > limit


def weigh(data: bytes) -> int:
    """Return the weight of the values in JSON text, as `has_more_values` counts it."""
    return _weigh_plain(_without_escapes(data))


OBJECT_WEIGHT = 6
LIST_WEIGHT = 2
"""Values that a list counts as, since it takes longer to create. Measured."""

EXPONENT_WEIGHT = 15
"""Values that a number such as `1e300` counts as: msgspec reads those slowly."""

LONG_DIGITS = 64
DIGITS_WEIGHT = 13
"""Values that each `LONG_DIGITS` digits of a number count as, since the time to read an integer grows
with the square of its length, and since with about 100 digits a number such as `1000…e199` is as slow as
`1e308`. Measured."""

_LOWER_E = bytes.maketrans(b"E", b"e")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * LONG_DIGITS


def _without_escapes(data: bytes) -> bytes:
    """Return JSON text whose quotes all begin or end a string."""
    return data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data


def _weigh_plain(plain: bytes) -> int:
    bare = b"".join(plain.split(b'"')[::2])
    weight = _weigh_containers(bare) + _weigh_digits(bare)
    # Without signs and zeros, an exponent of 200 or more starts with a 2 or a 3.
    bare = bare.translate(_LOWER_E, b"+-0")
    return weight + EXPONENT_WEIGHT * (bare.count(b"e2") + bare.count(b"e3"))


def _weigh_containers(data: bytes) -> int:
    """Return the weight of lists, objects and items, also of what looks like them in strings."""
    return data.count(b",") + LIST_WEIGHT * data.count(b"[") + OBJECT_WEIGHT * data.count(b"{")


def _weigh_digits(data: bytes) -> int:
    return DIGITS_WEIGHT * data.translate(_DIGITS).count(_LONG_NUMBER)


def is_deeper_than(value: JSONValue, limit: int) -> bool:
    """Return whether a value has more levels of arrays and objects than `limit`."""
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            return True
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return False


def is_lazy(value: object) -> bool:
    """Return whether a value is a lazily translated text.

    It is recognized by the name of its base class, since this layer does not import Django.
    """
    return not isinstance(value, str) and any(
        base.__name__ == "Promise" for base in type(value).__mro__
    )


def _encode_other(value: object) -> JSONValue:
    if isinstance(value, str):
        # msgspec accepts no subclasses; Django's SafeString is one.
        return str.__str__(value)
    # pydantic models are recognized without importing pydantic.
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    if is_lazy(value):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


encode_sorted = msgspec.json.Encoder(enc_hook=_encode_other, order="sorted").encode
"""Write a value as JSON with sorted keys, so that equal values have equal bytes."""

encode = msgspec.json.Encoder(enc_hook=_encode_other).encode
"""Write a value as compact JSON bytes on one line.

Dates are ISO 8601, UUID and Decimal strings, Enum members their values; dataclasses, TypedDicts
and pydantic models are objects. NaN becomes null. Raises TypeError for anything else.
"""


_pack = msgspec.msgpack.Encoder(enc_hook=_encode_other).encode

_INFINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How MessagePack writes floats whose exponent has all bits: NaN and the infinities."""


def may_hold_infinite(value: JSONValue) -> bool:
    """Return False if a value holds neither NaN nor an infinity; True if it may.

    MessagePack is written several times faster than each value is looked at.
    """
    try:
        return _INFINITE.search(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):  # it has no integers of more than 64 bits
        return True


def present(**members: JSONValue) -> JSONObject:
    """Return a JSON object of the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def to_pointer(path: Iterable[str | int]) -> str:
    """Return the JSON Pointer of a path of member names and indexes (RFC 6901 section 3)."""
    return "".join(
        f"/{step}" if isinstance(step, int) else "/" + step.replace("~", "~0").replace("/", "~1")
        for step in path
    )


def encode_pretty(value: object) -> str:
    """Write a value as indented JSON without a newline at its end."""
    return msgspec.json.format(encode(value), indent=2).decode()
