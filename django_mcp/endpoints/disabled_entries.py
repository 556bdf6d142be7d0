"""Apply the disabled entries in the database to the registries of this process.

The process in which the admin changed something applies it at once, the others within two seconds:
each process that serves requests has a thread that polls the table. There is no thread if no other
process can write to the table (in memory), or with `SYNC_THREADS` 0.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

from django.apps import apps
from django.db import connections, router, transaction
from django.db.models.signals import post_delete, post_save
from django.utils.connection import ConnectionDoesNotExist

from django_mcp.conf import settings
from django_mcp.execution.db_connections import (
    avoid_pools,
    is_shared_database,
    run_with_connections,
)
from django_mcp.execution.outages import Warner
from django_mcp.models.catalogue import DisabledEntry
from django_mcp.process import PerProcess
from django_mcp.registry.registry import EntryKey
from django_mcp.servers import all_servers

REREAD_S = 2.0
FIRST_READ_LIMIT_S = 1.0
"""How long the first request of a process waits for the disabled entries."""


def refresh() -> None:
    """Read the disabled entries and apply them to the servers of this process."""
    disabled: defaultdict[str, set[EntryKey]] = defaultdict(set)
    for server, kind, key in DisabledEntry.objects.values_list("server", "kind", "key"):
        disabled[server].add((kind, key))
    for registered_server in all_servers():
        registered_server.registry.set_disabled(frozenset(disabled[registered_server.name]))


def _start() -> threading.Event:
    """Start the thread that polls the table, and return the event of its first read."""
    has_read = threading.Event()
    threading.Thread(
        target=_poll, args=(has_read,), name="django-mcp-disabling", daemon=True
    ).start()
    return has_read


def _poll(has_read: threading.Event) -> None:
    avoid_pools()
    trouble, was_read = Warner(), False
    database = _database_name()
    # At the end of a test run, the name of the test database is replaced by that of the site's own. A test may
    # also send the table to a database of its own, which is gone afterwards.
    while _database_name() == database:
        try:
            run_with_connections(refresh)
        except Exception as error:  # noqa: BLE001 - the top of this thread's loop
            # After a success, one failure mends itself, and while a test database is dropped there is one.
            if not was_read:
                trouble.warn("Cannot read which entries are disabled: %r", error)
            was_read = False
        else:
            was_read = True
        has_read.set()
        time.sleep(REREAD_S)


def _database_name() -> object:
    """Return the name of the database that has the table; None, if there is no such database."""
    try:
        return connections[router.db_for_write(DisabledEntry)].settings_dict["NAME"]
    except ConnectionDoesNotExist:
        return None


_first_read = PerProcess(_start)


def watch() -> None:
    """Follow the table in this process from now on. The first call waits for the first read."""
    if _first_read.current is None:
        # Entries are disabled in the admin.
        is_followed = bool(settings.SYNC_THREADS) and apps.is_installed("django.contrib.admin")
        if not (is_followed and is_shared_database(router.db_for_write(DisabledEntry))):
            return
    _first_read.get().wait(FIRST_READ_LIMIT_S)


def _follow(*, using: str, **_kwargs: Any) -> None:
    transaction.on_commit(refresh, using=using)


for _signal in (post_save, post_delete):
    _signal.connect(_follow, sender=DisabledEntry, dispatch_uid=__name__)
