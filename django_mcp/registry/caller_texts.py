"""Lazy texts of schemas that name tools: each caller is told of those that it sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Sees: TypeAlias = Callable[[str], Any]
"""Takes the name of a tool, and returns something true if the caller sees the tool."""


@dataclass(frozen=True, slots=True)
class SeesAlone:
    """Says which tools a caller sees, of whom it reads one alone: no other tool says anything for it."""

    sees: Sees

    def __call__(self, name: str) -> Any:
        """Return something true if the caller sees the tool."""
        return self.sees(name)


def read_for(sees: Sees, text: Any) -> str:
    """Return a lazy text in the active language, as a caller may read it.

    A text that names tools has a method `for_caller`, which takes a `Sees`. As a plain string it names all of them.
    """
    tell = getattr(text, "for_caller", None)
    return str(text) if tell is None else str(tell(sees))
