"""Which views and forms ask for a password, sign in or out, or give out tokens: no tools, unless they are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise, product

_WORD = re.compile(r"OAuth|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS = frozenset(
    ["otp", "passcode", "passcodes", "passphrase", "passwd", "password", "passwords", "pw", "pwd", "totp"]
)  # fmt: skip

_ABOUT = _PASSWORDS | frozenset(
    ["apikey", "apikeys", "auth", "authenticate", "authentication", "credential", "credentials", "hijack",
     "impersonate", "impersonation", "jwt", "login", "logout", "masquerade", "mfa", "oauth", "oidc", "openid",
     "passkey", "passkeys", "saml", "signin", "signout", "sso", "sudo", "token", "tokens", "webauthn"]
)  # fmt: skip
"""Words that say it alone, unless the word beside them says something else (`_HARMLESS`)."""

_KEYS = ("key", "keys")
_TOKENS = ("token", "tokens")
_SESSIONS = ("session", "sessions")
_ACTS = (
    "change", "forgot", "issue", "regenerate", "renew", "reset", "revoke", "rotate", "rotation", "set", "verify",
)  # fmt: skip

_PAIRS = frozenset(
    [("log", "in"), ("log", "out"), ("sign", "in"), ("sign", "out"), ("open", "id"), ("obtain", "pair"),
     ("pass", "key"), ("user", "pass"), ("web", "authn"), ("2", "fa"), ("two", "factor"), ("magic", "link"),
     ("backup", "code"), ("backup", "codes"), ("recovery", "code"), ("recovery", "codes"), ("time", "code"),
     ("switch", "user"), ("become", "user"), ("act", "as"),
     *product(("access", "api", "deploy", "encryption", "gpg", "hmac", "master", "pgp", "private", "secret",
               "signing", "ssh"), _KEYS),
     *product(("active", "invalidate", "login", "revoke", "terminate", "user"), _SESSIONS),
     *product(_ACTS, (*_KEYS, "pass", "pat", "pats", "pin")),
     *product((*_KEYS, "pass", "pat", "pats", "pin"), _ACTS),
     *product(("create", "new"), ("pat", "pats"))]
)  # fmt: skip

_HARMLESS = frozenset(
    [*product(("auth", "authentication", "login"), ("required", "mixin")),
     # Those of language models, of pages, of designs and of chains of blocks.
     *product(("cached", "completion", "continuation", "count", "design", "estimate", "input", "max", "min", "next",
               "num", "output", "page", "per", "prompt", "remaining", "special", "stop", "total"), _TOKENS),
     *product(_TOKENS, ("balance", "balances", "budget", "classification", "classifier", "cost", "costs", "count",
                        "counter", "counts", "embedding", "embeddings", "estimate", "holder", "holders", "length",
                        "limit", "limits", "per", "price", "prices", "pricing", "size", "statistics", "stats",
                        "stream", "supply", "swap", "swaps", "usage"))]
)  # fmt: skip

_ENDS = frozenset(
    ["admin", "api", "controller", "create", "delete", "destroy", "detail", "form", "in", "list", "model", "out",
     "retrieve", "schema", "serializer", "set", "update", "view", *_ACTS]
)  # fmt: skip
"""What follows in a name on that which it is about."""


def find_credential_word(names: Iterable[str]) -> str | None:
    """Return the first name that is about signing in or out, passwords, keys or tokens; None if none is."""
    return next((name for name in names if _is_about_credentials(name)), None)


def _is_about_credentials(name: str) -> bool:
    # Many write it without an end between the words.
    if "password" in name.lower():
        return True
    words = _split(name)
    pairs = list(pairwise(words))
    if not _PAIRS.isdisjoint(pairs):
        return True
    harmless = {word for pair in pairs if pair in _HARMLESS for word in pair}
    if not (_ABOUT - harmless).isdisjoint(words):
        return True
    while len(words) > 1 and words[-1] in _ENDS:
        words.pop()
    # A webhook's secret is one, and a secret menu is a menu; a training's session is none of a user.
    return words[-1:] in (["secret"], ["secrets"]) or words in (["session"], ["pat"], ["pats"])


def find_passwords(names: Iterable[str]) -> list[str]:
    """Return what is said of those names of fields that are names of passwords."""
    return [f"the password {name}" for name in names if _is_password(name)]


def _is_password(name: str) -> bool:
    words = _split(name)
    is_short = words == ["pass"] or words[-2:] == ["user", "pass"]
    return is_short or bool(_PASSWORDS.intersection(words)) or "password" in name.lower()


def _split(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
