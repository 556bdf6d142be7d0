"""The scopes that are good for something at the servers of the site, for keys to name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings as site_settings

from django_mcp.conf import settings
from django_mcp.known_servers import import_urlconf, known_servers
from django_mcp.server.server import BaseServer


def known_scopes(servers: Iterable[BaseServer] | None = None) -> set[str]:
    """Return the scopes that servers require or know by `SCOPE_IMPLIES`, and those that the settings of OAuth describe.

    Args:
        servers: None: all of the site.
    """
    if servers is None:
        import_urlconf()
        servers = known_servers()
    described = (getattr(site_settings, "OAUTH2_PROVIDER", None) or {}).get("SCOPES")
    scopes = set[str](described if isinstance(described, Mapping) else ())
    for broad, narrow in (settings.SCOPE_IMPLIES or {}).items():
        scopes.update((broad, *narrow))
    for server in servers:
        engine: Any = server.engine
        scopes.update(*engine.derived.requirements.scopes.values())
        authentication = getattr(engine, "authentication", None)
        scopes.update(() if authentication is None else authentication.required_scopes)
    return scopes
