"""The base of what every request makes: records whose fields are set at C's speed."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Record"]


class Record(Struct, eq=False):
    """Fields by their annotations; equal to itself only.

    Its values are shown to nobody: arguments, answers and credentials are among them, and what
    collects errors writes down the locals of each frame.
    """

    __repr__ = object.__repr__

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show none of the values either."""
        return []
