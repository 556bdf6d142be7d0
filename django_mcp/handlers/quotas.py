"""Quota keys as the database stores them: digests, so that no row holds a client's address."""

from __future__ import annotations

from django.utils.crypto import salted_hmac

from django_mcp.server.exchange.quotas import is_anonymous_quota

__all__ = ["ANONYMOUS", "digest_of_quota"]

ANONYMOUS = "a:"
"""How the digests of anonymous callers begin."""


def digest_of_quota(quota_key: str) -> str:
    """Return a keyed digest of at most 64 characters."""
    digest = salted_hmac("django_mcp.quotas", quota_key, algorithm="sha256").hexdigest()[:40]
    return f"{ANONYMOUS if is_anonymous_quota(quota_key) else 'p:'}{digest}"
