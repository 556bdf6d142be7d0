"""A part of a text resource, given by `offset` and `length` in the params, both in bytes.

This is not from the specification, but follows an experiment of other servers. Both ends of a part
are moved back to the start of a character, so that parts of a fixed size of 4 or more make up the
whole text. A part that starts inside a character grows by up to 3 bytes.
"""

from __future__ import annotations

from msgspec import Struct

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject

CAPABILITY = "resourceReadChunking"
"""The experimental capability for it."""


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
        begin = _back_to_character(whole, self.offset)
        if self.length is None:
            return whole[begin:].decode()
        end = _back_to_character(whole, self.offset + self.length)
        if end == begin == self.offset:
            end = _next_character(whole, begin)
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


def _back_to_character(whole: bytes, position: int) -> int:
    position = min(position, len(whole))
    while 0 < position < len(whole) and whole[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _next_character(whole: bytes, position: int) -> int:
    position = min(position + 1, len(whole))
    while position < len(whole) and whole[position] & 0xC0 == 0x80:
        position += 1
    return position
