"""Which views and forms ask for a password, sign in or out, or give out tokens: no tools, unless they are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_ABOUT = frozenset(
    ["jwt", "login", "logout", "otp", "passphrase", "passwd", "password", "passwords", "signin", "signout",
     "token", "tokens"]
)  # fmt: skip
_PAIRS = frozenset([("log", "in"), ("log", "out"), ("sign", "in"), ("sign", "out")])


def find_credential_word(names: Iterable[str]) -> str | None:
    """Return the first name that is about signing in or out, passwords or tokens; None if none is."""
    for name in names:
        words = [word.lower() for word in _WORD.findall(name)]
        if _ABOUT.intersection(words) or _PAIRS.intersection(pairwise(words)):
            return name
    return None
