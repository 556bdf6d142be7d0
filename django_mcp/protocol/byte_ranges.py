"""Parts of long answers: the opaque cursor of a paged list, and the bytes of a text resource.

A cursor names its list and the last entry, so that any process can continue from it. The function
that signs it (signature, encryption) is a parameter.

A range is given by `offset` and `length` in the params, both in bytes. It is not from the
specification, but follows an experiment of other servers. Both ends of a part are moved back to the
start of a character, so that parts of a fixed size of 4 or more make up the whole text. A part that
starts inside a character grows by up to 3 bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject

MAX_CURSOR_CHARS = 4096
"""Longer cursors are rejected unread."""

_SEPARATOR = "\0"


def encode_cursor(kind: str, last: str, sign: Callable[[bytes], str]) -> str:
    """Return the cursor after the entry `last` of the list `kind` (`"tools"`...).

    `last` is its name or URI, and `sign` turns bytes into unforgeable text that `unsign` reads.

    Raises:
        ValueError: the entry's name is so long that the cursor would be rejected.

    Source: 2026-07-28 server/utilities/pagination; the form is ours.
    """
    if _SEPARATOR in kind:
        raise ValueError("The kind of a cursor must not contain NUL")
    cursor = sign(f"{kind}{_SEPARATOR}{last}".encode())
    if len(cursor) > MAX_CURSOR_CHARS:
        raise ValueError(
            f"The cursor after {last[:50]!r}... has {len(cursor)} characters, over the limit of "
            f"{MAX_CURSOR_CHARS}: give that entry a shorter name"
        )
    return cursor


def decode_cursor(cursor: object, kind: str, unsign: Callable[[str], bytes | None]) -> str | None:
    """Return the last entry that a cursor names, or None if it is not a cursor of this list.

    It accepts any JSON value. None (wire: -32602) covers all errors alike: not a string, too long,
    not signed by this site, or issued for another list.
    """
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARS:
        return None
    opened = unsign(cursor)
    if opened is None:
        return None
    try:
        start, separator, last = opened.decode().partition(_SEPARATOR)
    except UnicodeDecodeError:
        return None
    return last if separator and start == kind else None


RANGES_CAPABILITY = "resourceReadChunking"
"""The experimental capability for ranges."""


class ByteRange(Struct, frozen=True):
    """The requested bytes of the text in UTF-8; without a length, all from the offset on."""

    offset: int
    length: int | None

    def cut(self, text: str) -> str:
        """Return the part of a text; empty if it starts at the end or beyond.

        A part that starts at a character contains at least that one, so that a client that reads part
        after part always makes progress.
        """
        whole = text.encode()
        begin = _to_character(whole, self.offset)
        if self.length is None:
            return whole[begin:].decode()
        end = _to_character(whole, self.offset + self.length)
        if end == begin == self.offset:
            end = _to_character(whole, begin + 1, 1)
        return whole[begin:end].decode()


def find_range(params: JSONObject, clamp_bytes: int | None) -> ByteRange | Refusal | None:
    """Return the part that a request asks for, of `clamp_bytes` at most; None: the whole."""
    if "offset" not in params and "length" not in params:
        return None
    offset, length = params.get("offset", 0), params.get("length")
    if type(offset) is not int or offset < 0:
        return invalid_params("offset must be a number of bytes, 0 or more")
    if "length" in params and (type(length) is not int or length < 1):
        return invalid_params("length must be a number of bytes, 1 or more")
    if clamp_bytes is not None:
        length = clamp_bytes if length is None else min(length, clamp_bytes)
    return ByteRange(offset, length)


def _to_character(whole: bytes, position: int, step: int = -1) -> int:
    """Return where a character starts: here, before (-1) or after (+1), or at the end."""
    while 0 < position < len(whole) and whole[position] & 0xC0 == 0x80:
        position += step
    return min(position, len(whole))
