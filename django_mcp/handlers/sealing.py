"""Seals on what travels through a client and back, good on every worker of the site."""

from __future__ import annotations

import base64
import binascii

from django.core.signing import BadSignature, Signer

__all__ = ["SiteSealer"]


class SiteSealer:
    """Sign with the site's `SECRET_KEY`; what an older key of `SECRET_KEY_FALLBACKS` signed holds."""

    def __init__(self, salt: str = "django_mcp") -> None:
        self._salt = salt

    def seal(self, value: bytes) -> str:
        """See `Sealer.seal`."""
        return self._signer().sign(base64.urlsafe_b64encode(value).decode().rstrip("="))

    def unseal(self, text: str) -> bytes | None:
        """See `Sealer.unseal`."""
        try:
            encoded = self._signer().unsign(text)
            return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        except (BadSignature, binascii.Error, ValueError):
            return None

    def _signer(self) -> Signer:
        # Made anew each time: it copies the keys, which tests change.
        return Signer(salt=self._salt)
