"""System checks of the setting `DJANGO_MCP`, the servers and their entries, the hosts, the middleware and the installed packages."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule
from django.utils.version import get_version_tuple

from django_mcp.checks.declared import check
from django_mcp.conf import SETTINGS, find_problems, settings
from django_mcp.endpoints.mounts import find_decorated
from django_mcp.middleware import find_synchronous
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.problems import find_near
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.servers import all_servers, default_server
from django_mcp.signals import tool_called
from django_mcp.telemetry.setup import has_library

DISTRIBUTION = "django-mcp-endpoints"

_HOLDS_ENTRIES = re.compile(
    r"^(@(\w+\.)?(tool|resource|prompt)\b|\w+\.register\(|\w+_tools\()", re.MULTILINE
)
"""What registers something as soon as its module is imported."""

_LATER = re.compile(r"test|conftest|views$|urls$")
"""Modules that others import, and only later."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_WITH_HANDSHAKE = [each.name for each in REVISIONS if not each.is_stateless]
"""The names of the revisions with sessions, the oldest first."""

_FLOOR = re.compile(r"(>=|!=)\s*([0-9][0-9.]*)(?![0-9.*])")


@check()
def check_settings() -> Iterator[CheckMessage]:
    """E001, E002, W050: a wrong value, an unknown key, or one that stands outside of `DJANGO_MCP`."""
    for problem in find_problems(getattr(site_settings, "DJANGO_MCP", {})):
        id_ = "django_mcp.E002" if problem.is_unknown else "django_mcp.E001"
        yield Error(problem.message, hint=problem.hint, id=id_)
    given = _find_given()
    for name in filter(str.isupper, dir(site_settings)):
        key = _PREFIX.sub("", name)
        if name == "DJANGO_MCP" or (key in SETTINGS and key in given):
            # The settings may write `DJANGO_MCP` with others of their own.
            continue
        near = find_near(key, SETTINGS, cutoff=0.85) if key != name else []
        is_dict_of_ours = _holds_settings(name)
        if near:
            hint = f"Write it into the dict: DJANGO_MCP = {{{near[0]!r}: ...}}."
        elif find_near(name, ["DJANGO_MCP"], cutoff=0.9) or is_dict_of_ours:
            hint = "Did you mean 'DJANGO_MCP'?"
        else:
            continue
        # The site may have an MCP_NAME of its own, and an MCP_CONFIG beside `DJANGO_MCP`.
        is_missing = is_dict_of_ours and not hasattr(site_settings, "DJANGO_MCP")
        is_ours = name.startswith("DJANGO") or name == "MCP" or is_missing
        yield (Error if is_ours else checks.Warning)(
            f"Nothing reads the setting {name}.",
            hint=hint,
            id="django_mcp.E002" if is_ours else "django_mcp.W050",
        )


_PREFIX = re.compile(r"^(DJANGO_?)?MCP_")
"""What a setting begins with that is meant to be one in `DJANGO_MCP`."""


def _find_given() -> Collection[str]:
    """Return the keys of `DJANGO_MCP`."""
    value = getattr(site_settings, "DJANGO_MCP", None)
    return value.keys() if isinstance(value, dict) else ()


def _holds_settings(name: str) -> bool:
    """Return whether a setting such as `MCP_CONFIG` is what `DJANGO_MCP` is meant to be.

    A part that `DJANGO_MCP` is made of is not.
    """
    value: Any = getattr(site_settings, name) if "MCP" in name else None
    is_ours = isinstance(value, dict) and bool(value) and value.keys() <= SETTINGS.keys()
    return is_ours and any(key not in _find_given() for key in value)


@check(id="django_mcp.E003")
def check_middleware() -> Iterator[CheckMessage]:
    """E003: middleware in `DJANGO_MCP` cannot be loaded, or is synchronous."""
    paths = settings.MIDDLEWARE

    async def get_reply(exchange: Exchange) -> Reply:
        return await default_server.engine.answer(exchange)

    try:
        told = list(find_synchronous(paths, get_reply))
    except ImproperlyConfigured as error:
        told = [str(error)]
    for each in told:
        yield Error(
            each,
            hint="Name factories by dotted path: functions or classes that take get_reply and return an "
            "async def function of the exchange, or an object with an async def __call__.",
        )


@check(id="django_mcp.E008")
def check_session_data() -> Iterator[CheckMessage]:
    """E008: data of sessions would be in cookies, which MCP clients do not have."""
    is_in_cookies = site_settings.SESSION_ENGINE.endswith(".signed_cookies")
    if is_in_cookies and settings.SESSION_DATA == "session_engine":
        yield Error(
            "DJANGO_MCP['SESSION_DATA'] is 'session_engine', and SESSION_ENGINE keeps sessions in "
            "cookies: ctx.session would forget everything.",
            hint="Take a SESSION_ENGINE that keeps them on the server, or SESSION_DATA 'model'.",
        )


@check(id="django_mcp.E016")
def check_telemetry() -> Iterator[CheckMessage]:
    """E016: spans and metrics are to be exported, and the library for that is not installed."""
    if settings.TELEMETRY == "native" and not has_library():
        yield Error(
            "DJANGO_MCP['TELEMETRY'] is 'native', and opentelemetry-api is not installed: nothing is measured.",
            hint=f'Install it: pip install "{DISTRIBUTION}[otel]". Or set TELEMETRY to "propagate" or "off".',
        )


@check(id="django_mcp.W048")
def check_settings_without_effect() -> Iterator[CheckMessage]:
    """W048: a setting has no effect beside another one."""
    # Settings for development may switch spans off, and leave the details.
    has_no_spans = "TELEMETRY" not in _find_given()
    # Receivers get the numbers, recorded or not.
    records_none = not (settings.RECORD_CALLS or tool_called.receivers)
    pairs = (
        ("TELEMETRY_DETAILS", has_no_spans, "TELEMETRY is missing, which has to be 'native'"),
        ("CONNECT_KEY_DAYS", not settings.CONNECT_PAGE, "CONNECT_PAGE is False"),
        ("RECORD_QUERIES", records_none, "no calls are recorded"),
    )
    for name, is_idle, why in pairs:
        if is_idle and getattr(settings, name):
            yield checks.Warning(
                f"DJANGO_MCP[{name!r}] has no effect, since {why}.",
                hint="Change one of them, or leave this one out.",
            )
    for server in all_servers():
        if server.options.legacy_sse and not server.engine.derived.revisions.handshake:
            yield checks.Warning(
                f"LEGACY_SSE of the server {server.name!r} has no effect, since its REVISIONS have no handshake.",
                hint=f"Add {_WITH_HANDSHAKE[0]!r} to REVISIONS, or leave LEGACY_SSE out.",
            )


@check(id="django_mcp.E017")
def check_modes() -> Iterator[CheckMessage]:
    """E017: a server refuses every client, since its `MODE` excludes all of its `REVISIONS`."""
    for server in all_servers():
        if not server.engine.derived.revisions.names():
            yield Error(
                f"The server {server.name!r} refuses every client: its MODE is 'stateful', and no revision among its "
                "REVISIONS has sessions.",
                hint=f"Set MODE to 'both', or add a revision such as {_WITH_HANDSHAKE[-1]!r}.",
            )


@check(deploy=True, id="django_mcp.I014")
def check_memory_stores() -> Iterator[CheckMessage]:
    """I014: each process has sessions or tasks of its own, which the others do not know."""
    stores = {name: getattr(settings, name) for name in ("SESSION_STORE", "TASK_STORE")}
    for name, store in stores.items():
        if store == "memory":
            yield Info(
                f"DJANGO_MCP[{name!r}] is 'memory', so that you can run one worker process only.",
                hint="Set it to 'model', which is the default, if you run more than one.",
            )
    if settings.SESSION_DATA == "session_engine" and _are_sessions_in_memory():
        yield Info(
            "DJANGO_MCP['SESSION_DATA'] is 'session_engine', and SESSION_ENGINE keeps sessions in a cache in the memory "
            f"of each process ({site_settings.SESSION_CACHE_ALIAS!r}): another one does not find what ctx.session has.",
            hint="Set SESSION_CACHE_ALIAS to a cache that all processes share, such as one of Redis, or SESSION_DATA to "
            "'model', if you run more than one.",
        )


def _are_sessions_in_memory() -> bool:
    backend = site_settings.CACHES.get(site_settings.SESSION_CACHE_ALIAS, {}).get("BACKEND", "")
    # The engine `cached_db` writes to the database as well.
    return bool(site_settings.SESSION_ENGINE.endswith(".cache")) and backend.endswith(
        (".LocMemCache", ".DummyCache")
    )


@check(id="django_mcp.E015")
def check_extensions() -> Iterator[CheckMessage]:
    """E015: an extension of a server cannot be used."""
    if any(find_problems(getattr(site_settings, "DJANGO_MCP", {}))):
        # E001 and E002 report them.
        return
    for server in all_servers():
        # Not inside of the `try`: E001 reports wrong settings.
        _ = server.options
        try:
            # It registers the entries of the extensions, and makes them.
            _ = server.registry, server.engine
        except ImproperlyConfigured as error:
            yield Error(
                str(error),
                hint="EXTENSIONS names subclasses of django_mcp.Extension that take no arguments, and no "
                "two of them have an identifier or a method in common.",
            )


@check(id="django_mcp.E004")
def check_server_names() -> Iterator[CheckMessage]:
    """E004: two servers have the same name."""
    names = Counter(server.name for server in all_servers())
    for name, count in names.items():
        if count > 1:
            yield Error(
                f"{count} MCP servers are called {name!r}.",
                hint="Give each MCPServer(...) a name of its own, other than DJANGO_MCP['NAME'].",
            )


@check(id="django_mcp.W001")
def check_shadowing() -> Iterator[CheckMessage]:
    """W001: a module of the project has the name of the PyPI package `mcp`."""
    try:
        spec = find_spec("mcp")
    except (ImportError, ValueError):
        return
    if spec is not None and spec.origin is not None and spec.submodule_search_locations is None:
        yield checks.Warning(
            f"{spec.origin} shadows the package `mcp` of PyPI, and is in no app, so "
            "its tools are not found.",
            hint="Move it into an app of INSTALLED_APPS, where it is that app's `mcp` module.",
        )


@check(id="django_mcp.W023")
def check_module_names() -> Iterator[CheckMessage]:
    """W023: a module with tools has a name by which it is not found, or is in no installed app."""
    module = settings.AUTODISCOVER_MODULE
    if module is None:
        return
    for config in apps.get_app_configs():
        app = Path(config.path)
        has_module = module_has_submodule(config.module, module)
        hint = f"Import it in the app's {module} module." if has_module else f"Call it {module}.py."
        # A package has to import its modules, and one without __init__.py imports none.
        for folder, package in ((app, config.name), (app / module, f"{config.name}.{module}")):
            for path in sorted(folder.glob("[!_]*.py")):
                # What the site imports by itself is found.
                is_found = f"{package}.{path.stem}" in sys.modules
                if not is_found and not _LATER.match(path.stem) and _has_entries(path):
                    yield checks.Warning(
                        f"{path} is not imported, so what it registers is not found.", hint=hint
                    )
    for path, package in _find_outside_of_apps(module):
        yield checks.Warning(
            f"{path} is not imported, so what it registers is not found.",
            hint=f"Move it into an app, or add {package!r} to INSTALLED_APPS.",
        )


def _find_outside_of_apps(module: str) -> Iterator[tuple[Path, str]]:
    """Yield the modules with tools in the project's packages, and beside these and its apps, that nothing imports.

    Each is yielded with the name of its package.
    """
    packages = {folder: package for package, folder in find_project_folders()}
    apps_by_folder = {Path(config.path): config.name for config in apps.get_app_configs()}
    # What the names of packages in a folder begin with.
    homes = {folder.parent: "" for folder in packages}
    # Of `apps/orders`, where `apps` is in the project.
    for folder, name in apps_by_folder.items():
        if folder.parent.parent in homes and folder.parent not in homes:
            homes[folder.parent] = name.rpartition(".")[0] + "."
    for home, start in homes.items():
        for path in home.glob(f"*/{module}.py"):
            packages.setdefault(path.parent, start + path.parent.name)
    imported = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    for folder, package in sorted(packages.items()):
        path = folder / f"{module}.py"
        if folder not in apps_by_folder and str(path) not in imported and _has_entries(path):
            yield path, package


def find_project_folders() -> Iterator[tuple[str, Path]]:
    """Yield the packages of the settings and of the URLconf, unless they are apps, with their folders."""
    names = [getattr(site_settings, name, None) for name in ("SETTINGS_MODULE", "ROOT_URLCONF")]
    packages = {name.partition(".")[0] for name in names if isinstance(name, str)}
    for package in sorted(packages - {config.name for config in apps.get_app_configs()}):
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec and spec.submodule_search_locations) or ():
            yield package, Path(folder)


def _has_entries(path: Path) -> bool:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return False
    return "django_mcp" in text and _HOLDS_ENTRIES.search(text) is not None


@check(Tags.security, id="django_mcp.W013")
def check_versions() -> Iterator[CheckMessage]:
    """W013: an installed version is too old, or excluded."""
    own = _read_headers(DISTRIBUTION, tuple(sys.path))
    # Without any, the package is not installed, but used from a folder.
    for requirement in own.get_all("Requires-Dist", ()):
        match = _REQUIREMENT.match(requirement)
        # Those of the extra `dev` do not count.
        if match is None or "dev" in (match[3] or ""):
            continue
        name, wanted = match[1], match[2].strip()
        version = _read_headers(name, tuple(sys.path))["Version"]
        if version is None:
            continue
        installed = _numbers(version)
        is_right = all(
            installed >= _numbers(bound) if operator == ">=" else installed != _numbers(bound)
            for operator, bound in _FLOOR.findall(wanted)
        )
        if not is_right:
            yield checks.Warning(
                f"{name} {version} is installed, which may have known security holes.",
                hint=f"Install {name} {wanted}.",
            )


@functools.lru_cache(maxsize=64)
def _read_headers(distribution: str, path: tuple[str, ...]) -> Message:
    """Return the metadata of a distribution on this `sys.path`, none if it is not installed.

    The long text of its description is left out, since to parse it takes most of the time.
    """
    found = next(iter(metadata.distributions(name=distribution, path=list(path))), None)
    if found is None:
        return Message()
    # An old installation of setuptools has another file.
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    return HeaderParser().parsestr(text.partition("\n\n")[0])


@check(id="django_mcp.E012")
def check_other_distributions() -> Iterator[CheckMessage]:
    """E012: another distribution has installed a package `django_mcp` over this one."""
    for name in sorted(_find_owners(tuple(sys.path)) - {DISTRIBUTION}):
        yield Error(
            f"{name} installs a package django_mcp too, and overwrites files of {DISTRIBUTION}.",
            hint=f"pip uninstall {name} {DISTRIBUTION}, then install {DISTRIBUTION} again.",
        )


@functools.lru_cache(maxsize=1)
def _find_owners(path: tuple[str, ...]) -> frozenset[str]:
    """Return the distributions on this `sys.path` that have installed a package `django_mcp`."""
    return frozenset(
        distribution.metadata["Name"]
        for distribution in metadata.distributions(path=list(path))
        if "\ndjango_mcp/__init__.py," in "\n" + (distribution.read_text("RECORD") or "")
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end: 6.0 and 6.0.0 are one."""
    numbers = list(get_version_tuple(version))
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


@check(Tags.security, id="django_mcp.W002")
def check_hosts() -> Iterator[CheckMessage]:
    """W002: a web page can reach the endpoint under another host name (DNS rebinding)."""
    if "*" in site_settings.ALLOWED_HOSTS and not site_settings.DEBUG:
        yield checks.Warning(
            "ALLOWED_HOSTS accepts every host, so a web page that points a name of its own at this "
            "site can call the MCP endpoint from the browser of anybody who reaches it.",
            hint="List the names of this site in ALLOWED_HOSTS.",
        )


@check(id="django_mcp.W005")
def check_decorated_views() -> Iterator[CheckMessage]:
    """W005: an endpoint's view is inside of a decorator."""
    for path in find_decorated():
        yield checks.Warning(
            f"The MCP view at {path} is wrapped in a decorator, so django_mcp_application leaves "
            "it to Django, and what the view is exempt from (CSRF, login, ATOMIC_REQUESTS) may "
            "hold for it.",
            hint="Mount it as it is: include('django_mcp.urls') or server.urls.",
        )


@check(deploy=True, id="django_mcp.I006")
def check_web_resources() -> Iterator[CheckMessage]:
    """I006: a resource has a web URI, which clients may try to fetch.

    Source: 2025-11-25 server/resources "Common URI Schemes".
    """
    for server in all_servers():
        registry = server.registry
        for uri, entry in chain(registry.resources.items(), registry.templates.items()):
            if str(uri).lower().startswith(("https://", "http://")):
                yield Info(
                    f"{entry.source} is served at {str(uri)!r}, which tells clients that they can fetch it "
                    "from the web themselves.",
                    hint="Use a scheme of your own, unless they can.",
                )
