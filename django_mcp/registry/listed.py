"""Lists that end where the result of a tool would become too large for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from django_mcp.protocol.content import ResourceLink, Text
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.results import ToolResult
from django_mcp.protocol.tokens import CHARS_PER_TOKEN

MAX_LINK_SHARE = 0.1
"""The part of a result that a link to the whole one may take; a longer link is left out."""


class Listed(dict[str, Any]):
    """The result of a tool, an object with rows of which the last ones can be left out.

    Args:
        value: the object with all rows.
        rows: the name of the member that holds the rows, a list or an object.
        keep: returns the members that are different with only so many of the rows, such as the cursor of
            the others, and a note about them.
        note: the name of the member that holds the note.
        told: what the note says besides, which is put behind the note about the rows.
    """

    __slots__ = ("keep", "note", "rows", "told")

    def __init__(
        self,
        value: Mapping[str, Any],
        rows: str,
        keep: Callable[[int], JSONObject],
        *,
        note: str = "note",
        told: str = "",
    ) -> None:
        super().__init__(value)
        self.rows = rows
        self.keep = keep
        self.note = note
        self.told = told


def fit(
    listed: Listed,
    result: ToolResult,
    convert: Callable[[Any], ToolResult],
    max_tokens: int,
    link: Callable[[ToolResult], ResourceLink | None],
) -> ToolResult:
    """Return a result with as many whole rows as fit, at least one.

    Args:
        listed: what the handler returned.
        result: `listed`, converted.
        convert: converts other values in the same way.
        max_tokens: that the text of the result may have.
        link: returns a link to the whole result, which is put behind one from which rows were left out; None:
            there is none.
    """
    most = max_tokens * CHARS_PER_TOKEN
    if _count(result) <= most:
        return result
    behind: list[ResourceLink] = []
    room = most
    if len(result.structured[listed.rows]) > 1 and (whole_link := link(result)) is not None:
        size = len(encode(whole_link.to_wire()))
        if size <= most * MAX_LINK_SHARE:
            behind, room = [whole_link], most - size
    excess = _count(result) - room
    whole: JSONObject = result.structured
    rows, name = whole[listed.rows], listed.note
    each = [{key: row} for key, row in rows.items()] if isinstance(rows, dict) else rows
    sizes = [len(encode(row).decode()) + 1 for row in each]
    count = len(rows)
    # The cursor and the note have to fit as well.
    while excess > 0 and count > 1:
        while excess > 0 and count > 1:
            count -= 1
            excess -= sizes[count]
        changed = listed.keep(count)
        changed[name] = " ".join(filter(None, (changed[name], listed.told)))
        first = dict(islice(rows.items(), count)) if isinstance(rows, dict) else rows[:count]
        result = convert({**whole, listed.rows: first, **changed})
        excess = _count(result) - room
    if _count(result) > most and count == 1:
        notes = (result.structured.get(name), f"One row is larger than {max_tokens} tokens.")
        result = convert({**result.structured, name: " ".join(filter(None, notes))})
    return replace(result, content=[*result.content, *behind]) if behind else result


def _count(result: ToolResult) -> int:
    """Return how many characters the text of a result has."""
    (block,) = result.content
    return len(block.text) if isinstance(block, Text) else 0
