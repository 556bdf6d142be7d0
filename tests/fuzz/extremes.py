"""Extreme values of every type, made from the JSON Schema that a tool publishes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

TEXTS = [
    "", " ", "a", "0", "-0", "-1", "1" * 25, "9" * 400, "null", "None", "true", "NaN", "-Infinity", "1e400",
    "1e-400", "1E+1000000", "sNaN", "1_000", "٣", "0x10", "+1", " 1 ", "1.", ".5", "\0", "a\0b", "a\nb\r\tc",
    "\x1b[31mred", "\u202egnp.exe", "\uffff", "😀" * 50, "ß" * 700, "x" * 256, "x" * 60_000, "%", "_%", "\\",
    "'", '"', "\"'", "'; DROP TABLE x; --", "{", "[]", "{}", "[1", '{"a": 1}', "a,b,c", ",", ",,", "1,2", "-", "--",
    "../../etc/passwd", "/", "//", "?", "#", "a b", "a=b&c=d", "%00", "%ed%a0%80", "%", "%zz", "(?P<x>", "(a+)+$",
    *("\ufeff", "\u0130", "\u1e9e", "\N{COMBINING ACUTE ACCENT}" * 99, "A" * 1001, "-" * 201, "1" * 39, "a@b.c"),
]  # fmt: skip
DATES = [
    "0001-01-01", "9999-12-31", "0000-00-00", "2024-02-29", "2023-02-29", "10000-01-01", "-0001-01-01", "2024-1-1",
    "20240101", "2024-W01-1", "2024-13-45", "today",
]  # fmt: skip
TIMES = [
    "00:00", "23:59:59.999999", "24:00:00", "12:00:00+23:59", "12:00Z", "25:61", "12:00:00.1234567", "1:2",
]  # fmt: skip
MOMENTS = [
    "0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-14:00",
    "9999-12-31T23:59:59", "9999-12-31T23:59:59Z", "2024-02-30T00:00", "2024-01-01T00:00:00+99:99", "2024-01-01",
    "2024-01-01 00:00", "253402300800", "-1", "2024-06-30T23:59:60Z", "2024-03-31T02:30:00",
]  # fmt: skip
DURATIONS = [
    "P999999999D", "-P999999999D", "999999999 23:59:59.999999", "-999999999 00:00:00", "P99999999999D", "1000000000 days",
    "106751991 04:00:54.775807", "106751992 00:00:00", "P1Y", "PT0.0000001S", "PT1e400S", "99999999999999:00:00", "0", "-0:0:1",
    "P1DT9999999999H", "9" * 300,
]  # fmt: skip
DECIMALS = [
    "999999.99", "1000000", "0.001", "-0.00", "1e5", "1e28", "1e999999", "1e-999999", "1E+999999999999999999", "NaN",
    "Infinity", "9" * 99, "0." + "0" * 90 + "1", "1e1000", "1e-1000", "-1e131072",
]  # fmt: skip
UUIDS = [
    "00000000-0000-0000-0000-000000000000", "ffffffffffffffffffffffffffffffff", "{12345678-1234-5678-1234-567812345678}",
    "urn:uuid:12345678-1234-5678-1234-567812345678", "12345678", "g" * 32, "١" * 32,
]  # fmt: skip
ADDRESSES = [
    "127.0.0.1", "::1", "::ffff:1.2.3.4", "::ffff:0a0a:0a0a", "1.2.3.4/24", "256.1.1.1", "fe80::1%eth0", "1", ":", "::",
    "2001:db8:" * 9, "0177.0.0.1", "1.2.3", "::1::2", ":" * 39, "192.168.1.1:80",
]  # fmt: skip
INTEGERS = [
    0, 1, -1, 127, 128, 32767, 32768, -32769, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63), -(2**63) - 1, 2**64, 10**30, 10**309, -(10**400), 9999, 10000,
]  # fmt: skip
NUMBERS = [
    0.0,
    -0.0,
    0.1,
    1e-308,
    5e-324,
    1.7976931348623157e308,
    -1e308,
    1e19,
    1.5,
    1e16,
    123456789.123456789,
]
JSON: list[Any] = [
    None, True, [], {}, [[]], [1, "a", None], {"a": 1}, {"a": {"b": [1, 2]}}, {"": ""}, {"a\0": 1}, {"a": "b\0"}, [10**40],
    {"a": 1e308}, [[[[[[[[1]]]]]]]], {"$ref": "#"}, {"__proto__": 1}, ["a"] * 150, {str(n): n for n in range(200)}, [{}],
    [True, False], {"a": [None]}, "a\0b", 2**63, -(2**70),
]  # fmt: skip
BY_FORMAT = {
    "date": DATES, "date-time": MOMENTS, "time": TIMES, "duration": DURATIONS, "decimal": DECIMALS, "uuid": UUIDS,
    "ipvanyaddress": ADDRESSES, "ipv4": ADDRESSES, "ipv6": ADDRESSES,
}  # fmt: skip
ALL_TEXTS = [*TEXTS, *(text for texts in BY_FORMAT.values() for text in texts)]
ANYTHING: list[Any] = [*ALL_TEXTS, *INTEGERS, *NUMBERS, *JSON]

MAX_DEPTH = 5


class Extremes:
    """Makes arguments for schemas.

    Args:
        random: decides.
        known: values that objects have, by the names of arguments, so that many calls get to a row.
    """

    def __init__(self, random: Random, known: dict[str, list[Any]]) -> None:
        self._random = random
        self._known = known

    def arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return arguments: those that are required, and a few of the others."""
        random, properties = self._random, schema.get("properties", {})
        optional = [name for name in properties if name not in schema.get("required", ())]
        count = random.choice((0, 1, 1, 1, 2, 3, 8))
        names = [
            *schema.get("required", ()),
            *random.sample(optional, min(count, len(optional))),
        ]
        found = {name: self._argument(name, properties[name], schema) for name in names}
        if random.random() < 0.02:
            found[random.choice(TEXTS)] = random.choice(ANYTHING)
        if names and random.random() < 0.02:
            found.pop(random.choice(names))
        return found

    def text(self) -> str:
        """Return a text that some type reads."""
        return self._random.choice(ALL_TEXTS)

    def known_or_text(self, name: str) -> str:
        """Return a key of an object, or any text."""
        known = self._known.get(name)
        return (
            str(self._random.choice(known))
            if known and self._random.random() < 0.3
            else self.text()
        )

    def _argument(self, name: str, schema: dict[str, Any], root: dict[str, Any]) -> Any:
        known = self._known.get(name)
        if known and self._random.random() < 0.6:
            return self._random.choice(known)
        return self._value(schema, root, 0)

    def _value(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        random = self._random
        if random.random() < 0.08 or depth > MAX_DEPTH:
            return random.choice(ANYTHING)
        inner = self._inner(schema, root)
        if inner is not None:
            return self._value(inner, root, depth + 1)
        if schema.get("enum") and random.random() < 0.8:
            return random.choice(schema["enum"])
        kinds = schema.get("type")
        kind = random.choice(kinds) if isinstance(kinds, list) else kinds
        makers: dict[Any, Callable[[], Any]] = {
            "string": lambda: self._text(schema),
            "integer": lambda: self._integer(schema),
            "number": lambda: random.choice((*INTEGERS, *NUMBERS)),
            "boolean": lambda: random.random() < 0.5,
            "null": lambda: None,
            "array": lambda: self._array(schema, root, depth),
            "object": lambda: self._object(schema, root, depth),
        }
        return makers.get(kind, lambda: random.choice(ANYTHING))()

    def _inner(self, schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
        """Return the schema that another one refers to, or one of its alternatives."""
        if "$ref" in schema:
            found: dict[str, Any] = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
            return found
        parts = next((schema[key] for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), None)
        return None if parts is None else self._random.choice(parts)

    def _text(self, schema: dict[str, Any]) -> str:
        random = self._random
        texts = BY_FORMAT.get(schema.get("format", ""))
        found = random.choice(texts if texts and random.random() < 0.8 else ALL_TEXTS)
        most = schema.get("maxLength")
        # Mostly as long as it may be, since longer ones get no further than the schema.
        return found[:most] if most is not None and random.random() < 0.9 else found

    def _integer(self, schema: dict[str, Any]) -> int:
        random = self._random
        least, most = schema.get("minimum"), schema.get("maximum")
        edges = [edge for edge in (least, most) if isinstance(edge, int)]
        if edges and random.random() < 0.3:
            return random.choice(edges)
        fitting = [
            each
            for each in INTEGERS
            if (least is None or each >= least) and (most is None or each <= most)
        ]
        return random.choice(fitting if fitting and random.random() < 0.8 else INTEGERS)

    def _array(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> list[Any]:
        random = self._random
        least, most = schema.get("minItems", 0), schema.get("maxItems", 150)
        count = random.choice((1, 1, 2, 3, least, min(most, 150), min(most, 150) + 1))
        count = min(max(count, least), most) if random.random() < 0.95 else count
        return [self._value(schema.get("items") or {}, root, depth + 1) for _ in range(count)]

    def _object(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        if not properties:
            return self._random.choice([each for each in JSON if isinstance(each, dict)])
        required = schema.get("required", ())
        return {
            name: self._value(each, root, depth + 1)
            for name, each in properties.items()
            if name in required or self._random.random() < 0.5
        }
