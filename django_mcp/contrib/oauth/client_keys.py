"""The stored keys of clients: kept with their metadata, and read again when they may have changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from jwcrypto import jwk
from oauth2_provider.cimd import CIMDError

from django_mcp.contrib.oauth.client_metadata import Keys
from django_mcp.contrib.oauth.fetcher import fetch_json
from django_mcp.contrib.oauth.key_sets import KeysRefused, find_keys, read_keys
from django_mcp.contrib.oauth.models import ClientKeys
from django_mcp.execution.outages import Warner
from django_mcp.protocol.json import decode, encode

ASK_EVERY = timedelta(minutes=1)
"""How often one `jwks_uri` is asked at most, by all processes together."""

STALE_FOR = timedelta(days=1)
"""How long keys are used after they should have been read again, while that fails."""

_unreadable = Warner()


def save_keys(application: Any, keys: Keys | None) -> None:
    """Store the keys of a client, in place of those that it had."""
    rows = ClientKeys.objects.filter(application=application)
    if keys is None:
        rows.delete()
        return
    row = rows.first() or ClientKeys(application=application)
    if row.jwks_uri != keys.uri or not keys.uri:
        row.jwks, row.expires, row.tried = keys.jwks, None, None
    row.jwks_uri, row.algorithm = keys.uri, keys.algorithm
    row.save()


def find_verifying_keys(row: ClientKeys, kid: str | None, algorithm: str) -> list[jwk.JWK]:
    """Return the key of a client that an assertion with this header may be signed by, if there is one.

    The client's key set is read again if it is due, or does not have the key.
    """
    if row.jwks_uri and (row.expires is None or row.expires <= timezone.now()):
        _refresh(row)
    keys = find_keys(_known_keys(row), kid, algorithm)
    if not keys and row.jwks_uri and _refresh(row):
        keys = find_keys(_known_keys(row), kid, algorithm)
    return keys


def _known_keys(row: ClientKeys) -> list[jwk.JWK]:
    if not row.jwks:
        return []
    if row.expires is not None and row.expires + STALE_FOR <= timezone.now():
        return []
    try:
        return read_keys(decode(row.jwks))
    except KeysRefused:
        return []


def _refresh(row: ClientKeys) -> bool:
    """Read the key set again, unless a process did so a moment ago. Return whether it was read."""
    now = timezone.now()
    due = Q(tried=None) | Q(tried__lte=now - ASK_EVERY)
    # One process wins the update and asks. The others use what is known.
    if not ClientKeys.objects.filter(due, pk=row.pk).update(tried=now):
        row.refresh_from_db()
        return False
    try:
        data, lifetime_s = fetch_json(row.jwks_uri)
        read_keys(data)
    except (CIMDError, KeysRefused) as error:
        _unreadable.warn(
            "The keys of an OAuth client cannot be read: %s", f"{row.jwks_uri!r}: {error}"
        )
        return False
    row.jwks = encode({"keys": data["keys"]}).decode()
    row.expires = timezone.now() + timedelta(seconds=lifetime_s)
    row.save(update_fields=["jwks", "expires"])
    return True
