"""The base class of per-request records, whose constructor is written in C."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Record(Struct, eq=False):
    """Fields by their annotations; equal only to itself.

    Its representation contains no values, since they include credentials, and error reports show the
    local variables of each frame.
    """

    __repr__ = object.__repr__

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show no values."""
        return []
