"""Which tables and columns of the package the databases lack.

`manage.py migrate` may report that there is nothing to do and still leave some missing: if the database was
made by migrations that were written differently then.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection

from django.apps import apps
from django.db import Error, connections, router
from django.db.models import Model

from django_mcp.conf import settings
from django_mcp.execution.outages import Unmigrated, Warner
from django_mcp.known_servers import known_servers
from django_mcp.process import reset_on

LABELS = ("django_mcp", "django_mcp_oauth")
"""The apps of the package that have tables."""

_is_complete = threading.Event()
reset_on(_is_complete.clear, settings=("DATABASES", "DATABASE_ROUTERS", "DJANGO_MCP"))
_trouble = Warner()


def is_migrated() -> bool:
    """Return whether nothing is missing that this site uses, and log what is.

    In a thread with connections; raises errors of the database. Once nothing is missing, a process does
    not look again.
    """
    if not _is_complete.is_set():
        missing = find_missing()
        if missing:
            _trouble.warn(f"{Unmigrated.message} (missing: %s)", ", ".join(missing))
            return False
        _is_complete.set()
    return True


def find_database_fault() -> str:
    """Return what keeps the databases from serving, as a sentence; empty: nothing does. In a thread with connections."""
    for connection in connections.all():
        if connection.settings_dict["ENGINE"] == "django.db.backends.dummy":
            continue
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1" + connection.features.bare_select_suffix)
        except Error as error:
            return f"The database {connection.alias!r} does not answer ({type(error).__name__})"
    try:
        return "" if is_migrated() else Unmigrated.message
    except Error as error:
        return f"A database does not answer ({type(error).__name__})"


def find_missing(databases: Collection[str] | None = None) -> list[str]:
    """Return the names of missing tables, and those of missing columns as `table.column`.

    Only `databases` are asked, by their aliases; None: all that have tables of the package.
    A site that keeps sessions and tasks in memory and records no calls misses only what its authenticators
    read.
    """
    stores = (settings.SESSION_STORE, settings.TASK_STORE)
    used = LABELS if "model" in stores or settings.RECORD_CALLS else _find_read_models()
    models: defaultdict[str, list[type[Model]]] = defaultdict(list)
    for model in apps.get_models():
        options = model._meta
        if options.app_label in LABELS and {options.app_label, options.label} & set(used):
            models[router.db_for_write(model)].append(model)
    return [
        name
        for alias in (models if databases is None else models.keys() & set(databases))
        for name in _find_missing_in(alias, models[alias])
    ]


def _find_read_models() -> Collection[str]:
    """Return the labels of models and apps that the authenticators of the servers read."""
    authentications = [getattr(server.engine, "authentication", None) for server in known_servers()]
    return {
        label
        for authentication in authentications
        if authentication is not None
        for authenticator in authentication.authenticators
        for label in authenticator.reads_models
    }


def _find_missing_in(alias: str, models: list[type[Model]]) -> list[str]:
    inspect = connections[alias].introspection
    missing = []
    with connections[alias].cursor() as cursor:
        tables = set(inspect.table_names(cursor))
        for model in models:
            table = model._meta.db_table
            if table not in tables:
                missing.append(table)
                continue
            there = {column.name for column in inspect.get_table_description(cursor, table)}
            wanted = [str(field.column) for field in model._meta.local_concrete_fields]
            missing += [f"{table}.{column}" for column in wanted if column not in there]
    return missing
