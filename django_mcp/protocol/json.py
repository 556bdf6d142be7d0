"""The one JSON codec: exact, bounded and fast.

`msgspec` refuses what JSON does not have (NaN, Infinity, bad UTF-8, lone surrogates), keeps whole
numbers exact and lets the last of duplicate keys win. This module adds the bound on nesting, so
that nothing behind it has to fear for the stack.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

__all__ = [
    "JSONDecodeError",
    "JSONObject",
    "JSONValue",
    "Raw",
    "decode",
    "encode",
    "encode_pretty",
    "encode_sorted",
]

JSONValue: TypeAlias = Any
"""None, bool, int, float, str, list or dict: what `decode` returns."""

JSONObject: TypeAlias = dict[str, Any]

Raw = msgspec.Raw
"""JSON that is encoded already: `encode` writes its bytes as they are."""

MAX_DEPTH = 64
"""Levels of nesting accepted from a peer. Ours; deeper data is refused as unparsable."""

_decoder = msgspec.json.Decoder()


class JSONDecodeError(ValueError):
    """The bytes are not JSON we accept: malformed, not UTF-8, or nested too deeply."""


def decode(data: bytes | str) -> JSONValue:
    """Return the JSON value written in `data`.

    Raises:
        JSONDecodeError: not UTF-8, not JSON (NaN counts), or deeper than `MAX_DEPTH`.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    try:
        value = _decoder.decode(data)
    except RecursionError:
        raise JSONDecodeError("nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise JSONDecodeError(str(error)) from None
    if may_be_deep(data) and _is_deeper_than(value, MAX_DEPTH):
        raise JSONDecodeError("nested too deeply")
    return value


def may_be_deep(data: bytes) -> bool:
    """Tell whether what `data` says has to be walked to know that it is within `MAX_DEPTH`.

    Brackets are counted only where there is room for too many: a level of an object takes five
    bytes.
    """
    if b"[" in data:
        return data.count(b"[") + data.count(b"{") > MAX_DEPTH
    return len(data) > 5 * MAX_DEPTH and data.count(b"{") > MAX_DEPTH


def _is_deeper_than(value: JSONValue, limit: int) -> bool:
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


def _encode_other(value: object) -> JSONValue:
    if isinstance(value, str):
        # msgspec takes no subclasses; Django's SafeString is one.
        return str.__str__(value)
    # pydantic models are met here without importing pydantic.
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    # A lazy text, known by the name of its base class: this layer knows no framework.
    if any(base.__name__ == "Promise" for base in type(value).__mro__):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def encode_sorted(value: object) -> bytes:
    """Write a value as JSON with the keys of objects in order: equal values, equal bytes."""
    return _sorted_encoder.encode(value)


_sorted_encoder = msgspec.json.Encoder(enc_hook=_encode_other, order="sorted")
_encoder = msgspec.json.Encoder(enc_hook=_encode_other)
encode = _encoder.encode
"""Write a value as compact JSON bytes on one line.

Dates are ISO 8601, UUID and Decimal strings, Enum members their values; dataclasses, TypedDicts
and pydantic models are objects. NaN becomes null. Raises TypeError for anything else.
"""


def encode_pretty(value: object) -> str:
    """Write a value as JSON for people: indented, and no newline at its end."""
    return msgspec.json.format(encode(value), indent=2).decode()
