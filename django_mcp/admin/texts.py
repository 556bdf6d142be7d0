"""Make texts and JSON that clients or users wrote safe to show: short, and with invisible characters escaped."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html

from django_mcp.protocol.json import encode_pretty
from django_mcp.protocol.sanitize import mark_invisible

MAX_SHOWN = 20_000


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
