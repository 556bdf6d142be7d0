"""Values of JSON as people read them: their names, and each value as a short text, as HTML or whole.

Short texts are for tables, cards and charts, and whole ones for what the user has to agree to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from html import escape
from itertools import islice
from typing import Any

from django.utils import formats, timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.sanitize import mark_invisible

MAX_CELL_CHARS = 200
"""Of a value in a table."""

MAX_TEXT_CHARS = 5000
"""Of a value in a card."""

MAX_PARTS = 3
"""Parts of an object, and items of a list, that a short text has."""

MAX_PLAIN, MAX_PLAIN_CHARS = 30, 500
"""Of a result that is shown without a template of its own: its values, and the characters of each."""

NOTHING = "\u2013"
"""What is shown where there is no value: a dash."""

_NAMES = ("text", "name", "title", "label", "number", "username", "code")
"""The members by which people know an object, the likeliest first."""

_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?")
_ADDRESS = re.compile(r"https?://\S+")
_UNSAFE = re.compile("[&<>\"']")

_TAGGED = ("moment", "day", "address")
"""The kinds of values that have an element of their own."""


# -- names


def label_of(name: str, schema: Any = None) -> str:
    """Return the name of a value for people: the title in its schema, or the words of its own name."""
    title = schema.get("title") if isinstance(schema, Mapping) else None
    words = name.replace("__", " ").replace("_", " ").strip()
    label = str(title or "").strip() or words or name
    return label[:1].upper() + label[1:]


# -- short texts


def to_number(value: Any) -> Decimal | int | float | None:
    """Return a value as a number; None, if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        try:
            return Decimal(value)
        except InvalidOperation:
            return None
    return None


def to_text(value: Any, kind: str = "text", *, is_long: bool = False) -> str:
    """Return a value as a short text, which is not escaped.

    Args:
        value: from JSON.
        kind: of its column; see `Column`.
        is_long: whether there is room for a long text.
    """
    if value is None or value == "":
        return NOTHING
    if kind == "text" and type(value) is str:
        return cut(value, MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS)
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    number = to_number(value) if kind == "number" or not isinstance(value, str) else None
    if number is not None:
        return str(formats.number_format(number))
    if isinstance(value, str):
        told = _to_time(value, kind, is_long=is_long) if kind in ("moment", "day") else None
        return told or cut(value, MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS)
    return cut(_summarize(value, 0), MAX_TEXT_CHARS if is_long else MAX_CELL_CHARS) or NOTHING


def _to_time(value: str, kind: str, *, is_long: bool) -> str | None:
    prefix = "" if is_long else "SHORT_"
    try:
        if kind == "day":
            day = parse_date(value)
            return None if day is None else formats.date_format(day, f"{prefix}DATE_FORMAT")
        moment = parse_datetime(value)
        if moment is None:
            return None
        if timezone.is_aware(moment):
            moment = timezone.localtime(moment)
        return formats.date_format(moment, f"{prefix}DATETIME_FORMAT")
    except (ValueError, OverflowError):
        return None


def _summarize(value: Any, depth: int) -> str:
    """Return a short text of an object or a list."""
    if isinstance(value, Mapping):
        named = [name for name in _NAMES if isinstance(value.get(name), str) and value[name]]
        parts = [value[named[0]]] if named else list(islice(value.values(), MAX_PARTS))
        return " · ".join(_write_parts(parts, depth))
    if isinstance(value, list):
        rest = len(value) - MAX_PARTS
        told = ", ".join(_write_parts(value[:MAX_PARTS], depth))
        return f"{told} +{rest}" if rest > 0 else told
    return to_text(value)


def _write_parts(parts: Sequence[Any], depth: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Mapping | list):
            if depth < MAX_PARTS:
                yield _summarize(part, depth + 1)
        elif part is not None:
            yield to_text(part)


def cut(text: str, most: int) -> str:
    """Return a text with at most so many characters, of which the last one says that it is cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def escape_text(text: str) -> str:
    """Return a text escaped for HTML; most need nothing."""
    return escape(text) if _UNSAFE.search(text) else text


def write_html(value: Any, kind: str, *, is_long: bool = False) -> str:
    """Return a value as escaped HTML; see `to_text`."""
    text = to_text(value, kind, is_long=is_long)
    escaped = escape_text(text)
    if kind in _TAGGED and isinstance(value, str):
        if kind == "address":
            is_link = len(value) <= MAX_TEXT_CHARS and _ADDRESS.fullmatch(value)
            return f'<a href="{escape(value)}">{escaped}</a>' if is_link else escaped
        if text not in (value, NOTHING):
            return f'<time datetime="{escape(value)}">{escaped}</time>'
    return escaped


def to_html(value: Any, kind: str, *, is_long: bool = False) -> SafeString:
    """Return a value as escaped HTML for a template; see `to_text`."""
    return mark_safe(write_html(value, kind, is_long=is_long))  # noqa: S308 - escaped above


def find_plain(result: Any) -> list[tuple[str, str]]:
    """Return the texts and numbers of a structured result with their names, as far as there is room for them."""
    if not isinstance(result, Mapping):
        return []
    plain = [
        (label_of(name), str(value)[:MAX_PLAIN_CHARS])
        for name, value in result.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    ]
    return plain[:MAX_PLAIN]


# -- whole texts


def find_terms(
    values: Mapping[str, Any], schema: JSONObject, *, keeps_lines: bool = False
) -> list[tuple[str, str]]:
    """Return values with their names for people, as whole texts.

    Args:
        values: arguments of a tool, or its result.
        schema: of the values, whose titles are their names.
        keeps_lines: whether a text may have several lines. In a text of terms, it could write further ones.
    """
    properties = schema.get("properties", {})
    return [
        (on_one_line(label_of(name, properties.get(name))), tell(value, keeps_lines=keeps_lines))
        for name, value in values.items()
    ]


def tell(value: Any, *, keeps_lines: bool = False) -> str:
    """Return a value as a whole text; see `find_terms`."""
    return _tell(value, _on_lines if keeps_lines else on_one_line)


def _tell(value: Any, clean: Callable[[str], str]) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value and isinstance(value, list) and not any(isinstance(each, _NESTED) for each in value):
        return ", ".join(_tell_part(each, clean) for each in value)
    if value and isinstance(value, dict) and not any(map(_is_nested, value.values())):
        return "; ".join(
            f"{_quote(on_one_line(name))}: {_tell_part(each, clean)}"
            for name, each in value.items()
        )
    if isinstance(value, str) and value not in _EMPTY:
        return clean(value)
    return on_one_line(encode(value).decode())


_NESTED = (list, dict)

_EMPTY = ("", NOTHING, "[]", "{}", '""')
"""Texts that are shown in quotation marks, since they would look like no value, or like an empty one."""

_PARTING = re.compile(r'[,;:"]')
"""What parts of a value are told apart by."""


def _is_nested(value: Any) -> bool:
    """Return whether a member of an object is one itself, or a list that has some."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, _NESTED) for each in value)
    )


def _tell_part(value: Any, clean: Callable[[str], str]) -> str:
    """Return a part of a list or an object, with what cannot pass for further parts."""
    return _quote(clean(value)) if isinstance(value, str) else _tell(value, clean)


def _quote(text: str) -> str:
    """Return a text in quotation marks, if it would look like several or like none without."""
    return encode(text).decode() if text in _EMPTY or _PARTING.search(text) else text


def on_one_line(text: str) -> str:
    """Return a text in which nothing is invisible, and that writes no further lines."""
    return mark_invisible(" ".join(text.split()), lambda _char: "\ufffd")


def _on_lines(text: str) -> str:
    return "\n".join(map(on_one_line, text.strip().splitlines()))
