"""Apply the disabled entries in the database to the registries of this process.

The process in which the admin changed something applies it at once, the others within two seconds:
each process that serves requests has a thread that polls the table. There is no thread if no other
process can write to the table (in memory), or with `SYNC_THREADS` 0.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.models.signals import post_delete, post_save

from django_mcp.conf import settings
from django_mcp.handlers.db_connections import run_with_connections
from django_mcp.models.catalogue import DisabledEntry
from django_mcp.registry.registry import EntryKey
from django_mcp.servers import all_servers

__all__ = ["refresh", "watch"]

logger = logging.getLogger("django_mcp")

REREAD_S = 2.0
FIRST_READ_LIMIT_S = 1.0
"""How long the first request of a process waits for the disabled entries."""


def refresh() -> None:
    """Read the disabled entries and apply them to the servers of this process."""
    found: defaultdict[str, set[EntryKey]] = defaultdict(set)
    for server, kind, key in DisabledEntry.objects.values_list("server", "kind", "key"):
        found[server].add((kind, key))
    for each in all_servers():
        each.registry.set_disabled(frozenset(found[each.public_name]))


class _Watch:
    """The thread that polls the table."""

    def __init__(self) -> None:
        self.has_read = threading.Event()
        self._has_complained = False

    def start(self) -> None:
        threading.Thread(target=self._work, name="django-mcp-disabling", daemon=True).start()

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            try:
                run_with_connections(refresh)
                self._has_complained = False
            except Exception:
                if not self._has_complained:
                    self._has_complained = True
                    logger.warning("Cannot read which entries are disabled", exc_info=True)
            self.has_read.set()
            pause.wait(REREAD_S)


_watch: _Watch | None = None
_starting = threading.Lock()


def watch() -> None:
    """Follow the table in this process from now on. The first call waits for the first read."""
    global _watch
    with _starting:
        if _watch is None and _is_shared():
            _watch = _Watch()
            _watch.start()
    if _watch is not None:
        _watch.has_read.wait(FIRST_READ_LIMIT_S)


def _is_shared() -> bool:
    # Entries are disabled in the admin.
    if not settings.SYNC_THREADS or not apps.is_installed("django.contrib.admin"):
        return False
    connection: Any = connections[router.db_for_read(DisabledEntry) or DEFAULT_DB_ALIAS]
    if connection.vendor == "unknown":
        return False  # the site has no database
    return not (connection.vendor == "sqlite" and connection.is_in_memory_db())


def _follow(*, using: str, **_kwargs: Any) -> None:
    transaction.on_commit(refresh, using=using)


def _forget_watch() -> None:
    # Its thread stayed in the parent process.
    global _watch, _starting
    _watch, _starting = None, threading.Lock()


post_save.connect(
    _follow, sender=DisabledEntry, dispatch_uid="django_mcp.endpoints.disabled_entries.saved"
)
post_delete.connect(
    _follow, sender=DisabledEntry, dispatch_uid="django_mcp.endpoints.disabled_entries.deleted"
)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_watch)
