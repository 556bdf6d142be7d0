"""The headers of one request: which responses they allow, and whether they agree with its body.

A gateway may route by `Mcp-Name` and `Mcp-Param-*`, so they must agree with the body. The server
responds to a mismatch (-32020, HTTP 400); `header_params` finds the headers of a tool. `Accept` and
`Content-Type` exclude only what they exclude with certainty.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from django_mcp.protocol.header_params import HeaderParam

T = TypeVar("T")

PROTOCOL_VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION_ID = "mcp-session-id"
LAST_EVENT_ID = "last-event-id"

MAX_INTEGER = 2**53 - 1
"""The largest absolute value of an integer in a header: what every JSON reader keeps."""

_SENTINEL_START = "=?base64?"
_SENTINEL_END = "?="
_WHITESPACE = b" \t"
_NONE: frozenset[bytes] = frozenset()
_PLAIN = re.compile(r"[ -~]*")
_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]{0,15}))(?:\.0+)?")


@lru_cache(maxsize=256)
def _encode_name(name: str) -> bytes:
    return name.encode("latin-1", "replace")


class Headers:
    """The headers of one request: values latin-1 with outer blanks trimmed.

    Lines of one name are joined with `", "` (RFC 9110 section 5.3). `is_repeated` returns whether
    there were several, which is never right for a header that mirrors the body.
    """

    __slots__ = ("_repeated", "by_name", "line_count")

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        """Take the `headers` of an ASGI scope, whose names are in lower case by its specification."""
        # One pass at the cost of a dict: this runs for every request.
        self.by_name = dict(raw)
        """Values by name, both as bytes; the values may still have outer blanks."""
        self.line_count = len(raw)
        self._repeated = _NONE
        if len(self.by_name) != self.line_count:
            lines: dict[bytes, list[bytes]] = {}
            for name, value in raw:
                lines.setdefault(name, []).append(value.strip(_WHITESPACE))
            self.by_name = {name: b", ".join(values) for name, values in lines.items()}
            self._repeated = frozenset(name for name, values in lines.items() if len(values) > 1)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, str]) -> Headers:
        """Read headers in the form of WSGI, Django or a test: `{"Mcp-Name": "find_orders"}`."""
        return cls([(_to_bytes(name.lower()), _to_bytes(value)) for name, value in mapping.items()])

    def get(self, name: str) -> str | None:
        """Return the value of a header, or None; the name is given in lower case."""
        value = self.by_name.get(_encode_name(name))
        return None if value is None else value.strip(_WHITESPACE).decode("latin-1")

    def says(self, name: str, text: str) -> bool:
        """Return whether a header, given in lower case, occurs once and is exactly this text.

        It may be False for an equivalent value, such as one with blanks around it, which then has to be
        read. Repeated values are joined by a comma, so `text` must not contain one.
        """
        return text.isascii() and self.by_name.get(_encode_name(name)) == text.encode()

    def is_repeated(self, name: str) -> bool:
        """Return whether several lines had this name, given in lower case."""
        return bool(self._repeated) and _encode_name(name) in self._repeated

    def discard(self, name: str) -> None:
        """Remove a header, given in lower case."""
        self.by_name.pop(_encode_name(name), None)

    def names(self) -> tuple[str, ...]:
        """Return the names in lower case, each once, in order of appearance."""
        return tuple(name.decode("latin-1") for name in self.by_name)

    def __repr__(self) -> str:
        # Without values, which include credentials.
        return f"Headers({', '.join(self.names())})"


class InvalidHeader(ValueError):
    """A header value that cannot be read; the text continues the sentence "The header ..."."""


def encode_value(value: str | int) -> str:
    """Return a value in a header's form: plain if that is safe, else in Base64.

    Raises:
        ValueError: an integer beyond +/-(2^53-1), or half of a surrogate pair.

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


def decode_value(text: str) -> str:
    """Return the decoded value of a header; the inverse of `encode_value` for strings.

    Only a text with the exact marks `=?base64?` and `?=` is decoded. Inside, the Base64 must be
    canonical (alphabet, padding, no spare bits) and hold UTF-8. Anywhere else only printable ASCII
    is allowed.

    Source: 2026-07-28 basic/transports, "Header Value Encoding"; RFC 4648 section 4.
    """
    if not _PLAIN.fullmatch(text):
        raise InvalidHeader("holds characters that have to be sent in Base64")
    if len(text) < len(_SENTINEL_START + _SENTINEL_END) or not _looks_encoded(text):
        return text
    encoded = text[len(_SENTINEL_START) : -len(_SENTINEL_END)]
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise InvalidHeader("holds broken Base64") from None
    if base64.b64encode(decoded).decode("ascii") != encoded:
        raise InvalidHeader("holds Base64 that no encoder writes")
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        raise InvalidHeader("holds Base64 of text that is not UTF-8") from None


def check_name(expected: str, headers: Headers) -> str | None:
    """Return how `Mcp-Name` differs from the body, or None if they agree.

    Source: 2026-07-28 basic/transports, "Standard Request Headers".
    """
    if expected.isidentifier() and headers.says(NAME, expected):
        # Nearly every name needs no decoding and contains no comma.
        return None
    try:
        header = _read(NAME, headers)
    except InvalidHeader as error:
        return f"The header Mcp-Name {error}"
    if header is None:
        return "The header Mcp-Name is missing"
    return None if header == expected else "The header Mcp-Name differs from the body"


def check_param_headers(
    params: Sequence[HeaderParam], arguments: Mapping[str, object], headers: Headers
) -> str | None:
    """Return how a tool's headers differ from its arguments, or None if they agree.

    An argument that is neither missing nor null needs its header; any other must have none. Integers
    are compared as numbers, everything else as text. Other `Mcp-Param-*` headers are ignored. The
    texts contain no values, which may be private.

    Source: 2026-07-28 basic/transports, "Custom Headers from Tool Parameters".
    """
    for param in params:
        argument = find_argument(param.path, arguments)
        try:
            header = _read(param.header.lower(), headers)
        except InvalidHeader as error:
            return f"The header {param.header} {error}"
        if header is None and argument is not None:
            return f"The header {param.header} is missing; it repeats the argument {param.pointer}"
        if header is not None and argument is None:
            return f"The header {param.header} is there but the argument {param.pointer} is not"
        if header is not None and not _is_same(argument, header):
            return f"The header {param.header} differs from the argument {param.pointer}"
    return None


def _read(name: str, headers: Headers) -> str | None:
    if headers.is_repeated(name):
        raise InvalidHeader("is there more than once")
    text = headers.get(name)
    return None if text is None else decode_value(text)


def find_argument(path: tuple[str, ...], arguments: object) -> object:
    """Return the argument at a path; None if it is missing or null."""
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _is_same(argument: object, text: str) -> bool:
    # By the argument's own type: one that violates the schema is rejected in-band later, and must
    # match its header as well.
    if isinstance(argument, str):
        return argument == text
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    if not isinstance(argument, int | float) or not -MAX_INTEGER <= argument <= MAX_INTEGER:
        return False
    match = _INTEGER.fullmatch(text)
    return match is not None and int(match[1]) == argument


def _looks_encoded(text: str) -> bool:
    return text.startswith(_SENTINEL_START) and text.endswith(_SENTINEL_END)


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


# -- Accept and Content-Type


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_UTF_8_NAMES = frozenset({"utf-8", "utf8"})
_LONGEST_CACHED_CHARS = 512


def admits_json(accept: str | None) -> bool:
    """Return whether an `Accept` value allows `application/json`.

    An absent or blank header, and `*/*`, allow everything; parameters other than `q` are ignored;
    the most specific range decides, and `q=0` excludes.

    Source: RFC 9110 section 12.5.1; a violation has no prescribed status (2026-07-28).
    """
    return accept is None or _admitted(accept)[0]


def admits_event_stream(accept: str | None) -> bool:
    """Return whether an `Accept` value allows `text/event-stream`; see `admits_json`."""
    return accept is None or _admitted(accept)[1]


def names_html(accept: str | None) -> bool:
    """Return whether an `Accept` value names `text/html`, as browsers do that open an address.

    `*/*` does not, and one that also names `text/event-stream` is that of a client.
    """
    return accept is not None and _named_html(accept)


def is_json(content_type: str | None) -> bool:
    """Return whether a `Content-Type` value is JSON in UTF-8.

    That is `application/json` with no charset or `charset=utf-8`; other parameters are ignored. An
    absent header is not.

    Source: RFC 8259 sections 8.1 and 11.
    """
    if content_type == "application/json":
        return True
    return content_type is not None and _is_json(content_type)


def _cached(read: Callable[[str], T]) -> Callable[[str], T]:
    """Keep the results for short values, since a client could fill the memory with longer ones."""
    short = lru_cache(maxsize=256)(read)
    return lambda value: (short if len(value) <= _LONGEST_CACHED_CHARS else read)(value)


@_cached
def _admitted(accept: str) -> tuple[bool, bool]:
    ranges: dict[str, bool] = {}
    for element in _split(accept, ","):
        name, parameters = _read_parameters(element)
        is_wanted = not any(
            key == "q" and value and not value.strip("0.") for key, value in parameters
        )
        if name == "*":
            # Java's URLConnection has sent a bare star for decades.
            name = "*/*"
        if name and not name.startswith("/"):
            ranges[name] = is_wanted or ranges.get(name, False)
    return _is_admitted("application/json", ranges), _is_admitted("text/event-stream", ranges)


def _is_admitted(media_type: str, ranges: Mapping[str, bool]) -> bool:
    for wanted in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        if wanted in ranges:
            return ranges[wanted]
    return not ranges


@_cached
def _named_html(accept: str) -> bool:
    names = {_read_parameters(element)[0] for element in _split(accept, ",")}
    return "text/html" in names and "text/event-stream" not in names


@_cached
def _is_json(content_type: str) -> bool:
    media_type, parameters = _read_parameters(content_type)
    return media_type == "application/json" and all(
        value.lower() in _UTF_8_NAMES for name, value in parameters if name == "charset"
    )


def _read_parameters(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what precedes the parameters, in lower case, and these by name in lower case."""
    value, *others = _split(text, ";")
    pairs = [other.partition("=") for other in others]
    return value.strip(" \t").lower(), [
        (name.strip(" \t").lower(), each.strip(" \t").strip('"')) for name, _, each in pairs
    ]


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside of quoted strings."""
    return _QUOTED.sub(lambda quoted: quoted[0].replace(separator, "\0"), text).split(separator)
