"""System checks of how the servers are served: URLconf, ASGI application, worker processes, databases."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Info
from django.core.management import get_commands
from django.utils.module_loading import import_string

from django_mcp.checks.declared import check
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_mounts, has_urlconf, is_wrapped
from django_mcp.push.process_hub import choose_bus, has_shared_layer
from django_mcp.servers import default_server

_WSGI_RUNSERVERS = ("django.core", "django.contrib.staticfiles")
"""The apps whose `runserver` serves WSGI."""


@check(id="django_mcp.W016")
def check_urls() -> Iterator[CheckMessage]:
    """W016: the default server has entries, and no URL leads to it."""
    registry = default_server.registry
    entries = (registry.tools, registry.resources, registry.templates, registry.prompts)
    count = sum(map(len, entries))
    is_served = any(mount.server is default_server for mount in find_mounts())
    if not count or is_served or sys.argv[1:2] == ["mcp_serve"]:
        return
    what = "entry of the default MCP server" if count == 1 else "entries of the default MCP server"
    lack = "no URL leads to it" if has_urlconf() else "ROOT_URLCONF is not set"
    yield checks.Warning(
        f"{count} {what} cannot be called over HTTP: {lack}.",
        hint='Write path("", include("django_mcp.urls")) into the root URLconf. Silence this if the '
        "server is for stdio or for calls in process only.",
    )


@check(id="django_mcp.W014")
def check_asgi() -> Iterator[CheckMessage]:
    """W014: the site's ASGI application leaves the endpoints to Django's view."""
    path = getattr(site_settings, "ASGI_APPLICATION", None)
    if isinstance(path, str) and find_mounts() and not _is_wrapped(path):
        yield checks.Warning(
            f"{path} does not use django_mcp_application, so Django's request handling serves the MCP "
            "endpoints: each call takes longer, and the site's MIDDLEWARE runs for it.",
            hint="Write application = django_mcp_application(get_asgi_application()) there, with from "
            "django_mcp.asgi import django_mcp_application at the top. Silence this if the MIDDLEWARE is "
            "meant to run.",
        )


def _is_wrapped(path: str) -> bool:
    """Return whether an ASGI application was made with the wrapper, as far as can be told.

    Its module is imported only if its text does not name the wrapper.
    """
    try:
        spec = find_spec(path.rpartition(".")[0])
        if spec is None or spec.origin is None:
            return True
        if "django_mcp_application" in Path(spec.origin).read_text(encoding="utf-8"):
            return True
        import_string(path)
    except Exception:  # noqa: BLE001 - the module is the site's; who serves it sees its error
        return True
    return is_wrapped.is_set()


@check(id="django_mcp.W015")
def check_runserver() -> Iterator[CheckMessage]:
    """W015: the development server is about to serve WSGI."""
    app = get_commands().get("runserver")
    if sys.argv[1:2] != ["runserver"] or app not in _WSGI_RUNSERVERS or not find_mounts():
        return
    install = "" if find_spec("daphne") else "pip install 'django-mcp-endpoints[daphne]'; "
    yield checks.Warning(
        "This runserver serves WSGI: messages arrive together with the response, and clients get no "
        "notifications.",
        hint=f"{install}put 'daphne' first in INSTALLED_APPS and set ASGI_APPLICATION, or serve the "
        "ASGI application with uvicorn.",
    )


_COSTS = {
    "database": "Several worker processes notify each other by polling the database once a second, "
    "while they have streams open.",
    "local": "Only clients of the process in which something changes are notified, so that you can "
    "run one worker process only.",
}


@check(id="django_mcp.W009")
def check_layer() -> Iterator[CheckMessage]:
    """W009: the channel layer of `PUSH_BUS` does not reach other processes."""
    if settings.PUSH_BUS == "layer" and not has_shared_layer():
        yield checks.Warning(
            "DJANGO_MCP['PUSH_BUS'] is 'layer', but the channel layer is in memory, where no other "
            "process receives it.",
            hint="Set CHANNEL_LAYERS to channels_redis.pubsub.RedisPubSubChannelLayer, or PUSH_BUS "
            "to 'auto'.",
        )


@check(deploy=True, id="django_mcp.I005")
def check_bus() -> Iterator[CheckMessage]:
    """I005: the cost, or lack, of notifications between processes."""
    kind = choose_bus()
    if kind in _COSTS:
        yield Info(
            _COSTS[kind],
            hint="Set CHANNEL_LAYERS to channels_redis.pubsub.RedisPubSubChannelLayer if you run "
            "more than one.",
        )


@check(deploy=True, id="django_mcp.I002")
def check_connections() -> Iterator[CheckMessage]:
    """I002: the number of database connections."""
    aliases = [
        alias
        for alias, database in site_settings.DATABASES.items()
        if database.get("CONN_MAX_AGE", 0) != 0 and "sqlite" not in database.get("ENGINE", "")
    ]
    if aliases and settings.SYNC_THREADS:
        yield Info(
            f"CONN_MAX_AGE keeps connections of {', '.join(aliases)} open in each of up to "
            f"{settings.SYNC_THREADS} threads for tools (SYNC_THREADS), in every worker process.",
            hint="Keep workers x (SYNC_THREADS + Django's own threads) below the database's limit, "
            "or set CONN_MAX_AGE to 0, with the pool of the database's own OPTIONS if it has one.",
        )


@check(deploy=True, id="django_mcp.I003")
def check_writers() -> Iterator[CheckMessage]:
    """I003: SQLite with several writers."""
    for alias, database in site_settings.DATABASES.items():
        if "sqlite" not in database.get("ENGINE", "") or "mode=memory" in str(database.get("NAME")):
            continue
        mode = (database.get("OPTIONS") or {}).get("transaction_mode", "")
        if str(mode).upper() != "IMMEDIATE":
            yield Info(
                f"On the SQLite database {alias!r}, tools that write at the same time can fail with "
                "'database is locked'.",
                hint="Set its OPTIONS to {'transaction_mode': 'IMMEDIATE', 'timeout': 20}.",
            )
