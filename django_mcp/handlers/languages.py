"""The language in which lazy texts are read now."""

from __future__ import annotations

from django.utils.translation import get_language

__all__ = ["ActiveLanguage"]


class ActiveLanguage:
    """Django's active language: of this task, or of the thread a handler runs in."""

    def current(self) -> str | None:
        """See `Language.current`."""
        return get_language()
