"""Match URIs against the parts of a template, in linear time.

RFC 6570 defines only expansion; the rules for matching are our own:

- Variables without a name in the URI (`{x}`, `{+x}`, `{#x}`, `{.x}`, `{/x}`) are required and not
  empty, since an empty and an undefined one expand alike. Those with a name (`{;x}`, `{?x}`,
  `{&x}`) may be missing and come in any order, but not twice; unknown names do not match.
- A variable takes as much as it can while the rest still matches, as in a regular expression.
- An exploded variable (`{/x*}`, `{?x*}`, `{x*}`) is a list of one or more.
- Values are percent-decoded once, after matching: `%252e` is the text `%2e`. Anything but UTF-8
  does not match, which includes overlong forms.
- No value may hold control characters or a backslash. A value of `{x}`, `{.x}` or `{/x}` must
  not hold a slash or be `.` or `..`; the others may hold slashes, but no `.` or `..` between them.
- A `{+path}` is relative on every platform, so that it stays below the directory it is joined to: it
  must not start with a slash, a Windows drive or a `~`, and no part of it may be dots and blanks
  alone. Only after `file://` may it start with a slash. No value in a `file:` URI may start with a
  drive or a `~`. A value of `{?x}` and the like may be any text without `.` and `..` between slashes.

The matcher does not backtrack: for each part, from the last to the first, it computes from which
positions the rest of the URI can be matched.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import quote, unquote_to_bytes

__all__ = ["MAX_URI_CHARS", "Expression", "Operator", "Pattern", "Variable", "find_fault"]

MAX_URI_CHARS = 8192
"""Longer URIs match nothing. Our own limit."""

_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~%")
# Reserved characters that separate nothing in any operator are accepted, since people and models
# write them: `user://jane@example.com`.
_SIMPLE = _UNRESERVED | frozenset(":@!$'()*+")
_WHOLE = _SIMPLE | frozenset("/?#[]&,;=")
_QUERY = _SIMPLE | frozenset("/?,;=&")
_PATH_PARAMETER = _SIMPLE | frozenset(",=;")
_AMBIGUOUS_LISTS = frozenset("+#.")
_ALL_ASCII = "".join(map(chr, range(128)))
_CLIMBS = frozenset({".", ".."})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\\]")
_OUTSIDE = re.compile(r"~|[A-Za-z]:")
_OUTSIDE_OR_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:")
_DOTS_AND_BLANKS = re.compile(r"(?:^|/) *\.[. ]*(?:/|$)")
"""What Windows may treat as `.` or `..`: it drops dots and blanks at the end of a name."""

_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """One row of the table in RFC 6570 appendix A."""

    symbol: str
    lead: str
    separator: str
    is_named: bool = False
    writes_empty: bool = False
    keeps_reserved: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """One variable of an expression: `x`, `x*` or `x:3`."""

    name: str
    is_exploded: bool = False
    length: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """The text between two braces."""

    operator: Operator
    variables: tuple[Variable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    """A non-empty part of the URI that is one value, or several between `separator`.

    `is_path` means that the value is a path of several names; it must not start with `refused`.
    """

    name: str
    characters: frozenset[str]
    separator: str | None
    may_hold_slash: bool
    is_path: bool = False
    refused: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pairs:
    """A part of the URI of `name=value` pairs that starts with `lead`; may be empty."""

    lead: str
    separator: str
    characters: frozenset[str]
    is_exploded: dict[str, bool]


_Step: TypeAlias = str | _Value | _Pairs


def find_fault(parts: Sequence[str | Expression]) -> str | None:
    """Return why URIs cannot be matched without guessing, or None if they can."""
    seen: set[str] = set()
    before: str | Expression = ""
    for part in parts:
        if isinstance(part, Expression):
            fault = _find_fault_in(part, seen)
            if fault is not None:
                return fault
            if isinstance(before, Expression) and not part.operator.lead:
                return f"nothing separates {part.variables[0].name!r} from the variable before it"
        before = part
    return None


def _find_fault_in(expression: Expression, seen: set[str]) -> str | None:
    operator = expression.operator
    if len(expression.variables) > 1 and operator.keeps_reserved:
        return f"the values in one {{{operator.symbol}...}} may hold the comma between them"
    for variable in expression.variables:
        if variable.name in seen:
            return f"the variable {variable.name!r} appears twice"
        seen.add(variable.name)
        if variable.length is not None:
            return f"the length of {variable.name!r} cuts its value"
        if variable.is_exploded and operator.symbol in _AMBIGUOUS_LISTS:
            return f"the items of {variable.name!r} may hold what separates them"
    return None


class Pattern:
    """The parts of a template, ready to match any string."""

    __slots__ = ("_head", "_steps", "_tail")

    def __init__(self, parts: Sequence[str | Expression]) -> None:
        steps = _to_steps(parts)
        # The literals at both ends are fixed, which excludes most URIs at once.
        self._head = _pop_literal(steps, 0)
        self._tail = _pop_literal(steps, -1)
        self._steps = tuple(steps)

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the decoded variables of a URI, or None."""
        middle = self._find_middle(uri)
        stretches = None if middle is None else _find_stretches(self._steps, middle)
        if stretches is None:
            return None
        values: dict[str, Any] = {}
        for step, text in zip(self._steps, stretches, strict=True):
            found = _read(step, text)
            if found is None:
                return None
            values.update(found)
        return values

    def _find_middle(self, uri: str) -> str | None:
        """Return the text between the fixed ends, in ASCII."""
        if len(uri) > MAX_URI_CHARS:
            return None
        if not uri.isascii():
            try:
                uri = quote(uri, safe=_ALL_ASCII)
            except UnicodeEncodeError:
                return None
        end = len(uri) - len(self._tail)
        if end < len(self._head) or not uri.startswith(self._head) or uri[end:] != self._tail:
            return None
        return uri[len(self._head) : end]


def _to_steps(parts: Sequence[str | Expression]) -> list[_Step]:
    steps: list[_Step] = []
    for part in parts:
        for step in [part] if isinstance(part, str) else _steps_of(part):
            before = steps[-1] if steps else None
            if isinstance(step, str) and isinstance(before, str):
                steps[-1] = before + step
            elif (
                isinstance(step, _Pairs) and isinstance(before, _Pairs) and _continues(before, step)
            ):
                joined = before.is_exploded | step.is_exploded
                steps[-1] = replace(before, is_exploded=joined)
            else:
                steps.append(step)
    first = steps[0] if steps else ""
    is_file = isinstance(first, str) and first.lower().startswith("file:")
    return _bounded(_confine(steps, is_file=is_file))


def _confine(steps: Sequence[_Step], *, is_file: bool) -> list[_Step]:
    """Make each value reject what would lead out of the directory it is joined to."""
    found: list[_Step] = []
    for step in steps:
        if isinstance(step, _Value) and (step.is_path or is_file):
            before = found[-1] if found else ""
            may_be_absolute = not step.is_path or (is_file and before == "file://")
            refused = _OUTSIDE if may_be_absolute else _OUTSIDE_OR_ABSOLUTE
            found.append(replace(step, refused=refused))
        else:
            found.append(step)
    return found


def _steps_of(expression: Expression) -> Iterator[_Step]:
    operator = expression.operator
    if operator.is_named:
        yield _Pairs(
            lead=operator.lead,
            separator=operator.separator,
            characters=_PATH_PARAMETER if operator.symbol == ";" else _QUERY,
            is_exploded={each.name: each.is_exploded for each in expression.variables},
        )
        return
    between = operator.lead
    for variable in expression.variables:
        if between:
            yield between
        between = operator.separator
        characters = _WHOLE if operator.keeps_reserved else _SIMPLE
        yield _Value(
            name=variable.name,
            characters=characters | {between} if variable.is_exploded else characters,
            separator=between if variable.is_exploded else None,
            may_hold_slash=operator.keeps_reserved,
            is_path=operator.symbol == "+",
        )


def _continues(before: _Pairs, step: _Pairs) -> bool:
    return step.lead == step.separator == before.separator


def _bounded(steps: list[_Step]) -> list[_Step]:
    """Prevent each `{+x}` from taking the start of a later group of pairs."""
    leads: set[str] = set()
    bounded: list[_Step] = []
    for step in reversed(steps):
        if isinstance(step, _Value):
            bounded.append(replace(step, characters=step.characters - leads))
            continue
        bounded.append(step)
        if isinstance(step, _Pairs):
            leads.add(step.lead)
    return bounded[::-1]


def _pop_literal(steps: list[_Step], index: int) -> str:
    if steps and isinstance(steps[index], str):
        return str(steps.pop(index))
    return ""


def _find_stretches(steps: Sequence[_Step], text: str) -> list[str] | None:
    """Return the part of the text that each step takes, or None."""
    if len(steps) == 1 and isinstance(steps[0], _Value):
        # Most templates have one variable, which takes all or nothing.
        return [text] if text and steps[0].characters.issuperset(text) else None
    goes_on = [False] * len(text) + [True]
    ends_by_step = []
    for step in reversed(steps):
        ends = _find_ends(step, text, goes_on)
        ends_by_step.append(ends)
        goes_on = [end is not None for end in ends]
    stretches = []
    position = 0
    for ends in reversed(ends_by_step):
        end = ends[position]
        if end is None:
            return None
        stretches.append(text[position:end])
        position = end
    return stretches if position == len(text) else None


def _find_ends(step: _Step, text: str, goes_on: list[bool]) -> list[int | None]:
    """Return, for each position, the last one where the step may end and the rest still match."""
    if isinstance(step, str):
        return _find_literal(step, text, goes_on)
    ends: list[int | None] = [None] * len(goes_on)
    # The best end of a part that has started already.
    reach: int | None = None
    for position in range(len(text), -1, -1):
        character = text[position : position + 1]
        further = reach if character in step.characters else None
        if isinstance(step, _Value):
            ends[position] = further
        else:
            ends[position] = reach if character == step.lead else None
        if further is None and goes_on[position]:
            further = position
        if isinstance(step, _Pairs) and ends[position] is None and goes_on[position]:
            ends[position] = position
        reach = further
    return ends


def _find_literal(literal: str, text: str, goes_on: list[bool]) -> list[int | None]:
    ends: list[int | None] = [None] * len(goes_on)
    position = text.find(literal)
    while position >= 0:
        end = position + len(literal)
        if goes_on[end]:
            ends[position] = end
        position = text.find(literal, position + 1)
    return ends


def _read(step: _Step, text: str) -> dict[str, Any] | None:
    """Return the values in a part; None if one is not allowed."""
    if isinstance(step, str):
        return {}
    if isinstance(step, _Pairs):
        return _read_pairs(step, text)
    if step.separator is None:
        value = _decode(text, may_hold_slash=step.may_hold_slash)
        return None if value is None or _leads_out(step, value) else {step.name: value}
    items = [_decode(item, may_hold_slash=False) for item in text.split(step.separator)]
    return {step.name: items} if all(items) and not _leads_out(step, items[0] or "") else None


def _leads_out(step: _Value, value: str) -> bool:
    """Return whether a value could lead out of the directory it is joined to."""
    if step.refused is None:
        return False
    return bool(step.refused.match(value) or (step.is_path and _DOTS_AND_BLANKS.search(value)))


def _read_pairs(step: _Pairs, text: str) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for pair in text[1:].split(step.separator) if text else ():
        name, _, encoded = pair.partition("=")
        value = _decode(encoded, may_hold_slash=True)
        if value is None or name not in step.is_exploded:
            return None
        if step.is_exploded[name]:
            values.setdefault(name, []).append(value)
        elif name in values:
            return None
        else:
            values[name] = value
    return values


def _decode(encoded: str, *, may_hold_slash: bool) -> str | None:
    """Return the text of a value, or None if it is malformed or could leave a directory."""
    text = encoded
    if "%" in encoded:
        if _BROKEN_PERCENT.search(encoded):
            return None
        try:
            text = unquote_to_bytes(encoded).decode()
        except UnicodeDecodeError:
            return None
    if _UNSAFE.search(text) or ("/" in text and not may_hold_slash):
        return None
    return None if any(segment in _CLIMBS for segment in text.split("/")) else text
