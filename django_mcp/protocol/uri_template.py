"""Parse the URI templates of resources, and match URIs against them in linear time.

Templates may use the forms of RFC 6570 that docs/reference/api.md lists. The RFC defines only expansion. The rules for matching:

- All but the parameters of a query are required and not empty, since an empty variable and an
  undefined one expand alike.
- A variable takes as much as it can while the rest still matches, as in a regular expression.
- Values are percent-decoded once, after matching: `%252e` is the text `%2e`. Anything but UTF-8
  does not match, which includes overlong forms.
- No value may hold control characters or a backslash. A value of `{x}` or `{/x}` must not be `.` or
  `..`; the others may hold slashes, but no `.` or `..` between them.
- A `{+path}` is relative on every platform, so that it stays below the directory it is joined to: it
  must not start with a slash, a Windows drive or a `~`, and no part of it may be dots and blanks
  alone. Only after `file://` may it start with a slash. No value in a `file:` URI may start with a
  drive or a `~`, except in the query.

The matcher does not backtrack: for each part, from the last to the first, it computes from which
positions the rest of the URI can be matched.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

MAX_URI_CHARS = 8192
"""Longer URIs match nothing."""

_RESERVED = ":/?#[]@!$&'()*+,;="
# The apostrophe is a literal since erratum 6937.
_BAD_LITERAL = re.compile(r'[\x00-\x20\x7f"<>\\^`{|}\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')
# Reserved characters that separate nothing are accepted, since people and models write them:
# `user://jane@example.com`.
_SIMPLE = frozenset(string.ascii_letters + string.digits + "-._~%:@!$'()*+")
_WHOLE = _SIMPLE | frozenset("/?#[]&,;=")
_QUERY = _SIMPLE | frozenset("/?,;=&")
_ALL_ASCII = "".join(map(chr, range(128)))
_CLIMBS = frozenset({".", ".."})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\\]")
_OUTSIDE = re.compile(r"~|[A-Za-z]:")
_OUTSIDE_OR_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:")
_DOTS_AND_BLANKS = re.compile(r"(?:^|/) *\.[. ]*(?:/|$)")
"""What Windows may treat as `.` or `..`: it drops dots and blanks at the end of a name."""

_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class UriTemplateError(ValueError):
    """The text is not a template that URIs can be matched against."""

    def __init__(self, problem: str, text: str) -> None:
        super().__init__(f"{text!r} is not a URI template: {problem}")


class _Variable(Struct, frozen=True, kw_only=True):
    """A variable of the path, whose value is a part of the URI of these characters, not empty.

    It must not start with `refused`.
    """

    name: str
    characters: frozenset[str]
    is_list: bool = False
    is_path: bool = False
    refused: re.Pattern[str] | None = None


_Part: TypeAlias = str | _Variable


class UriTemplate:
    """A template such as `order://{pk}{?expand}`, parsed once.

    Attributes:
        text: the template as written.
        variables: names in order of appearance, each once.
        optional_variables: those that a matching URI may leave out: of `{?x}`.
        list_variables: the exploded ones (`{/x*}`), whose values are lists.

    Raises:
        UriTemplateError: the text is not a template, or none of the supported kinds.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        path, has_query, names_in_query = text.partition("{?")
        if has_query and (not text.endswith("}") or "{" in names_in_query or "?" in path):
            raise UriTemplateError("{?...} is the whole query, at the end", text)
        query = names_in_query[:-1].split(",") if has_query else []
        parts = list(_parse_path(path, text, has_query=bool(query)))
        self._is_exploded = {
            variable.removesuffix("*"): variable.endswith("*") for variable in query
        }
        self.optional_variables = frozenset(self._is_exploded)
        variables = [part for part in parts if isinstance(part, _Variable)]
        names = [part.name for part in variables] + [
            variable.removesuffix("*") for variable in query
        ]
        self.variables = tuple(dict.fromkeys(names))
        for name in self.variables:
            if not (name.isascii() and name.isidentifier()):
                raise UriTemplateError(f"{name!r} is not a variable name", text)
            if names.count(name) > 1:
                raise UriTemplateError(f"the variable {name!r} appears twice", text)
        self.list_variables = frozenset(
            [part.name for part in variables if part.is_list]
            + [name for name, is_list in self._is_exploded.items() if is_list]
        )
        # The literals at both ends are fixed, which excludes most URIs at once.
        self._head = str(parts.pop(0)) if parts and isinstance(parts[0], str) else ""
        self._tail = str(parts.pop()) if parts and isinstance(parts[-1], str) else ""
        self._parts = tuple(parts)

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI, percent-decoded once, or None if it does not match.

        Values are a str each, or a list of str for an exploded variable. It accepts any string.
        """
        if len(uri) > MAX_URI_CHARS:
            return None
        if not uri.isascii():
            try:
                uri = quote(uri, safe=_ALL_ASCII)
            except UnicodeEncodeError:
                return None
        values: dict[str, Any] | None = {}
        if self._is_exploded and "?" in uri:
            uri, _, query = uri.partition("?")
            values = self._read_query(query)
        end = len(uri) - len(self._tail)
        if end < len(self._head) or not uri.startswith(self._head) or uri[end:] != self._tail:
            return None
        texts = _find_texts(self._parts, uri[len(self._head) : end])
        if values is None or texts is None:
            return None
        for part, text in zip(self._parts, texts, strict=True):
            if isinstance(part, _Variable):
                text_read = _read(part, text)
                if text_read is None:
                    return None
                values[part.name] = text_read
        return values

    def _read_query(self, query: str) -> dict[str, Any] | None:
        if not _QUERY.issuperset(query):
            return None
        values: dict[str, Any] = {}
        for pair in query.split("&"):
            name, _, encoded = pair.partition("=")
            value = _decode(encoded)
            if value is None or name not in self._is_exploded:
                return None
            if self._is_exploded[name]:
                values.setdefault(name, []).append(value)
            elif name in values:
                return None
            else:
                values[name] = value
        return values


def _parse_path(path: str, text: str, *, has_query: bool) -> Iterator[_Part]:
    # Literals at even places, and the text between braces at odd ones.
    pieces = re.split(r"\{([^{}]*)\}", path)
    before = ""
    for place, piece in enumerate(pieces):
        if place % 2:
            if piece.startswith("/"):
                before += "/"
            elif place > 1 and not before:
                raise UriTemplateError(f"nothing separates {piece!r} from the one before it", text)
            if before:
                yield before
            yield _parse_variable(piece, before, text, has_query=has_query)
            continue
        bad = _BAD_LITERAL.search(piece)
        if bad is not None:
            raise UriTemplateError(f"{bad.group()!r} is not allowed in a URI", text)
        before = quote(piece, safe=_RESERVED + "%")
    if before:
        yield before


def _parse_variable(piece: str, before: str, text: str, *, has_query: bool) -> _Variable:
    """Return a variable that rejects what would lead out of the directory it is joined to."""
    operator = piece[0] if piece.startswith(("+", "/")) else ""
    if not operator and not piece.isidentifier():
        raise UriTemplateError(
            f"{{{piece}}} is none of {{x}}, {{+x}}, {{/x}}, {{/x*}} and, at the end, {{?x,y*}}",
            text,
        )
    is_path, is_list = operator == "+", operator == "/" and piece.endswith("*")
    characters = _WHOLE if is_path else _SIMPLE | {"/"} if is_list else _SIMPLE
    refused = _OUTSIDE if is_path or text.lower().startswith("file:") else None
    if is_path and before != "file://":
        refused = _OUTSIDE_OR_ABSOLUTE
    return _Variable(
        name=piece[len(operator) :].removesuffix("*" if is_list else ""),
        # Where a query follows, a `{+x}` does not take its start.
        characters=characters - {"?"} if has_query else characters,
        is_list=is_list,
        is_path=is_path,
        refused=refused,
    )


def _find_texts(parts: Sequence[_Part], text: str) -> list[str] | None:
    if len(parts) == 1 and isinstance(parts[0], _Variable):
        # Most templates have one variable, which takes all or nothing.
        return [text] if text and parts[0].characters.issuperset(text) else None
    goes_on = [False] * len(text) + [True]
    ends_by_part = []
    for part in reversed(parts):
        ends = _find_ends(part, text, goes_on)
        ends_by_part.append(ends)
        goes_on = [end is not None for end in ends]
    texts = []
    position = 0
    for ends in reversed(ends_by_part):
        end = ends[position]
        if end is None:
            return None
        texts.append(text[position:end])
        position = end
    return texts if position == len(text) else None


def _find_ends(part: _Part, text: str, goes_on: list[bool]) -> list[int | None]:
    """Return, for each position, the last one where the part may end and the rest still match."""
    ends: list[int | None] = [None] * len(goes_on)
    if isinstance(part, str):
        position = text.find(part)
        while position >= 0:
            end = position + len(part)
            if goes_on[end]:
                ends[position] = end
            position = text.find(part, position + 1)
        return ends
    # The best end of a part that has started already.
    reach: int | None = None
    for position in range(len(text), -1, -1):
        further = reach if text[position : position + 1] in part.characters else None
        ends[position] = further
        reach = position if further is None and goes_on[position] else further
    return ends


def _read(variable: _Variable, text: str) -> str | list[str] | None:
    """Return the value of a variable; None if it is not allowed."""
    value = _decode(text)
    if value is None or (variable.refused is not None and variable.refused.match(value)):
        return None
    if variable.is_path:
        return None if _DOTS_AND_BLANKS.search(value) else value
    if not variable.is_list:
        return None if "/" in value else value
    items = [_decode(item) for item in text.split("/")]
    read_items = [item for item in items if item and "/" not in item]
    return read_items if len(read_items) == len(items) else None


def _decode(encoded: str) -> str | None:
    """Return the text of a value, or None if it is malformed or could leave a directory."""
    text = encoded
    if "%" in encoded:
        if _BROKEN_PERCENT.search(encoded):
            return None
        try:
            text = unquote_to_bytes(encoded).decode()
        except UnicodeDecodeError:
            return None
    if _UNSAFE.search(text):
        return None
    return None if any(segment in _CLIMBS for segment in text.split("/")) else text
