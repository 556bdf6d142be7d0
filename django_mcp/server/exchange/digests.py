"""Secret ids, and the hashes by which long or secret texts are found."""

from __future__ import annotations

import hashlib
import secrets


def new_token() -> str:
    """Return a secret id with 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_of(text: str) -> str:
    """Return the hash of a long or secret text, such as a URI or a token, which is its key in a table."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
