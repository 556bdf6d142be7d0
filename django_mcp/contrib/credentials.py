"""Which views and forms ask for a password, sign in or out, or give out tokens: no tools, unless they are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS = frozenset(
    ["passcode", "passcodes", "passphrase", "passwd", "password", "passwords", "pw", "pwd"]
)
_ABOUT = _PASSWORDS | frozenset(
    ["apikey", "apikeys", "authenticate", "credential", "credentials", "hijack", "impersonate", "impersonation", "jwt",
     "login", "logout", "mfa", "otp", "passkey", "passkeys", "signin", "signout", "sudo", "token", "tokens", "totp",
     "webauthn"]
)  # fmt: skip
_PAIRS = frozenset(
    [("log", "in"), ("log", "out"), ("sign", "in"), ("sign", "out"),
     ("access", "key"), ("access", "keys"), ("api", "key"), ("api", "keys"), ("private", "key"), ("secret", "key"),
     ("client", "secret"), ("pass", "key"), ("web", "authn"), ("2", "fa"), ("two", "factor"), ("magic", "link"),
     ("backup", "code"), ("backup", "codes"), ("recovery", "code"), ("recovery", "codes"), ("time", "code")]
)  # fmt: skip


def find_credential_word(names: Iterable[str]) -> str | None:
    """Return the first name that is about signing in or out, passwords, keys or tokens; None if none is."""
    for name in names:
        words = _split(name)
        if _ABOUT.intersection(words) or _PAIRS.intersection(pairwise(words)):
            return name
        # Many write it without an end between the words.
        if "password" in name.lower():
            return name
    return None


def find_passwords(names: Iterable[str]) -> list[str]:
    """Return what is said of those names of fields that are names of passwords."""
    return [f"the password {name}" for name in names if _is_password(name)]


def _is_password(name: str) -> bool:
    words = _split(name)
    is_short = words == ["pass"] or words[-2:] == ["user", "pass"]
    return is_short or bool(_PASSWORDS.intersection(words)) or "password" in name.lower()


def _split(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
