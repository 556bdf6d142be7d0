"""Write and read the opaque cursor of a paged list.

A cursor names its list and the last entry, so that any process can continue from it. The function
that seals it (signature, encryption) is a parameter.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_CURSOR_CHARS = 4096
"""Longer cursors are rejected unread. Our own limit."""

_SEPARATOR = "\0"


def encode(kind: str, last: str, seal: Callable[[bytes], str]) -> str:
    """Return the cursor after the entry `last` of the list `kind` (`"tools"`...).

    `last` is its name or URI, and `seal` turns bytes into unforgeable text that `unseal` reads.

    Raises:
        ValueError: the entry's name is so long that the cursor would be rejected.

    Source: 2026-07-28 server/utilities/pagination; the form is our own.
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
    """Return the last entry that a cursor names, or None if it is not a cursor of this list.

    It accepts any JSON value. None (wire: -32602) covers all errors alike: not a string, too long,
    not sealed by this site, or issued for another list.
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
