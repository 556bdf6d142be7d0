"""Make names of clients safe to show."""

from __future__ import annotations

from django_mcp.protocol.texts import mark_invisible

__all__ = ["MAX_NAME", "inert"]

MAX_NAME = 80


def inert(name: str) -> str:
    """Return a name on one line, of at most `MAX_NAME` characters, without invisible ones.

    Those could reorder the text around them, or hide a part of it.
    """
    seen = mark_invisible(name, lambda char: " " if char.isspace() else "")
    line = " ".join(seen.split())
    return line if len(line) <= MAX_NAME else line[: MAX_NAME - 1].rstrip() + "…"
