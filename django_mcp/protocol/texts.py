"""Texts that strangers chose, made fit to be kept and shown: short, and nothing in them unseen."""

from __future__ import annotations

from typing import Any

__all__ = ["clean", "name_and_version"]


def clean(text: str, max_length: int) -> str:
    """Return a client's text cut short, with a mark in the place of what cannot be seen.

    That is control characters, bidirectional overrides and half surrogates, which would also not
    be taken by every database.
    """
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def name_and_version(client_info: Any) -> tuple[str, str]:
    """Return what a client calls itself, as rows keep it."""
    info = client_info if isinstance(client_info, dict) else {}
    name, version = info.get("name"), info.get("version")
    return (
        clean(name, 100) if isinstance(name, str) else "",
        clean(version, 50) if isinstance(version, str) else "",
    )
