"""System checks of how the servers are served: URLconf, ASGI application, worker processes, databases."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import channel_layers
from django.conf import settings as site_settings
from django.core import checks
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import CheckMessage, Info
from django.core.management import get_commands
from django.utils.module_loading import import_string

from django_mcp.checks.asgi import find_unwrapped, is_left_to_django
from django_mcp.checks.declared import check
from django_mcp.conf import find_databases, settings
from django_mcp.endpoints.mounts import (
    find_localized,
    find_mounts,
    find_shadowed,
    has_urlconf,
    is_runserver,
)
from django_mcp.execution.threads import OWN_CONNECTIONS
from django_mcp.push.layers import has_shared_layer
from django_mcp.push.process_hub import choose_bus
from django_mcp.servers import MCPServer, all_servers, default_server

_WSGI_RUNSERVERS = ("django.core", "django.contrib.staticfiles")
"""The apps whose `runserver` serves WSGI."""


@check(id="django_mcp.W016")
def check_urls() -> Iterator[CheckMessage]:
    """W016: a server has entries, and no URL leads to it."""
    if sys.argv[1:2] == ["mcp_serve"]:
        return
    served = {mount.server for mount in find_mounts()}
    lack = "no URL leads to it" if has_urlconf() else "ROOT_URLCONF is not set"
    then = "" if has_urlconf() else ", and set ROOT_URLCONF to its module"
    for server in all_servers():
        count = sum(1 for _ in server.registry.entries())
        if not count or server in served:
            continue
        is_default = server is default_server
        what = "the default MCP server" if is_default else f"the MCP server {server.name!r}"
        prefix = re.sub(r"[^a-z0-9-]+", "-", server.name.lower()).strip("-")
        module, variable = (None, "server") if is_default else _find_variable(server)
        line = (
            'path("", include("django_mcp.urls"))'
            if is_default
            else f'path("{prefix or "other"}/", {variable}.urls)'
        )
        place = "" if module is None else f", with from {module} import {variable} at the top"
        yield checks.Warning(
            f"{count} {'entry' if count == 1 else 'entries'} of {what} cannot be called over HTTP: {lack}.",
            hint=f"Write {line} into the root URLconf{place}{then}. Silence this if the "
            "server is for stdio or for calls in process only.",
        )


def _find_variable(server: MCPServer) -> tuple[str | None, str]:
    """Return the module and the name of the variable that a server is in; None and a name if none is found.

    It is looked for in the modules in which tools are registered, and in those of the functions. All
    modules have some hundred thousand variables.
    """
    own_module = f".{settings.AUTODISCOVER_MODULE}"
    origins = (entry.handler.origin for entry in server.registry.entries())
    names = {getattr(origin, "__module__", None) or "" for origin in origins}
    # Others may have imported it from the app's module.
    places = sorted(
        (not name.endswith(own_module), name, variable)
        for name in {*names, *(name for name in list(sys.modules) if name.endswith(own_module))}
        # What stands for a module may be any object.
        for variable, value in list(getattr(sys.modules.get(name), "__dict__", {}).items())
        if value is server and not name.startswith("django_mcp.")
    )
    return (places[0][1], places[0][2]) if places else (None, "server")


@check(id="django_mcp.W020")
def check_shadowed_urls() -> Iterator[CheckMessage]:
    """W020: an earlier pattern of the URLconf answers the path of an endpoint."""
    shadowed: dict[tuple[str, str], list[str]] = {}
    for path, match in find_shadowed():
        view = getattr(match.func, "__qualname__", type(match.func).__qualname__)
        shadowed.setdefault((match.route, f"{match.func.__module__}.{view}"), []).append(path)
    for (route, view), paths in shadowed.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        yield checks.Warning(
            f"The pattern {route!r}, of the view {view}, answers {', '.join(paths[:3])}{more} in place of "
            "this package, because it comes first in the URLconf.",
            hint=f"Write the lines of the MCP servers above {route!r}, such as "
            'path("", include("django_mcp.urls")).',
        )


@check(id="django_mcp.W014")
def check_asgi() -> Iterator[CheckMessage]:
    """W014: the site's ASGI application leaves the endpoints to Django's view."""
    path = find_unwrapped() if find_mounts() else None
    if path is not None:
        yield checks.Warning(
            f"{path} does not use django_mcp_application, so Django's request handling serves the MCP "
            "endpoints: each call takes longer, and the site's MIDDLEWARE runs for it.",
            hint="Write application = django_mcp_application(get_asgi_application()) there, with from "
            "django_mcp.asgi import django_mcp_application at the top. Silence this if the MIDDLEWARE is "
            "meant to run.",
        )


@check(id="django_mcp.W003")
def check_login_pages() -> Iterator[CheckMessage]:
    """W003: middleware may answer the plain view's clients with a login page."""
    for path in site_settings.MIDDLEWARE if is_left_to_django() else ():
        # Django's own asks the view, which is exempt.
        if "loginrequired" in path.lower() and not path.startswith("django."):
            yield checks.Warning(
                f"{path} may answer MCP clients with a login page.",
                hint="Exempt the endpoint there, or serve it with django_mcp_application, which "
                "runs none of the site's MIDDLEWARE.",
            )


@check(id="django_mcp.W004")
def check_redirects() -> Iterator[CheckMessage]:
    """W004: middleware redirects a POST to the plain view."""
    if not is_left_to_django():
        return
    exempt = re.compile("|".join(site_settings.SECURE_REDIRECT_EXEMPT) or "(?!)")
    paths = [mount.path[1:] for mount in find_mounts() if mount.is_fixed] or ["mcp"]
    if site_settings.SECURE_SSL_REDIRECT and not all(map(exempt.search, paths)):
        yield checks.Warning(
            "SECURE_SSL_REDIRECT answers a POST over http with a redirect, which loses its body; "
            "MCP clients report that as a broken server.",
            hint="Give clients the https address, and add r'^mcp/?$' to SECURE_REDIRECT_EXEMPT if "
            "the endpoint is reached over http, from behind a proxy for example.",
        )
    if site_settings.PREPEND_WWW:
        yield checks.Warning(
            "PREPEND_WWW answers a POST without www. with a redirect, which loses its body.",
            hint="Give clients the address with www.",
        )


@check(id="django_mcp.W015")
def check_runserver() -> Iterator[CheckMessage]:
    """W015: the development server is about to serve WSGI."""
    app = get_commands().get("runserver")
    if not is_runserver() or app not in _WSGI_RUNSERVERS or not find_mounts():
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


@check(id="django_mcp.W028")
def check_channel_layers() -> Iterator[CheckMessage]:
    """W028: the channel layer `default` is missing from `CHANNEL_LAYERS`, or cannot be made."""
    layers = getattr(site_settings, "CHANNEL_LAYERS", None)
    if not layers or settings.PUSH_BUS not in ("auto", "layer"):
        return
    problem = "there is none"
    if isinstance(layers.get("default"), Mapping) and layers["default"].get("BACKEND"):
        try:
            # It connects to nothing before it is used.
            layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)
            if type(layer).__module__.startswith("channels_redis."):
                # One of pub/sub reads the addresses later.
                _check_hosts(layers["default"].get("CONFIG", {}).get("hosts"))
        except Exception as error:  # noqa: BLE001 - whatever a backend makes of its options
            problem = f"{type(error).__name__}: {error}"
        else:
            return
    yield checks.Warning(
        f"The channel layer 'default' of CHANNEL_LAYERS cannot be used: {problem}.",
        hint="Write CHANNEL_LAYERS = {'default': {'BACKEND': 'channels_redis.pubsub.RedisPubSubChannelLayer', "
        "'CONFIG': {'hosts': ['redis://127.0.0.1:6379']}}}.",
    )


def _check_hosts(hosts: Any) -> None:
    """Raise an error if a layer over Redis cannot use its `hosts`. It connects to nothing."""
    from channels_redis.utils import create_pool, decode_hosts

    for host in decode_hosts(hosts):
        create_pool(host)


@check(id="django_mcp.W029")
def check_doubled_paths() -> Iterator[CheckMessage]:
    """W029: an endpoint is at a path such as `/mcp/mcp`, or `/staffmcp`, which lacks a slash."""
    for mount in find_mounts():
        if not _ODD_PATH.search(mount.path):
            continue
        prefix = mount.path[1:].removesuffix("mcp")
        slashed = prefix.rstrip("/") + "/"
        # What is meant is the path with one `mcp`.
        right = prefix.rstrip("/").removesuffix("mcp") if slashed.endswith("mcp/") else slashed
        urls = 'include("django_mcp.urls")' if mount.server is default_server else "..."
        yield checks.Warning(
            f"The endpoint of the MCP server {mount.server.name!r} is at {mount.path}, because its "
            "URLs end in 'mcp' themselves"
            + ("." if prefix == slashed else ", and the prefix has no slash at its end."),
            hint=f'Write path("{right}", {urls}).',
        )


_ODD_PATH = re.compile(r"/mcp/mcp$|[\w<>:.~-]mcp$")
"""No slash is before the last `mcp`; other characters are of regular expressions, which may end in one."""


@check(id="django_mcp.W035")
def check_localized_paths() -> Iterator[CheckMessage]:
    """W035: the path of an endpoint depends on the language, because it is inside of `i18n_patterns`."""
    # Each is in the URLconf with and without a slash at its end.
    servers = dict.fromkeys(mount.server for mount in find_localized())
    for server in servers:
        line = (
            'path("", include("django_mcp.urls"))'
            if server is default_server
            else "the line with the server's urls"
        )
        yield checks.Warning(
            f"The URLs of the MCP server {server.name!r} are inside of i18n_patterns, so that their paths begin "
            "with a language. Clients have one fixed URL, and look for documents at /.well-known.",
            hint=f"Write {line} into urlpatterns outside of i18n_patterns(). Calls get the language of the "
            "client's Accept-Language.",
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


_USUAL_LIMITS = {"postg": ("PostgreSQL", 100), "mysql": ("MySQL", 151)}
"""The connections that databases allow unless they are configured otherwise, by a part of their ENGINE."""

_PROCESSES = 4
"""How many worker processes a site with few of them has."""


@check(deploy=True, id="django_mcp.I002")
def check_connections() -> Iterator[CheckMessage]:
    """I002: four processes may keep more connections open than their database allows by default."""
    if not settings.SYNC_THREADS:
        return
    handlers = settings.SYNC_THREADS + settings.REPLACEMENT_THREADS + settings.TASK_THREADS
    kept = handlers + OWN_CONNECTIONS
    for alias, database in site_settings.DATABASES.items():
        engine = database.get("ENGINE", "")
        limits = (limit for part, limit in _USUAL_LIMITS.items() if part in engine)
        product, limit = next(limits, ("", None))
        if database.get("CONN_MAX_AGE", 0) == 0 or limit is None or _PROCESSES * kept <= limit:
            continue
        yield Info(
            f"CONN_MAX_AGE keeps up to {kept} connections of the database {alias!r} open in each process: SYNC_THREADS "
            f"+ REPLACEMENT_THREADS + TASK_THREADS + {OWN_CONNECTIONS} of the package. In {_PROCESSES} processes, "
            f"that is {_PROCESSES * kept}, and {product} allows {limit} by default.",
            hint="Lower SYNC_THREADS and TASK_THREADS, or set CONN_MAX_AGE to 0, with the pool of the database's "
            "own OPTIONS if it has one. Silence this check if the database allows as many as your processes need.",
        )


_POOL_SIZE = 4
"""The size of a pool whose options name none, of psycopg."""


@check(id="django_mcp.W018")
def check_pools() -> Iterator[CheckMessage]:
    """W018: a pool of database connections is smaller than what tools can hold."""
    held = settings.SYNC_THREADS + settings.REPLACEMENT_THREADS + settings.TASK_THREADS
    for alias, database in find_databases().items():
        pool = (database.get("OPTIONS") or {}).get("pool")
        if not pool or not settings.SYNC_THREADS:
            continue
        named = pool if isinstance(pool, Mapping) else {}
        size = named.get("max_size") or named.get("min_size", _POOL_SIZE)
        if size < held:
            yield checks.Warning(
                f"The pool of the database {alias!r} has at most {size} connections, and handlers can hold "
                f"{held} in each process: SYNC_THREADS + REPLACEMENT_THREADS + TASK_THREADS. When all are in "
                "use, further calls wait for one, and fail.",
                hint=f"Set max_size of its OPTIONS['pool'] to {held} or more, or lower these settings. The "
                f"package's own queries use up to {OWN_CONNECTIONS} connections besides.",
            )


@check(id="django_mcp.W042")
def check_throttle_cache() -> Iterator[CheckMessage]:
    """W042: the cache of the throttles keeps no counts, or each process has counts of its own."""
    if _is_throttle_cache(DummyCache):
        yield checks.Warning(
            f"{_first_throttle()} limits nothing: the cache {settings.THROTTLE_CACHE!r} keeps no counts.",
            hint="Set DJANGO_MCP['THROTTLE_CACHE'] to a cache that all processes share, such as one of Redis.",
        )


@check(deploy=True, id="django_mcp.W042")
def check_shared_throttle_cache() -> Iterator[CheckMessage]:
    """W042: the same, of what matters with several processes only."""
    if _is_throttle_cache(LocMemCache):
        yield checks.Warning(
            f"{_first_throttle()} counts in each process apart, since the cache {settings.THROTTLE_CACHE!r} is in "
            "its memory.",
            hint="Set DJANGO_MCP['THROTTLE_CACHE'] to a cache that all processes share, such as one of Redis. "
            "Silence this if the site has one process.",
        )


def _is_throttle_cache(kind: type) -> bool:
    """Return whether anything is counted, and in a cache of this class."""
    backend = site_settings.CACHES.get(settings.THROTTLE_CACHE, {}).get("BACKEND", "")
    try:
        is_of_kind = issubclass(import_string(backend), kind)
    except (ImportError, TypeError):  # Django reports it
        return False
    return is_of_kind and bool(_first_throttle())


def _first_throttle() -> str:
    """Return where a rate is set; an empty text if no server has one."""
    for server in all_servers():
        if server.engine.derived.rates:
            return f"The throttle of the server {server.name!r}"
        for tool in server.registry.tools.values():
            if tool.throttle is not None:
                return f"The throttle of {tool.source}"
    return ""
