"""The public keys of a client, and the signatures that they verify (RFC 7517, RFC 7515)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jwcrypto import jwk, jws
from jwcrypto.common import JWException, base64url_decode

MAX_KEYS = 20
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192

ALGORITHMS: Mapping[str, str] = {"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The algorithms of assertions, and the type of their keys: none without a key, and none with a secret."""

_CURVES = {"EC": "P-256", "OKP": "Ed25519"}

_MEMBERS = ("kty", "n", "e", "crv", "x", "y", "kid", "alg", "use")
"""What is read of a key. Certificates and members of other standards are not."""


class KeysRefused(Exception):
    """A key set that is not used. The text may be shown to anybody."""


def read_keys(data: object) -> list[jwk.JWK]:
    """Return the keys of a key set that can verify an assertion.

    Keys for other purposes are left out.

    Raises:
        KeysRefused: it is no key set, is too long, holds a secret, or has no usable key.
    """
    rows = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise KeysRefused("It is no JSON Web Key Set.")
    if len(rows) > MAX_KEYS:
        raise KeysRefused(f"It has more than {MAX_KEYS} keys.")
    if any("d" in row or "k" in row for row in rows):
        raise KeysRefused("It holds a private or symmetric key.")
    keys = list(_usable(rows))
    if not keys:
        raise KeysRefused("It has no key for " + ", ".join(ALGORITHMS) + ".")
    return keys


def find_keys(keys: list[jwk.JWK], kid: str | None, algorithm: str) -> list[jwk.JWK]:
    """Return the keys that an assertion with this header may be signed by: one at most.

    An assertion without a `kid` is verified only if a single key is possible.
    """
    suiting = [
        key
        for key in keys
        if key.get("kty") == ALGORITHMS[algorithm] and key.get("alg") in (None, algorithm)
    ]
    if kid is not None:
        suiting = [key for key in suiting if key.get("kid") == kid]
    return suiting if len(suiting) == 1 else []


def is_signed_by(key: jwk.JWK, text: str, algorithm: str) -> bool:
    """Return whether a key verifies a compact JWS that was signed with an algorithm."""
    token = jws.JWS()
    token.allowed_algs = [algorithm]
    try:
        token.deserialize(text)
        token.verify(key, alg=algorithm)
    except (JWException, ValueError, TypeError):
        return False
    return True


def _usable(rows: list[dict[str, Any]]) -> Iterator[jwk.JWK]:
    for row in rows:
        known = {name: row[name] for name in _MEMBERS if name in row}
        if not all(isinstance(value, str) for value in known.values()):
            continue
        kty = known.get("kty")
        if known.get("use", "sig") != "sig" or kty not in ALGORITHMS.values():
            continue
        if kty in _CURVES and known.get("crv") != _CURVES[kty]:
            continue
        try:
            if kty == "RSA" and not _has_good_size(known["n"]):
                continue
            yield jwk.JWK(**known)
        except (JWException, KeyError, ValueError):
            continue


def _has_good_size(modulus: str) -> bool:
    bits = int.from_bytes(base64url_decode(modulus), "big").bit_length()
    return MIN_RSA_BITS <= bits <= MAX_RSA_BITS
