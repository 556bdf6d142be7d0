"""Make texts from clients safe to store and show: short, and without invisible characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U000e0100-\U000e01ef]"
)
"""Printable characters that fonts draw as nothing: fillers, variation selectors."""

_SELECTORS = "\ufe0e\ufe0f"
"""They choose between two forms of a symbol, and are part of many emoji."""


def mark_invisible(text: str, mark: Callable[[str], str]) -> str:
    """Return the text with `mark(character)` in place of each invisible character."""
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(
        char if _is_visible(char, before) else mark(char)
        for char, before in zip(text, " " + text, strict=False)
    )


def _is_visible(char: str, before: str) -> bool:
    if char in _SELECTORS and before not in "\u2800\ufffc":
        return unicodedata.category(before) == "So"
    return char.isprintable() and not _BLANK.match(char)


def clean(text: str, max_length: int) -> str:
    """Return a client's text cut short, with a mark in place of invisible characters.

    Those are control characters, bidirectional overrides, fillers and half surrogates, which some
    databases also reject.
    """
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    return mark_invisible(text, lambda _: "\ufffd")


def name_and_version(client_info: Any) -> tuple[str, str]:
    """Return a client's name and version in the form that rows store."""
    info = client_info if isinstance(client_info, dict) else {}
    name, version = info.get("name"), info.get("version")
    return (
        clean(name, 100) if isinstance(name, str) else "",
        clean(version, 50) if isinstance(version, str) else "",
    )
