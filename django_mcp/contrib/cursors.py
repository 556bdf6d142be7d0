"""Cursors of generated lists: signed positions, each good for one search of one user."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core import signing

from django_mcp import ArgumentErrors
from django_mcp.protocol.json import JSONObject, decode, encode, encode_sorted, to_pointer
from django_mcp.registry.problems import Problem

MAX_CURSOR_CHARS = 4096
"""Longer cursors are rejected unread."""

NOTE_SCHEMA: JSONObject = {
    "type": "string",
    "description": "What is missing from this result, and how to get it.",
}

_SALT = "django_mcp.contrib.models.cursor"


class _CursorSerializer:
    """Writes what a cursor holds as JSON in UTF-8, which is shorter than Django's."""

    def dumps(self, value: Any) -> bytes:
        return encode(value)

    def loads(self, data: bytes) -> Any:
        return decode(data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a page begins.

    A client can read it in its cursor, so the values are those of a row that the user was shown.

    Attributes:
        values: of the row that the page begins after, in the order of the keys; None: the first page.
        skipped: how many rows behind that one were read before and are not read again.
    """

    values: list[str | None] | None = None
    skipped: int = 0

    def write(self, search: str) -> str:
        """Return the cursor.

        Args:
            search: the fingerprint of the search that it is good for.

        Raises:
            ArgumentErrors: the values are too long for a cursor.
        """
        held = [search, self.values, self.skipped]
        cursor = signing.dumps(held, salt=_SALT, serializer=_CursorSerializer)
        if len(cursor) > MAX_CURSOR_CHARS:
            text = "has values that are too long for a cursor. Order otherwise."
            raise ArgumentErrors([Problem("/ordering", text)])
        return cursor

    @classmethod
    def read(cls, cursor: str, search: str, argument: str = "cursor") -> Position:
        """Return the position of a cursor.

        Args:
            cursor: that the client sent.
            search: the fingerprint of the search.
            argument: the name of the argument that holds the cursor.

        Raises:
            ArgumentErrors: it was not made by this site for this search.
        """
        try:
            held = signing.loads(cursor, salt=_SALT, serializer=_CursorSerializer)
        except signing.BadSignature:
            held = [None]
        if held[0] != search:
            text = "is not a cursor of this search. Leave it out to start again."
            raise ArgumentErrors([Problem(to_pointer([argument]), text)])
        return cls(values=held[1], skipped=held[2])


def cursor_schema(order: str) -> JSONObject:
    """Return the schema of the argument that holds a cursor.

    Args:
        order: what the rows are ordered by, such as `-placed_at, id`; "": it is not known.
    """
    told = f"Order: {order}" if order else "The order is that of the source."
    return {
        "type": "string",
        "maxLength": MAX_CURSOR_CHARS,
        "description": told,
    }


def fingerprint(user: Any, search: Any) -> str:
    """Return a text that differs for other users and other searches."""
    return hashlib.sha256(encode_sorted([str(user.pk), search])).hexdigest()[:20]


def note_cut(kept: int, count: int, *, cursor: str | None, member: str = "next_cursor") -> str:
    """Return the note of a result from which rows were left out since it was too large.

    Args:
        kept: rows that are in the result.
        count: rows that it had.
        cursor: the argument that gets the others; None: there is none.
        member: of the result, that has the cursor.
    """
    cut = f"The first {kept} of {count} rows; more would make the result too large."
    if cursor is None:
        return f"{cut} Narrow the arguments to get the others."
    return f"{cut} For the next ones, call again with {cursor} = {member} and the same other arguments."


def explain_search(
    fields: Iterable[str], skipped: Iterable[str] = (), *, is_empty: bool = True
) -> str:
    """Return where a search has looked, as far as its result does not show that; "" if it does.

    Args:
        fields: that the search looks in.
        skipped: those of them that it has left out for this user.
        is_empty: whether it found nothing.
    """
    names = ", ".join(skipped)
    notes = [f"You may not search in {names}, so it was left out."] if names else []
    if is_empty:
        notes.append(
            f"Nothing found. The search looks in {', '.join(fields)}, and all words must match."
        )
    return " ".join(notes)
