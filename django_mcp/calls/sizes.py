"""The largest results of tools among the newest recorded calls."""

from __future__ import annotations

from django.db.models import Max

from django_mcp.models.calls import CallRecord
from django_mcp.protocol.tokens import CHARS_PER_TOKEN

NEWEST = 20_000
"""Recorded calls that are looked at, the newest of all servers: there may be millions."""

MAX_RESULT_TOKENS = 25_000
"""Clients cut larger results, or do not take them."""


def to_tokens(chars: int) -> int:
    """Return about how many tokens so many characters are."""
    return -(-chars // CHARS_PER_TOKEN)


def find_largest(using: str | None, *, above: int = 0) -> dict[tuple[str, str], int]:
    """Return the tokens of the largest result of each tool, by server and name.

    Args:
        using: the database of the recorded calls.
        above: only results of more tokens than so many.
    """
    calls = CallRecord.objects.using(using).order_by()
    # Numbers are given in order, so that there are no more calls than numbers.
    last = calls.aggregate(last=Max("pk"))["last"] or 0
    sizes = (
        calls.filter(
            pk__gt=last - NEWEST,
            method=CallRecord.Method.TOOL,
            result_chars__gt=above * CHARS_PER_TOKEN,
        )
        .values_list("server", "name")
        .annotate(chars=Max("result_chars"))
    )
    return {(server, name): to_tokens(chars) for server, name, chars in sizes}
