"""Which way processes reach each other: the channel layer, the database, or none."""

from __future__ import annotations

from typing import Any

from django.conf import settings as site_settings

from django_mcp.conf import settings

__all__ = ["choose_bus", "has_shared_layer"]

IN_MEMORY = "channels.layers.InMemoryChannelLayer"


def choose_bus() -> str:
    """Return `layer`, `database` or `local`: what `PUSH_BUS` says, else the best there is."""
    if settings.PUSH_BUS != "auto":
        return settings.PUSH_BUS
    if has_shared_layer():
        return "layer"
    if settings.SESSION_STORE != "model" or not _has_shared_database():
        return "local"
    return "database"


def has_shared_layer() -> bool:
    """Return whether there is a channel layer that more than one process can reach."""
    layers: dict[str, Any] = getattr(site_settings, "CHANNEL_LAYERS", None) or {}
    return bool(layers.get("default", {}).get("BACKEND", IN_MEMORY) != IN_MEMORY)


def _has_shared_database() -> bool:
    # Loads the machinery of models, which importing a server must not.
    from django.db import DEFAULT_DB_ALIAS, connections, router

    from django_mcp.models.bus import BusMessage

    connection: Any = connections[router.db_for_write(BusMessage) or DEFAULT_DB_ALIAS]
    if connection.vendor == "unknown":
        return False  # the site has no database
    return not (connection.vendor == "sqlite" and connection.is_in_memory_db())
