"""A progress bar for the terminal."""

from __future__ import annotations

import shutil
from types import TracebackType
from typing import Any

__all__ = ["ProgressBar"]

BAR_CHARS = 30


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
