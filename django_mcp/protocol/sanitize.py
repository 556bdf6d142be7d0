"""Make what clients say of themselves safe to keep and show: short, and without invisible characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from typing import Any

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, encode

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U000e0100-\U000e01ef]"
)
"""Printable characters that fonts draw as nothing: fillers, variation selectors."""

_SELECTORS = "\ufe0e\ufe0f"
"""They choose between two forms of a symbol, and are part of many emoji."""

MAX_CLIENT_BYTES = 8 * 1024
"""Bytes of `clientInfo` and the client's capabilities together, encoded as JSON."""

_INFO = frozenset({"name", "title", "version", "description", "websiteUrl", "icons"})
_CAPABILITIES = frozenset(
    {"roots", "sampling", "elicitation", "tasks", "experimental", "extensions"}
)


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
    # Most texts are like this, and each recorded call has five.
    if len(text) <= max_length and text.isascii() and text.isprintable():
        return text
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    return mark_invisible(text, lambda _: "\ufffd")


def clean_if_text(value: object, max_length: int) -> str:
    """Return what `clean` does for a text; of anything else that a client sent, an empty one."""
    return clean(value, max_length) if isinstance(value, str) else ""


def name_and_version(client_info: Any) -> tuple[str, str]:
    """Return a client's name and version in the form that rows store."""
    info = client_info if isinstance(client_info, dict) else {}
    return clean_if_text(info.get("name"), 100), clean_if_text(info.get("version"), 50)


def limit_client_details(
    client_info: JSONObject | None, capabilities: JSONObject
) -> tuple[JSONObject | None, JSONObject] | Refusal:
    """Return the fields of both that the protocol defines, or a refusal if they are too large.

    Icons are dropped if the rest then fits the limit. Neither argument is changed.
    """
    picked = _pick(capabilities, _CAPABILITIES)
    size = 0
    for names in (_INFO, _INFO - {"icons"}):
        info = None if client_info is None else _pick(client_info, names)
        size = len(encode([info, picked]))
        if size <= MAX_CLIENT_BYTES:
            return info, picked
    return invalid_params(
        f"clientInfo and the client capabilities have {size} bytes together; at most "
        f"{MAX_CLIENT_BYTES} are accepted. Shorten them, for example under experimental."
    )


def _pick(value: JSONObject, names: Collection[str]) -> JSONObject:
    return {name: each for name, each in value.items() if name in names}
