"""Estimate how many tokens of a model's context a JSON value takes."""

from __future__ import annotations

from typing import Any

from django_mcp.protocol.json import encode

CHARS_PER_TOKEN = 4
"""The average length of a token in English or JSON; models differ by a quarter either way."""


def estimate_tokens(value: Any) -> int:
    """Return the approximate number of tokens of a JSON value."""
    return -(-len(encode(value).decode()) // CHARS_PER_TOKEN)
