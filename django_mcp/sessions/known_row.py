"""Known: a process's copy of the parts of a session's row that are not on the session itself."""

from __future__ import annotations

from typing import Any

from django_mcp.sessions.writer import note_seen

__all__ = ["Known"]

NOTE_EVERY_S = 60.0
"""How often the use of a session is written. Our own limit."""


class Known:
    """What the store knows of a session; times in seconds since the epoch."""

    __slots__ = (
        "cached_bytes",
        "digest",
        "expires_s",
        "mark",
        "noted_s",
        "read_s",
        "seen_s",
        "user_id",
    )

    def __init__(self, digest: str, user_id: Any) -> None:
        self.digest = digest
        self.user_id = user_id
        self.read_s = self.seen_s = self.noted_s = self.expires_s = 0.0
        self.cached_bytes = 0
        """The size that the cache counts for this session."""
        self.mark: tuple[Any, ...] | None = None
        """Changes when the stored subscriptions change."""

    def is_over(self, now_s: float, idle_s: float) -> bool:
        """Return whether it has expired, or has not been used for longer than `idle_s`."""
        return now_s >= self.expires_s or now_s - self.seen_s > idle_s

    def note_use(self, key: str, now_s: float, idle_s: float) -> None:
        """Note that the session of this key is in use, and have it written from time to time."""
        self.seen_s = now_s
        unnoted_s = now_s - self.noted_s
        if unnoted_s >= NOTE_EVERY_S or unnoted_s >= idle_s / 4:
            self.noted_s = now_s
            note_seen(key, now_s)
