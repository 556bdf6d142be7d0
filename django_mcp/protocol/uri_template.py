"""Parse, expand and match the URI templates of resources (RFC 6570, levels 1 to 4).

Expansion follows the RFC. Matching, which the RFC leaves open, is in `uri_matching`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from django_mcp.protocol import uri_matching
from django_mcp.protocol.uri_matching import Expression, Operator, Variable

__all__ = ["UriTemplate", "UriTemplateError", "UriValues"]

UriValues: TypeAlias = dict[str, Any]
"""Variables of a matched URI: a str each, or a list of str for an exploded one."""

_RESERVED = ":/?#[]@!$&'()*+,;="
_PERCENT_OR_TEXT = re.compile(r"(%[0-9A-Fa-f]{2})")
_NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*")
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")
# The apostrophe is a literal since erratum 6937.
_BAD_LITERAL = re.compile(r'[\x00-\x20\x7f"<>\\^`{|}\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')
_OPERATORS = {
    "": Operator(symbol="", lead="", separator=","),
    "+": Operator(symbol="+", lead="", separator=",", keeps_reserved=True),
    "#": Operator(symbol="#", lead="#", separator=",", keeps_reserved=True),
    ".": Operator(symbol=".", lead=".", separator="."),
    "/": Operator(symbol="/", lead="/", separator="/"),
    ";": Operator(symbol=";", lead=";", separator=";", is_named=True),
    "?": Operator(symbol="?", lead="?", separator="&", is_named=True, writes_empty=True),
    "&": Operator(symbol="&", lead="&", separator="&", is_named=True, writes_empty=True),
}


class UriTemplateError(ValueError):
    """The text is not an RFC 6570 template; `position` counts characters from 0."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        super().__init__(f"{problem} at character {position} of the URI template {text!r}")
        self.position = position


class UriTemplate:
    """A template such as `order://{pk}{?expand}`, parsed once.

    Attributes:
        text: the template as written; two templates are equal when their texts are.
        variables: names in order of appearance, each once.
        optional_variables: those that a matching URI may leave out: of `{;x}`, `{?x}` and `{&x}`.
        list_variables: the exploded ones (`{x*}`), whose values are lists.
        matching_fault: why no URI can be matched against this template, or None; see
            `uri_matching`. Such a template still expands.

    Raises:
        ValueError: the text is not a template.

    Source: RFC 6570.
    """

    __slots__ = (
        "_parts",
        "_pattern",
        "list_variables",
        "matching_fault",
        "optional_variables",
        "text",
        "variables",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = tuple(_parse(text))
        expressions = [part for part in self._parts if isinstance(part, Expression)]
        found = [(each.operator, variable) for each in expressions for variable in each.variables]
        self.variables = tuple(dict.fromkeys(variable.name for _, variable in found))
        self.optional_variables = frozenset(
            variable.name for operator, variable in found if operator.is_named
        )
        self.list_variables = frozenset(
            variable.name for _, variable in found if variable.is_exploded
        )
        self.matching_fault = uri_matching.find_fault(self._parts)
        self._pattern = None if self.matching_fault else uri_matching.Pattern(self._parts)

    def expand(self, values: Mapping[str, object]) -> str:
        """Return the URI for these values.

        Args:
            values: str, numbers and bools as written in JSON, lists and mappings of such; a variable
                that is missing, None or an empty list is left out.

        Raises:
            ValueError: a list or mapping for a variable with a length (`{x:3}`).
        """
        return "".join(
            part if isinstance(part, str) else _expand(part, values) for part in self._parts
        )

    def match(self, uri: str) -> UriValues | None:
        """Return the variables of a URI, percent-decoded once, or None if it does not match.

        It accepts any string, in linear time. Values that could leave a directory do not match; see
        `uri_matching`.

        Raises:
            ValueError: `matching_fault` is set.
        """
        if self._pattern is None:
            raise ValueError(f"Cannot match URIs against {self.text!r}: {self.matching_fault}")
        return self._pattern.match(uri)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UriTemplate) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _parse(text: str) -> Iterable[str | Expression]:
    position = 0
    while position < len(text):
        start = text.find("{", position)
        end = len(text) if start < 0 else start
        if end > position:
            yield _parse_literal(text, position, end)
        if start < 0:
            return
        position = text.find("}", start) + 1
        if not position:
            raise UriTemplateError("A brace is never closed", text, start)
        yield _parse_expression(text, start + 1, position - 1)


def _parse_literal(text: str, start: int, end: int) -> str:
    bad = _BAD_LITERAL.search(text, start, end)
    if bad is not None:
        raise UriTemplateError(f"{bad.group()!r} is not allowed in a URI", text, bad.start())
    return _encode(text[start:end], keeps_reserved=True)


def _parse_expression(text: str, start: int, end: int) -> Expression:
    symbol = text[start:end][:1]
    if symbol and symbol in "=,!@|":
        raise UriTemplateError(f"The operator {symbol!r} is reserved", text, start)
    if symbol not in _OPERATORS:
        symbol = ""
    position = start + len(symbol)
    variables = []
    for spec in text[position:end].split(","):
        variables.append(_parse_variable(text, spec, position))
        position += len(spec) + 1
    return Expression(operator=_OPERATORS[symbol], variables=tuple(variables))


def _parse_variable(text: str, spec: str, position: int) -> Variable:
    name, colon, length = spec.partition(":")
    is_exploded = spec.endswith("*")
    if is_exploded and not colon:
        name = spec[:-1]
    if not _NAME.fullmatch(name):
        raise UriTemplateError(f"{spec!r} is not a variable name", text, position)
    if not colon:
        return Variable(name=name, is_exploded=is_exploded)
    if not _LENGTH.fullmatch(length):
        raise UriTemplateError(
            f"{length!r} is not a length from 1 to 9999", text, position + len(name) + 1
        )
    return Variable(name=name, length=int(length))


def _expand(expression: Expression, values: Mapping[str, object]) -> str:
    operator = expression.operator
    pieces: list[str] = []
    for variable in expression.variables:
        pieces.extend(_expand_variable(operator, variable, values.get(variable.name)))
    return operator.lead + operator.separator.join(pieces) if pieces else ""


def _expand_variable(operator: Operator, variable: Variable, value: object) -> Iterable[str]:
    """Yield the parts that the operator's separator joins; nothing for an undefined value."""
    if value is None:
        return
    if not isinstance(value, list | tuple | Mapping):
        text = _to_text(value)
        if variable.length is not None:
            text = text[: variable.length]
        yield _named(operator, variable, _encode(text, keeps_reserved=operator.keeps_reserved))
        return
    if variable.length is not None:
        raise ValueError(f"{variable.name!r} has a length, so its value must not be a list")
    pairs = _pairs(operator, value)
    if variable.is_exploded and isinstance(value, Mapping):
        yield from (_pair(operator, key or "", item) for key, item in pairs)
    elif variable.is_exploded:
        yield from (_named(operator, variable, item) for _, item in pairs)
    elif pairs:
        flat = (text for pair in pairs for text in pair if text is not None)
        yield _named(operator, variable, ",".join(flat))


def _pairs(
    operator: Operator, value: list[Any] | tuple[Any, ...] | Mapping[Any, Any]
) -> list[tuple[str | None, str]]:
    """Return encoded items, each with its encoded key if the value is a mapping."""

    def encode(item: object) -> str:
        return _encode(_to_text(item), keeps_reserved=operator.keeps_reserved)

    if isinstance(value, Mapping):
        return [(encode(k), encode(item)) for k, item in value.items() if item is not None]
    return [(None, encode(item)) for item in value if item is not None]


def _named(operator: Operator, variable: Variable, text: str) -> str:
    return _pair(operator, variable.name, text) if operator.is_named else text


def _pair(operator: Operator, name: str, text: str) -> str:
    if not text and operator.is_named and not operator.writes_empty:
        return name
    return f"{name}={text}"


def _to_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _encode(text: str, *, keeps_reserved: bool) -> str:
    if not keeps_reserved:
        return quote(text, safe="")
    # Existing percent-encoding is kept; a lone percent sign becomes %25.
    pieces = _PERCENT_OR_TEXT.split(text)
    return "".join(
        piece if index % 2 else quote(piece, safe=_RESERVED) for index, piece in enumerate(pieces)
    )
