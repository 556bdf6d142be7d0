"""Names that strangers gave themselves, made harmless for the eyes of people."""

from __future__ import annotations

import unicodedata

__all__ = ["MAX_NAME", "inert"]

MAX_NAME = 80


def inert(name: str) -> str:
    """Return a name on one line, of at most `MAX_NAME` characters, without any that are not seen.

    Those could turn the text around them, or hide a part of it.
    """
    seen = "".join(
        " " if char.isspace() else char
        for char in name
        if char.isspace() or unicodedata.category(char)[0] != "C"
    )
    line = " ".join(seen.split())
    return line if len(line) <= MAX_NAME else line[: MAX_NAME - 1].rstrip() + "…"
