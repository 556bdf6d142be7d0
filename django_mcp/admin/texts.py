"""Make texts and JSON that clients or users wrote safe to show: short, and with invisible characters escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.html import format_html

from django_mcp.protocol.json import encode_pretty
from django_mcp.protocol.sanitize import mark_invisible

MAX_SHOWN = 20_000
MAX_CELL = 2000


def escape_invisible(text: str, max_length: int = MAX_SHOWN) -> str:
    """Return a text cut short, with invisible characters written as escapes.

    Those are control characters except line breaks and tabs, bidirectional overrides, and fillers. The
    template escapes HTML.
    """
    rest = len(text) - max_length
    if rest > 0:
        text = f"{text[:max_length]}… (+{rest})"
    return mark_invisible(text, lambda char: char if char in "\n\t" else f"\\u{ord(char):04x}")


def to_number(text: str | None, max_digits: int) -> int:
    """Return the number that a client wrote; 0 if it is none, or has more digits."""
    is_number = text and text.isascii() and text.isdigit() and len(text) <= max_digits
    return int(text) if text and is_number else 0


def code(value: Any, max_length: int = MAX_SHOWN) -> str:
    """Return JSON for people as HTML, with its lines as they are."""
    return format_html('<pre class="mcp-code" tabindex="0">{}</pre>', pretty(value, max_length))


def pretty(value: Any, max_length: int = MAX_SHOWN) -> str:
    """Return indented JSON for people."""
    return escape_invisible(encode_pretty(value), max_length)


def show_text(text: Any, max_length: int = 80) -> str:
    """Return a text of others, short and without hidden characters."""
    return escape_invisible(str(text), max_length)


@cache
def as_column(model: type[models.Model], name: str) -> Any:
    """Return what shows a field of rows without hidden characters; if it holds no text of others, its name.

    It is for the columns of a list, and the fields of a page on which nobody edits them.
    """
    try:
        field: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        return name
    if field.choices or not isinstance(field, models.CharField | models.TextField):
        return name

    @admin.display(description=field.verbose_name, ordering=name)
    def show(row: Any) -> str:
        text = escape_invisible(getattr(row, name) or "", MAX_CELL)
        # Its direction is not that of the page.
        return format_html("<bdi>{}</bdi>", text) if text else "-"

    show.__name__ = name
    return show
