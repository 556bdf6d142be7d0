"""What commands write to a terminal: safe texts, content blocks, a progress bar."""

from __future__ import annotations

import shutil
from typing import Any

from django_mcp.protocol.json import JSONObject

BAR_CHARS = 30


def printable(text: str) -> str:
    """Return a text without control characters that could affect a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)


def to_text(block: JSONObject) -> str:
    """Return a block's text, or a description of it."""
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource_link":
            return f"[{block.get('name', '')}: {block.get('uri', '')}]"
        case "resource":
            inner = block["resource"]
            return str(inner["text"]) if "text" in inner else _binary("resource", inner, "blob")
    return _binary(str(block.get("type")), block, "data")


def size_of(encoded: str) -> int:
    """Return the number of bytes in a Base64 text."""
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")


def _binary(kind: str, block: JSONObject, key: str) -> str:
    return f"[{kind}, {block.get('mimeType', 'unknown type')}, {size_of(block.get(key, ''))} bytes]"


class ProgressBar:
    """Shows progress in one line of a stream, and removes it at the end.

    Attributes:
        is_shown: the stream is a terminal.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.is_shown = bool(getattr(stream, "isatty", bool)())
        self._has_written = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._has_written:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        """Show the progress."""
        line = render(progress, total, message)
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()
        self._has_written = True


def render(progress: float, total: float | None, message: str | None) -> str:
    """Return a line for a state of progress."""
    text = "".join(char if char.isprintable() else " " for char in message or "")
    if not total or total <= 0:
        return f"{progress:g} {text}".rstrip()
    share = min(max(progress / total, 0), 1)
    done = round(share * BAR_CHARS)
    bar = "#" * done + "." * (BAR_CHARS - done)
    return f"[{bar}] {share:4.0%} {text}".rstrip()
