"""The check of the database for disabled entries that nobody registers any more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, router, transaction

from django_mcp.models import DisabledEntry
from django_mcp.servers import all_servers

MAX_SHOWN = 20
"""Entries that are reported one by one."""

_HINT = (
    "If it has another name now, disable it under that one, in the catalogue of the admin. Enable this one there, or "
    "delete its DisabledEntry if the server is gone."
)


def check_disabled(databases: Sequence[str] | None = None, **_options: Any) -> list[CheckMessage]:
    """W024: A disabled entry matches no entry any more, so what it was meant for may be enabled under another name."""
    alias = router.db_for_read(DisabledEntry)
    if alias not in (databases or ()):
        return []
    rows: list[tuple[str, str, str]] = []
    with suppress(DatabaseError), transaction.atomic(using=alias):  # before its table is made
        entries = DisabledEntry.objects.using(alias).order_by("server", "kind", "key")
        rows = list(entries.values_list("server", "kind", "key"))
    messages: list[CheckMessage] = []
    with suppress(ImproperlyConfigured):  # E001 reports a setting that cannot be read
        known = {
            (server.name, kind, key)
            for server in (all_servers() if rows else ())
            for kind, registered in server.registry.registered.items()
            for key in registered
        }
        gone = [row for row in rows if row not in known]
        for server_name, kind, key in gone[:MAX_SHOWN]:
            message = f"The disabled entry {key!r} of {kind} on the server {server_name!r} matches no entry."
            messages.append(checks.Warning(message, hint=_HINT, id="django_mcp.W024"))
        if len(gone) > MAX_SHOWN:
            message = f"{len(gone) - MAX_SHOWN} further disabled entries match no entry."
            messages.append(checks.Warning(message, hint=_HINT, id="django_mcp.W024"))
    return messages
