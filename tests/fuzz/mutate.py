"""Mutations of JSON values, of bytes, and of header lines; every choice comes from the given random source."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Line = tuple[bytes, bytes]
"""One header line: its name and value."""

MEDIUM_CHARS = 20_000
LARGE_CHARS = 3_000_000


class Raw(str):
    """JSON text that is written as it is, valid or not."""

    __slots__ = ()


class Pairs:
    """The members of an object in order, so that a key can occur twice."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        self.members = members

    def items(self) -> list[tuple[str, Any]]:
        return self.members


NUMBERS: list[Any] = [
    *(0, -1, 1, 2**31, 2**53, 2**53 + 1, -(2**63), 2**64, 10**30, 0.5, 1e308, 5e-324),
    *map(Raw, ("1e999", "-0", "-0.0", "1E400", "NaN", "-Infinity", "1" * 5000, "0." + "3" * 5000)),
    *map(Raw, ("01", "1.", ".5", "+1", "0x10", "1e", "1_000", "1e+99999", "-")),
]
STRINGS: list[str] = [
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\ud800",
        "\udc00\ud800",
        "x\udfff",
        "\ufeff",
        "\ufffe",
        "\U0010ffff",
    ),
    *(
        "\u200b",
        "\u202e",
        "\u2066\u2069",
        "e\u0301" * 5,
        "\u3164",
        "\ufdfa" * 3,
        "\U0001f468\u200d" * 4,
    ),
    *(
        "../../etc/passwd",
        "..\\..\\win.ini",
        "C:\\x",
        "~root",
        "%00",
        "%2e%2e%2f",
        "//host/share",
        "file:///etc",
    ),
    *("null", "true", "__proto__", "__class__", "constructor", "$ref", "#", "#/$defs/x", "_meta"),
    *(
        "2024-02-30",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999+23:59",
        "2024-01-01T25:00",
        "24:00:00",
    ),
    *(
        "P1Y",
        "P999999999D",
        "PT1e400S",
        "-P1D",
        "1E+999999",
        "1e-999999999",
        "sNaN",
        "Infinity",
        "1" * 500,
    ),
    *(
        "\r\nX-Injected: 1",
        "a\nb",
        "\u2028",
        "'; DROP TABLE x; --",
        "{{7*7}}",
        "${jndi:x}",
        "<script>",
        "%s%n",
    ),
    *(
        "2024-11-05",
        "2026-07-28",
        "1999-01-01",
        "file:///a/b",
        "text://plain",
        "number://1/2",
        "tree",
        "moments",
    ),
    "00000000-0000-0000-0000-000000000000",
]
SCALARS: list[Any] = [None, True, False, *NUMBERS, *STRINGS]


def write(value: Any, *, ascii_only: bool = True) -> bytes:
    """Return a value as JSON; lone surrogates are escapes, or three bytes that no UTF-8 reader takes."""
    return "".join(_write(value, ascii_only)).encode("utf-8", "surrogatepass")


def _write(value: Any, ascii_only: bool) -> Iterator[str]:
    if isinstance(value, Raw):
        yield str(value)
    elif isinstance(value, dict | Pairs):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield "," if number else ""
            yield json.dumps(str(key), ensure_ascii=ascii_only)
            yield ":"
            yield from _write(item, ascii_only)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, item in enumerate(value):
            yield "," if number else ""
            yield from _write(item, ascii_only)
        yield "]"
    else:
        yield json.dumps(value, ensure_ascii=ascii_only)


Slot = tuple[Any, Any]
"""A container and the key or index of one value in it."""


def find_slots(value: Any) -> list[Slot]:
    """Return the place of every value inside of `value`."""
    found: list[Slot] = []
    left = [value]
    while left:
        each = left.pop()
        keys: Any = each if isinstance(each, dict) else range(len(each))
        for key in keys:
            found.append((each, key))
            inner = each[key]
            if isinstance(inner, dict | list):
                left.append(inner)
    return found


def mutate(value: Any, random: Random, others: list[Any]) -> Any:
    """Return a mutated copy of a message; `others` are values that may be put into it."""
    holder = [copy.deepcopy(value)]
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        slots = find_slots(holder)
        if not slots:
            break
        container, key = random.choice(slots)
        random.choices(_MUTATIONS, _WEIGHTS)[0](container, key, random, others)
    return holder[0] if holder else []


def _replace(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    container[key] = random.choice(SCALARS)


def _splice(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    inner, at = random.choice(find_slots([random.choice(others)]))
    container[key] = copy.deepcopy(inner[at])


def _delete(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    del container[key]


def _add(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    found = container[key]
    name = random.choice(STRINGS) or "extra"
    if isinstance(found, dict):
        found[name] = random.choice(SCALARS)
    elif isinstance(found, list):
        found.insert(random.randint(0, len(found)), random.choice(SCALARS))
    else:
        container[key] = random.choice(([found], {name: found}, [found, found], str(found)))


def _rename(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    if isinstance(container, dict):
        value = container.pop(key)
        name = random.choice(
            (key + "x", key.upper(), key[:-1], key + "\x00", random.choice(STRINGS))
        )
        container[name] = value


def _duplicate(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    found = container[key]
    if isinstance(found, dict) and found:
        name = random.choice(list(found))
        members = list(found.items())
        members.insert(random.randint(0, len(members)), (name, random.choice(SCALARS)))
        container[key] = Pairs(members)
    elif isinstance(container, list):
        container.extend([found] * random.choice((1, 3, 30)))


def _swap_type(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    found = container[key]
    match found:
        case dict():
            container[key] = [list(pair) for pair in found.items()]
        case list():
            container[key] = {str(number): item for number, item in enumerate(found)}
        case bool() | None:
            container[key] = int(bool(found))
        case int() | float():
            container[key] = str(found)
        case str():
            container[key] = len(found)


def _edit(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    found = container[key]
    if isinstance(found, str):
        at = random.randint(0, len(found))
        container[key] = (
            found[:at] + random.choice(STRINGS) + found[at + random.choice((0, 0, 1, 3)) :]
        )
    elif isinstance(found, int | float) and not isinstance(found, bool):
        container[key] = random.choice((found + 1, -found, found * 2**40, found / 3))


def _nest(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    depth = random.choice((5, 30, 62, 63, 64, 65, 100, 1000, 20_000))
    begin, end = random.choice((("[", "]"), ('{"a":', "}"), ('[{"kids":', "}]"), ('{"not":', "}")))
    inner = random.choice(("1", "", "null", '"x"'))
    container[key] = Raw(begin * depth + inner + end * random.choice((depth, depth, depth - 1)))


def _grow(container: Any, key: Any, random: Random, others: list[Any]) -> None:
    chars = int(MEDIUM_CHARS ** random.random())
    if random.random() < 0.01:
        chars = random.randint(MEDIUM_CHARS, LARGE_CHARS)
    found = container[key]
    match found if random.random() < 0.5 else None:
        case str():
            container[key] = (found or "a") * (chars // max(1, len(found)) + 1)
        case list() if found:
            item = write(random.choice(found)).decode()
            container[key] = Raw("[" + ",".join([item] * (chars // (len(item) + 1) + 1)) + "]")
        case dict():
            count = chars // 12 + 1
            container[key] = Raw("{" + ",".join(f'"k{n}":{n % 10}' for n in range(count)) + "}")
        case _:
            item = random.choice(
                ("1", "[]", "{}", '""', "null", "[1]", '{"a":1}', '"\\u0000"', '{"kids":[]}')
            )
            container[key] = Raw("[" + ",".join([item] * (chars // (len(item) + 1) + 1)) + "]")


Mutation = Callable[[Any, Any, Random, list[Any]], None]
_MUTATIONS: list[Mutation] = [
    *(_replace, _splice, _delete, _add, _rename, _duplicate, _swap_type, _edit, _nest, _grow),
]
_WEIGHTS = [24, 12, 10, 10, 8, 6, 8, 14, 2, 3]

_PIECES = [
    *(
        b"\x00",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"\xef\xbb\xbf",
        b"\\u0000",
        b"\\ud800",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\n",
        b" ",
        b"null",
        b"/*",
        b"//",
        b"0",
        b"e",
        b"-",
        b"'",
    ),
]


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return a mutated copy of a body, which seldom is JSON after that."""
    if random.random() < 0.05:
        text = data.decode("utf-8", "replace")
        return text.encode(random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")))
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randint(0, len(found))
        end = min(len(found), at + random.choice((1, 1, 4, 40)))
        match random.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << random.randrange(8)
            case 1:
                del found[at:end]
            case 2:
                found[at:at] = found[at:end] * random.choice((1, 2, 50))
            case 3:
                found[at:at] = random.choice(_PIECES) * random.choice((1, 1, 3, 2000))
            case 4:
                del found[at:]
            case _:
                found[at:at] = random.randbytes(random.choice((1, 4, 30)))
    return bytes(found)


HEADER_NAMES = [
    *(
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
        b"mcp-session-id",
        b"mcp-param-region",
        b"mcp-param-count",
    ),
    *(
        b"last-event-id",
        b"accept",
        b"content-type",
        b"content-encoding",
        b"origin",
        b"host",
        b"authorization",
    ),
    *(
        b"accept-language",
        b"x-request-id",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"cookie",
        b"traceparent",
    ),
    *(
        b"access-control-request-headers",
        b"x-http-method-override",
        b"range",
        b"if-none-match",
        b"mcp-param-",
    ),
]
HEADER_VALUES = [
    *(
        b"",
        b" ",
        b",",
        b"*",
        b"*/*",
        b"null",
        b"0",
        b"-1",
        b"9" * 400,
        b"\xff\xfe",
        b"a" * 5000,
        b"a\tb",
        b"%00",
    ),
    *(
        b"=?base64??=",
        b"=?base64?AAA=?=",
        b"=?base64?/w==?=",
        b"=?base64?" + b"QUFB" * 2000 + b"?=",
    ),
    *(
        b"application/json",
        b"application/json; charset=utf-16",
        b"text/event-stream",
        b"text/event-stream;q=0",
        b"gzip",
    ),
    *(
        b"2024-11-05",
        b"2025-03-26",
        b"2025-06-18",
        b"2025-11-25",
        b"2026-07-28",
        b"2199-01-01",
        b"tools/call",
    ),
    *(
        b"http://evil.example",
        b"http://localhost",
        b"localhost",
        b"127.0.0.1:99999",
        b"[::1",
        b"a,b",
        b"Bearer x",
    ),
    *(
        b"Bearer ",
        b"Bearer ann",
        b"Basic \xff",
        b"q=1;q=0.5",
        b"a;q=1e9",
        b"de;q=0.9,*;q=0.1",
        b"en-" * 500,
    ),
    b",".join([b"mcp-param-x"] * 1200),
]


def mutate_headers(lines: list[Line], random: Random) -> list[Line]:
    """Return header lines of which some are gone, changed, repeated or new."""
    found = list(lines)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(found)) if found else 0
        name = found[at][0] if found and random.random() < 0.6 else random.choice(HEADER_NAMES)
        value = random.choice(HEADER_VALUES)
        match random.randrange(5):
            case 0 if found:
                del found[at]
            case 1 if found:
                found[at] = (found[at][0], mutate_value(found[at][1], random))
            case 2 if found:
                found.insert(random.randint(0, len(found)), found[at])
            case 3 if random.random() < 0.05:
                found += [(b"x-%d" % number, value) for number in range(200)]
            case _:
                found.append((name, value))
    return found


def mutate_value(value: bytes, random: Random) -> bytes:
    """Return a header's value changed in one place, without bytes that would end its line."""
    at = random.randint(0, len(value))
    piece = bytes([random.choice((*range(32, 127), *range(128, 256), 9))])
    return value[:at] + piece * random.choice((1, 1, 20)) + value[at + random.choice((0, 1)) :]
