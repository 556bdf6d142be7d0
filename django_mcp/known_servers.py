"""The servers of this process by name, for modules below the class of a site's servers."""

from __future__ import annotations

import sys
from collections.abc import Collection
from weakref import WeakKeyDictionary

from django.apps import apps
from django.conf import settings

from django_mcp.log import logger
from django_mcp.server.server import BaseServer

_servers: WeakKeyDictionary[BaseServer, None] = WeakKeyDictionary()


def remember(server: BaseServer) -> None:
    """Register a server of the site, until it is garbage."""
    _servers[server] = None


def known_servers() -> list[BaseServer]:
    """Return the servers in order of creation."""
    return list(_servers)


def find_server(name: object, *, imports_urlconf: bool = False) -> BaseServer | None:
    """Return the server of a name, or None; the newest if tests have left several.

    `imports_urlconf`: import the site's URLconf if there is no such server yet, since it may create it.
    """
    named_server = next(
        (server for server in reversed(known_servers()) if server.name == name), None
    )
    if named_server is None and imports_urlconf:
        import_urlconf()
        return find_server(name)
    return named_server


def find_unknown(kind: str, names: Collection[str]) -> list[str]:
    """Return those names that no server of the site has.

    Args:
        kind: `tools`, `prompts`, `toolsets`, or `resources`, of which URIs that a template matches are known too.
    """

    def unknown() -> list[str]:
        if kind == "toolsets":
            requirements = [server.engine.derived.requirements for server in known_servers()]
            return [name for name in names if not any(name in r.all_toolsets for r in requirements)]
        registries = [server.registry for server in known_servers()]
        mappings = ("resources", "templates") if kind == "resources" else (kind,)
        known = {
            key for registry in registries for name in mappings for key in getattr(registry, name)
        }
        return [name for name in names if name not in known and not is_matched(name)]

    def is_matched(uri: str) -> bool:
        if kind != "resources":
            return False
        templates = (
            key for server in known_servers() for key in server.registry.templates.values()
        )
        return any(entry.template.match(uri) is not None for entry in templates)

    if unknown():
        import_urlconf()
    return unknown()


def import_urlconf() -> None:
    """Import the site's URLconf, which may create servers."""
    if getattr(settings, "ROOT_URLCONF", None):
        # Loads `django.db`, which importing a server must not.
        from django.urls import get_resolver

        _ = get_resolver().url_patterns


def is_site_loaded() -> bool:
    """Return whether all apps are ready and the site's URLconf is, or can be, imported.

    It is not while an app is made ready or while the URLconf itself is imported: what an app adds later would
    be missing from it.
    """
    if not apps.ready:
        return False
    urlconf = getattr(settings, "ROOT_URLCONF", None)
    module = sys.modules.get(urlconf) if isinstance(urlconf, str) else None
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        return False
    try:
        import_urlconf()
    except Exception:
        # `manage.py check` says why.
        logger.debug("The URLconf cannot be imported", exc_info=True)
        return False
    return True
