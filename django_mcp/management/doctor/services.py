"""What the site itself needs to serve: its databases, and the channel layer that its processes notify each other by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.db.migrations.executor import MigrationExecutor

from django_mcp.management.doctor.examination import Finding, bad, good, note
from django_mcp.push.layers import describe_layer
from django_mcp.push.process_hub import choose_bus


def examine_databases() -> Iterator[Finding]:
    """Yield whether each database answers."""
    for connection in connections.all():
        settings = connection.settings_dict
        if settings["ENGINE"] == "django.db.backends.dummy":
            continue
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1" + connection.features.bare_select_suffix)
        except (Error, ImproperlyConfigured) as error:
            place = ":".join(str(settings[key]) for key in ("HOST", "PORT") if settings.get(key))
            at = f" at {place}" if place else ""
            yield bad(
                f"The database {connection.alias!r}{at} does not answer: {_first_line(error)}",
                f"Start it, or correct DATABASES[{connection.alias!r}]. Until then, calls that need it fail.",
            )
            continue
        yield good(f"The database {connection.alias!r} answers")
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if plan:
            names = [f"{migration.app_label}.{migration.name}" for migration, _backwards in plan]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield note(
                f"Migrations are not applied to {connection.alias!r}: {', '.join(names[:3])}{more}",
                "Run manage.py migrate.",
            )


def examine_layer() -> Iterator[Finding]:
    """Yield whether the channel layer carries messages, where the processes notify each other by it."""
    if choose_bus() != "layer":
        return
    from django_mcp.push.layer_bus import try_layer

    name = describe_layer()
    try:
        asyncio.run(try_layer())
    except Exception as error:  # noqa: BLE001 - any error of the layer
        yield bad(
            f"The channel layer of CHANNEL_LAYERS, {name}, carries no messages: {_first_line(error)}",
            "Start Redis, or correct CHANNEL_LAYERS. Until then, notifications between processes are late or lost.",
        )
    else:
        yield good(f"The channel layer {name} carries messages")


def _first_line(error: Exception) -> str:
    if isinstance(error, ValueError):
        # Of an address, parts of which may be a password.
        return type(error).__name__
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
