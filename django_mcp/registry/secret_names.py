"""Tell by its name that something holds a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SENSITIVE = re.compile(
    r"(^|_)(password|passwd|passphrase|passcode|pwd|pin|t?otp|secret|token|salt|hash|credential|ssn"
    r"|iban|cvv|cvc|card_number|(api|private|access|session|encryption|signing)_?key"
    r"|(recovery|backup)_?code)s?[0-9]*(_|$)|(^|_)pass[0-9]*$",
    re.IGNORECASE,
)


_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Between the words of a name such as `apiToken`."""


def split_words(name: str) -> str:
    """Return a name with an underscore between its words, such as `api_Token` for `apiToken`."""
    return _WORDS.sub("_", name)


def find_sensitive(text: str, allowed: Sequence[str]) -> str | None:
    """Return the part of a path whose name says that it is secret, unless the path is allowed."""
    if text in allowed:
        return None
    parts = text.split("__")
    return next((part for part in parts if _SENSITIVE.search(split_words(part))), None)
