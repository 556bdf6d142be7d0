"""A finding: what was tried, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "bad", "good"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was tried.

    Attributes:
        ok: a client gets past it.
        text: what was found.
        fix: what to do when it is not ok.
    """

    ok: bool
    text: str
    fix: str = ""


def good(text: str) -> Finding:
    """Return a finding that stands in nobody's way."""
    return Finding(ok=True, text=text)


def bad(text: str, fix: str) -> Finding:
    """Return a finding that does, with its remedy."""
    return Finding(ok=False, text=text, fix=fix)
