"""Write and read the opaque cursor of a paged list.

A cursor says which list it belongs to and which entry came last, so any process can go on from
it; sealing (signature, encryption) is injected, and what follows the last entry is for the list.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MAX_CURSOR_CHARS", "decode", "encode"]

MAX_CURSOR_CHARS = 4096
"""Longer cursors are refused unread; ours."""

_SEPARATOR = "\0"


def encode(kind: str, last: str, seal: Callable[[bytes], str]) -> str:
    """Return the cursor after the entry `last` of the list `kind` (`"tools"`...).

    Args:
        kind: the list; no NUL in it.
        last: the name or URI of the last entry on the page.
        seal: turns bytes into text that `unseal` turns back, and that nobody else can write.

    Raises:
        ValueError: the entry's name is so long that the cursor would not be accepted back.

    Source: 2026-07-28 server/utilities/pagination; the form is ours.
    """
    if _SEPARATOR in kind:
        raise ValueError("The kind of a cursor must not contain NUL")
    cursor = seal(f"{kind}{_SEPARATOR}{last}".encode())
    if len(cursor) > MAX_CURSOR_CHARS:
        raise ValueError(
            f"The cursor after {last[:50]!r}... has {len(cursor)} characters, over the limit of "
            f"{MAX_CURSOR_CHARS}: give that entry a shorter name"
        )
    return cursor


def decode(cursor: object, kind: str, unseal: Callable[[str], bytes | None]) -> str | None:
    """Return the last entry a cursor names, or None when it is not a cursor of this list.

    Total over any JSON value. None (wire: -32602) covers every fault alike: not a string, too
    long, not sealed by us, or issued for another list.
    """
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARS:
        return None
    opened = unseal(cursor)
    if opened is None:
        return None
    try:
        found, separator, last = opened.decode().partition(_SEPARATOR)
    except UnicodeDecodeError:
        return None
    return last if separator and found == kind else None
