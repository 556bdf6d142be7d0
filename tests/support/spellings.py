"""The ways to write one value that Django reads as the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

UUID_SPELLINGS: Sequence[Callable[[UUID], str]] = (
    str,
    lambda value: value.hex,
    lambda value: f"{{{value}}}",
    lambda value: value.urn,
    lambda value: str(value).upper(),
)
