"""Lists that end where the result of a tool would become too large for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.protocol.content import Text
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.results import ToolResult
from django_mcp.protocol.tokens import CHARS_PER_TOKEN


class Listed(dict[str, Any]):
    """The result of a tool, an object with rows of which the last ones can be left out.

    Args:
        value: the object with all rows.
        rows: the name of the member that holds the rows.
        keep: returns the members that are different with only so many of the rows, such as the cursor of
            the others. Its note is put in front of the note that the object has.
        note: the name of the member that holds the note.
    """

    __slots__ = ("keep", "note", "rows")

    def __init__(
        self,
        value: Mapping[str, Any],
        rows: str,
        keep: Callable[[int], JSONObject],
        *,
        note: str = "note",
    ) -> None:
        super().__init__(value)
        self.rows = rows
        self.keep = keep
        self.note = note


def fit(
    listed: Listed, result: ToolResult, convert: Callable[[Any], ToolResult], max_tokens: int
) -> ToolResult:
    """Return a result with as many whole rows as fit, at least one.

    Args:
        listed: what the handler returned.
        result: `listed`, converted.
        convert: converts other values in the same way.
        max_tokens: that the text of the result may have.
    """
    most = max_tokens * CHARS_PER_TOKEN
    excess = _count(result) - most
    if excess <= 0:
        return result
    whole: JSONObject = result.structured
    rows, name = whole[listed.rows], listed.note
    sizes = [len(encode(row).decode()) + 1 for row in rows]
    count = len(rows)
    # The cursor and the note have to fit as well.
    while excess > 0 and count > 1:
        while excess > 0 and count > 1:
            count -= 1
            excess -= sizes[count]
        changed = listed.keep(count)
        notes = (changed[name], whole.get(name))
        changed[name] = " ".join(filter(None, notes))
        result = convert({**whole, listed.rows: rows[:count], **changed})
        excess = _count(result) - most
    if excess > 0 and count == 1:
        notes = (result.structured.get(name), f"One row is larger than {max_tokens} tokens.")
        result = convert({**result.structured, name: " ".join(filter(None, notes))})
    return result


def _count(result: ToolResult) -> int:
    """Return how many characters the text of a result has."""
    (block,) = result.content
    return len(block.text) if isinstance(block, Text) else 0
