"""Hold the headers of one request, and compare those that mirror its body.

A gateway may route by `Mcp-Name` and `Mcp-Param-*`, so they have to say what the body says. What
a mismatch answers (-32020, HTTP 400) is for the server; which headers a tool wants stands in
`header_params`, whose names are offered here too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_mcp.protocol.header_params import (
    PARAM_PREFIX,
    HeaderParam,
    InvalidHeaderName,
    McpHeader,
    header_params,
)

__all__ = [
    "LAST_EVENT_ID",
    "METHOD",
    "NAME",
    "PARAM_PREFIX",
    "PROTOCOL_VERSION",
    "SESSION_ID",
    "HeaderParam",
    "Headers",
    "InvalidHeader",
    "InvalidHeaderName",
    "McpHeader",
    "check_name",
    "check_params",
    "decode_value",
    "encode_value",
    "header_params",
]

PROTOCOL_VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION_ID = "mcp-session-id"
LAST_EVENT_ID = "last-event-id"

MAX_INTEGER = 2**53 - 1
"""The largest whole number a header carries, either side of zero: what every JSON reader keeps."""

MAX_NAMES_KEPT = 256

_SENTINEL_START = "=?base64?"
_SENTINEL_END = "?="
_WHITESPACE = b" \t"
_NONE: frozenset[bytes] = frozenset()
_PLAIN = re.compile(r"[ -~]*")
_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]{0,15}))(?:\.0+)?")


class _Encoded(dict[str, bytes]):
    """Names as they travel: those that are asked for again and again are few."""

    def __missing__(self, name: str) -> bytes:
        found = name.encode("latin-1", "replace")
        if len(self) < MAX_NAMES_KEPT:
            self[name] = found
        return found


_ENCODED = _Encoded()


class Headers:
    """The headers of one request: names in any case, values latin-1 with outer blanks trimmed.

    Lines of one name are joined with `", "` (RFC 9110 section 5.3); `is_repeated` tells that there
    were several, which is never right for a header that mirrors the body.
    """

    __slots__ = ("_repeated", "by_name", "line_count")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the `headers` of an ASGI scope."""
        # One pass at the price of a dict: this runs for every request.
        lines = raw if type(raw) is list else list(raw)
        self.by_name = {name.lower(): value for name, value in lines}
        """Values by name, both as bytes; outer blanks may be there still."""
        self.line_count = len(lines)
        self._repeated = _NONE
        if len(self.by_name) != len(lines):
            self._join(lines)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, str]) -> Headers:
        """Take headers as WSGI, Django or a test has them: `{"Mcp-Name": "find_orders"}`."""
        return cls([(_to_bytes(name), _to_bytes(value)) for name, value in mapping.items()])

    @classmethod
    def from_asgi(cls, raw: list[tuple[bytes, bytes]]) -> Headers:
        """Take the headers of an ASGI scope, whose names are in lower case by its specification."""
        found = cls.__new__(cls)
        found.by_name = dict(raw)
        found.line_count = len(raw)
        found._repeated = _NONE
        if len(found.by_name) != found.line_count:
            found._join(raw)
        return found

    def get(self, name: str) -> str | None:
        """Return the value of a header, or None; the name is given in lower case."""
        value = self.by_name.get(_ENCODED[name])
        return None if value is None else value.strip(_WHITESPACE).decode("latin-1")

    def says(self, name: str, text: str) -> bool:
        """Return whether a header, given in lower case, is there once and is just this text.

        May be False for one that says the same in other words, such as with blanks around it: then
        it has to be read. Repeated it has a comma in it, and so `text` must have none.
        """
        return text.isascii() and self.by_name.get(_ENCODED[name]) == text.encode()

    def is_repeated(self, name: str) -> bool:
        """Return whether several lines had this name, given in lower case."""
        return bool(self._repeated) and _ENCODED[name] in self._repeated

    def discard(self, name: str) -> None:
        """Forget a header, given in lower case."""
        self.by_name.pop(_ENCODED[name], None)

    def names(self) -> tuple[str, ...]:
        """Return the names in lower case, each once, in order of appearance."""
        return tuple(name.decode("latin-1") for name in self.by_name)

    def __repr__(self) -> str:
        # Without values: credentials are among them.
        return f"Headers({', '.join(self.names())})"

    def _join(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        lines: dict[bytes, list[bytes]] = {}
        for name, value in raw:
            lines.setdefault(name.lower(), []).append(value.strip(_WHITESPACE))
        self.by_name = {name: b", ".join(values) for name, values in lines.items()}
        self._repeated = frozenset(name for name, values in lines.items() if len(values) > 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class InvalidHeader:
    """A header value that says nothing; `reason` continues the sentence "The header ..."."""

    reason: str


def encode_value(value: str | int) -> str:
    """Return a value as a header carries it: plain where that is safe, else in Base64.

    Raises:
        ValueError: a whole number beyond +/-(2^53-1), or half of a surrogate pair.

    Source: 2026-07-28 basic/transports, "Header Value Encoding".
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ValueError("A header carries whole numbers up to 2^53-1 only")
        return str(value)
    if _PLAIN.fullmatch(value) and value == value.strip(" ") and not _looks_encoded(value):
        return value
    encoded = base64.b64encode(value.encode()).decode("ascii")
    return f"{_SENTINEL_START}{encoded}{_SENTINEL_END}"


def decode_value(text: str) -> str | InvalidHeader:
    """Return what a header value stands for; the inverse of `encode_value` for strings.

    Only a text with the exact marks `=?base64?` and `?=` is decoded. Inside, the Base64 must be
    canonical (alphabet, padding, no spare bits) and hold UTF-8. Anywhere else only printable ASCII
    is allowed.

    Source: 2026-07-28 basic/transports, "Header Value Encoding"; RFC 4648 section 4.
    """
    if not _PLAIN.fullmatch(text):
        return InvalidHeader(reason="holds characters that have to be sent in Base64")
    if len(text) < len(_SENTINEL_START + _SENTINEL_END) or not _looks_encoded(text):
        return text
    encoded = text[len(_SENTINEL_START) : -len(_SENTINEL_END)]
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return InvalidHeader(reason="holds broken Base64")
    if base64.b64encode(decoded).decode("ascii") != encoded:
        return InvalidHeader(reason="holds Base64 that no encoder writes")
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        return InvalidHeader(reason="holds Base64 of text that is not UTF-8")


def check_name(expected: str, headers: Headers) -> str | None:
    """Return why `Mcp-Name` does not say what the body says, or None when it does.

    Source: 2026-07-28 basic/transports, "Standard Request Headers".
    """
    if expected.isidentifier() and headers.says(NAME, expected):
        # Nearly every name: it needs no decoding, and has no comma in it.
        return None
    found = _read(NAME, headers)
    if isinstance(found, str):
        return None if found == expected else "The header Mcp-Name differs from the body"
    if found is None:
        return "The header Mcp-Name is missing"
    return f"The header Mcp-Name {found.reason}"


def check_params(
    params: Sequence[HeaderParam], arguments: Mapping[str, object], headers: Headers
) -> str | None:
    """Return why a tool's headers do not say what its arguments say, or None when they do.

    An argument that is there and not null wants its header; one that is not must have none.
    Whole numbers compare as numbers, everything else as text. Other `Mcp-Param-*` headers are
    ignored. The texts hold no values, which may be private.

    Source: 2026-07-28 basic/transports, "Custom Headers from Tool Parameters".
    """
    for param in params:
        problem = _check_param(param, _find_argument(param.path, arguments), headers)
        if problem is not None:
            return problem
    return None


def _check_param(param: HeaderParam, argument: object, headers: Headers) -> str | None:
    found = _read(param.header.lower(), headers)
    if isinstance(found, InvalidHeader):
        return f"The header {param.header} {found.reason}"
    if argument is None:
        if found is None:
            return None
        return f"The header {param.header} is there but the argument {param.pointer} is not"
    if found is None:
        return f"The header {param.header} is missing; it repeats the argument {param.pointer}"
    if not _is_same(argument, found):
        return f"The header {param.header} differs from the argument {param.pointer}"
    return None


def _read(name: str, headers: Headers) -> str | InvalidHeader | None:
    if headers.is_repeated(name):
        return InvalidHeader(reason="is there more than once")
    text = headers.get(name)
    return None if text is None else decode_value(text)


def _find_argument(path: tuple[str, ...], arguments: object) -> object:
    """Return the argument at a path; None when it is absent or null."""
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _is_same(argument: object, text: str) -> bool:
    # By the argument's own type: one that breaks the schema is refused in-band later, and must
    # not differ from its header either.
    if isinstance(argument, str):
        return argument == text
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    if not isinstance(argument, int | float) or not -MAX_INTEGER <= argument <= MAX_INTEGER:
        return False
    found = _INTEGER.fullmatch(text)
    return found is not None and int(found[1]) == argument


def _looks_encoded(text: str) -> bool:
    return text.startswith(_SENTINEL_START) and text.endswith(_SENTINEL_END)


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
