"""A finding: what was tried, and what to do about it."""

from __future__ import annotations

from django_mcp.contrib.oauth.doctor import Finding

__all__ = ["Finding", "bad", "good"]


def good(text: str) -> Finding:
    """Return a finding that stands in nobody's way."""
    return Finding(ok=True, text=text)


def bad(text: str, fix: str) -> Finding:
    """Return a finding that does, with its remedy."""
    return Finding(ok=False, text=text, fix=fix)
