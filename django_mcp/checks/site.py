"""System checks of a site's settings, servers, URLs and databases.

`docs/reference/checks.md` lists them. Those with `deploy=True` are shown by `check --deploy` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.gate import Gate
from django_mcp.conf import find_problems, settings
from django_mcp.endpoints.mounts import find_decorated, find_mounts
from django_mcp.middleware import load_middleware
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.visibility import Requirements
from django_mcp.server.options import Options
from django_mcp.servers import MCPServer, all_servers
from django_mcp.transports.http.view import MCPView

__all__: list[str] = []


@register("django_mcp")
def check_settings(**_kwargs: Any) -> list[CheckMessage]:
    """E001, E002: a wrong value, an unknown key."""
    return [
        Error(
            problem.message,
            hint=problem.hint,
            id="django_mcp.E002" if problem.is_unknown else "django_mcp.E001",
        )
        for problem in find_problems(getattr(site_settings, "DJANGO_MCP", {}))
    ]


@register("django_mcp")
def check_middleware(**_kwargs: Any) -> list[CheckMessage]:
    """E003: middleware in `DJANGO_MCP` cannot be loaded."""
    try:
        load_middleware(settings.MIDDLEWARE, all_servers()[0].answer)
    except ImproperlyConfigured as error:
        if _is_sound("MIDDLEWARE"):
            return [Error(str(error), hint="Name factories by dotted path.", id="django_mcp.E003")]
    return []


@register("django_mcp")
def check_server_names(**_kwargs: Any) -> list[CheckMessage]:
    """E004: two servers have the same name."""
    if not _is_sound("NAME"):
        return []
    names = Counter(server.public_name for server in all_servers())
    return [
        Error(
            f"{count} MCP servers are called {name!r}.",
            hint="Give each MCPServer(...) a name of its own, other than DJANGO_MCP['NAME'].",
            id="django_mcp.E004",
        )
        for name, count in names.items()
        if count > 1
    ]


@register("django_mcp", Tags.security)
def check_origins(**_kwargs: Any) -> list[CheckMessage]:
    """E005: any web page could call with its visitors' cookies."""
    if not (_is_sound("ALLOWED_ORIGINS") and _is_sound("CORS_ALLOW_CREDENTIALS")):
        return []
    if "*" not in settings.ALLOWED_ORIGINS or not settings.CORS_ALLOW_CREDENTIALS:
        return []
    return [
        Error(
            "DJANGO_MCP['ALLOWED_ORIGINS'] lets every web page call, and "
            "DJANGO_MCP['CORS_ALLOW_CREDENTIALS'] lets it send cookies.",
            hint="List the origins that may send cookies, or take CORS_ALLOW_CREDENTIALS out.",
            id="django_mcp.E005",
        )
    ]


@register("django_mcp", Tags.security)
def check_gates(**_kwargs: Any) -> list[CheckMessage]:
    """E006, E007, W006, W007: access to the mounted servers."""
    if not (_is_sound("PUBLIC") and _is_sound("AUTHENTICATORS")):
        return []
    views = (mount.view for mount in find_mounts())
    servers = {view.server for view in views if isinstance(view, MCPView)}
    return [
        message for server in all_servers() if server in servers for message in _check_gate(server)
    ]


def _check_gate(server: MCPServer) -> Iterator[CheckMessage]:
    try:
        gate = server.gate
    except ImproperlyConfigured as error:
        yield Error(
            f"An authenticator of the MCP server {server.public_name!r} is wrong: {error}",
            hint="Name classes or instances of django_mcp.auth.Authenticator.",
            id="django_mcp.E006",
        )
        return
    for problem in _problems_of(gate):
        yield Error(
            f"The MCP server {server.public_name!r} cannot authenticate anybody: {problem}.",
            hint="Put that right, or take the authenticator out.",
            id="django_mcp.E007",
        )
    if gate is not None and not gate.is_public and not gate.authenticators:
        # Not an error: it is safe, and must not prevent the rest of the site from starting.
        yield checks.Warning(
            f"The MCP server {server.public_name!r} lets nobody in: it is neither public nor has "
            "it authenticators.",
            hint=server.how_to_open,
            id="django_mcp.W007",
        )
    if (gate is None or gate.is_public) and not site_settings.DEBUG:
        yield from _open_tools(server)


def _problems_of(gate: Gate | None) -> list[str]:
    authenticators = () if gate is None else gate.authenticators
    return [problem for each in authenticators for problem in each.find_problems()]


def _open_tools(server: MCPServer) -> Iterator[CheckMessage]:
    needs = _needs_of(server)
    tools = [
        tool.name
        for tool in server.registry.tools.values()
        if not ((tool.annotations or {}).get("readOnlyHint") or needs.guards(tool))
    ]
    if tools:
        shown = ", ".join(tools[:5]) + (" and more" if len(tools) > 5 else "")
        yield checks.Warning(
            f"The MCP server {server.public_name!r} is public, so everybody may use its tools that "
            f"are not marked as read-only: {shown}.",
            hint="Mark them with read_only=True if they change nothing, give them a permission, or "
            "set authenticators instead of PUBLIC.",
            id="django_mcp.W006",
        )


@register("django_mcp", Tags.security)
def check_permissions(**_kwargs: Any) -> list[CheckMessage]:
    """W008: a permission does not exist, so that only superusers pass it."""
    if not apps.is_installed("django.contrib.auth"):
        return []
    from django_mcp.auth.permission_audit import find_unknown_permissions

    return [
        checks.Warning(
            f"{source} needs the permission {name!r}, which no model of the installed apps has.",
            hint=f"Did you mean {near!r}?" if near else "Write it as app_label.codename.",
            id="django_mcp.W008",
        )
        for server in all_servers()
        for source, name, near in find_unknown_permissions(_needs_of(server))
    ]


@register("django_mcp", deploy=True)
def check_reach(**_kwargs: Any) -> list[CheckMessage]:
    """I004: entries that nobody can use over HTTP, because the server has no authenticators."""
    if not (_is_sound("PUBLIC") and _is_sound("AUTHENTICATORS")):
        return []
    views = (mount.view for mount in find_mounts())
    servers = {view.server for view in views if isinstance(view, MCPView)}
    return [
        message
        for server in all_servers()
        if server in servers
        for message in _find_unreachable(server)
    ]


def _find_unreachable(server: MCPServer) -> Iterator[CheckMessage]:
    try:
        gate = server.gate
    except ImproperlyConfigured:
        return
    needs = _needs_of(server)
    if gate is not None and gate.authenticators:
        return
    asking = {
        guarded.source
        for guarded, rules in needs.rules.items()
        if any(isinstance(rule, str) for rule in rules)
    }
    asking.update(guarded.source for guarded in needs.scopes)
    if asking:
        yield Info(
            f"The MCP server {server.public_name!r} has no authenticators, so over HTTP nobody has "
            f"the permissions or scopes that {len(asking)} of its functions need: "
            f"{', '.join(sorted(asking)[:3])}{' and more' if len(asking) > 3 else ''}.",
            hint="Set authenticators, unless they are for calls in process only.",
            id="django_mcp.I004",
        )


@register("django_mcp")
def check_shadowing(**_kwargs: Any) -> list[CheckMessage]:
    """W001: a module of the project has the name of the PyPI package `mcp`."""
    try:
        spec = find_spec("mcp")
    except (ImportError, ValueError):
        return []
    if spec is None or spec.origin is None or spec.submodule_search_locations is not None:
        return []
    return [
        checks.Warning(
            f"{spec.origin} shadows the package `mcp` of PyPI, and is in no app, so "
            "its tools are not found.",
            hint="Move it into an app of INSTALLED_APPS, where it is that app's `mcp` module.",
            id="django_mcp.W001",
        )
    ]


@register("django_mcp", Tags.security)
def check_hosts(**_kwargs: Any) -> list[CheckMessage]:
    """W002: a web page can reach the endpoint under another host name (DNS rebinding)."""
    if site_settings.DEBUG or "*" not in site_settings.ALLOWED_HOSTS:
        return []
    return [
        checks.Warning(
            "ALLOWED_HOSTS accepts every host, so a web page that points a name of its own at this "
            "site can call the MCP endpoint from the browser of anybody who reaches it.",
            hint="List the names of this site in ALLOWED_HOSTS.",
            id="django_mcp.W002",
        )
    ]


@register("django_mcp")
def check_view(**_kwargs: Any) -> list[CheckMessage]:
    """W003, W004, W005: middleware and decorators that affect the plain view."""
    return [*_login_pages(), *_redirects(), *_decorated_views()]


def _login_pages() -> Iterator[CheckMessage]:
    for path in site_settings.MIDDLEWARE:
        # Django's own asks the view, which is exempt.
        if "loginrequired" in path.lower() and not path.startswith("django."):
            yield checks.Warning(
                f"{path} may answer MCP clients with a login page.",
                hint="Exempt the endpoint there, or serve it with django_mcp_application, which "
                "runs none of the site's MIDDLEWARE.",
                id="django_mcp.W003",
            )


def _redirects() -> Iterator[CheckMessage]:
    middleware = site_settings.MIDDLEWARE
    is_redirected = (
        "django.middleware.security.SecurityMiddleware" in middleware
        and site_settings.SECURE_SSL_REDIRECT
        and not site_settings.SECURE_REDIRECT_EXEMPT
    )
    if is_redirected:
        yield checks.Warning(
            "SECURE_SSL_REDIRECT answers a POST over http with a redirect, which loses its body; "
            "MCP clients report that as a broken server.",
            hint="Give clients the https address, and add r'^mcp/?$' to SECURE_REDIRECT_EXEMPT if "
            "the endpoint is reached over http, from behind a proxy for example.",
            id="django_mcp.W004",
        )
    if "django.middleware.common.CommonMiddleware" in middleware and site_settings.PREPEND_WWW:
        yield checks.Warning(
            "PREPEND_WWW answers a POST without www. with a redirect, which loses its body.",
            hint="Give clients the address with www.",
            id="django_mcp.W004",
        )


def _decorated_views() -> Iterator[CheckMessage]:
    for path in find_decorated():
        yield checks.Warning(
            f"The MCP view at {path} is wrapped in a decorator, so django_mcp_application leaves "
            "it to Django, and what the view is exempt from (CSRF, login, ATOMIC_REQUESTS) may "
            "hold for it.",
            hint="Mount it as it is: include('django_mcp.urls') or server.urls.",
            id="django_mcp.W005",
        )


@register("django_mcp", deploy=True)
def check_skipped_middleware(**_kwargs: Any) -> list[CheckMessage]:
    """I001: the site's middleware does not run for the consumer."""
    skipped = [path for path in site_settings.MIDDLEWARE if path not in settings.MIDDLEWARE]
    if not skipped or not getattr(site_settings, "ASGI_APPLICATION", None):
        return []
    return [
        Info(
            "Where django_mcp_application serves the MCP endpoint, this MIDDLEWARE of the site "
            f"does not run: {', '.join(skipped)}.",
            hint="What MCP calls need of it, such as a tenant, belongs in DJANGO_MCP['MIDDLEWARE'].",
            id="django_mcp.I001",
        )
    ]


@register("django_mcp", deploy=True)
def check_connections(**_kwargs: Any) -> list[CheckMessage]:
    """I002, I003: the number of database connections, and SQLite with several writers."""
    return [*_persistent_connections(), *_deferred_writers()]


def _persistent_connections() -> Iterator[CheckMessage]:
    aliases = [
        alias
        for alias, database in _databases().items()
        if database.get("CONN_MAX_AGE", 0) != 0 and "sqlite" not in database.get("ENGINE", "")
    ]
    if aliases and settings.SYNC_THREADS:
        yield Info(
            f"CONN_MAX_AGE keeps connections of {', '.join(aliases)} open in each of up to "
            f"{settings.SYNC_THREADS} threads for tools (SYNC_THREADS), in every worker process.",
            hint="Keep workers x (SYNC_THREADS + Django's own threads) below the database's limit, "
            "or set CONN_MAX_AGE to 0, with the pool of the database's own OPTIONS if it has one.",
            id="django_mcp.I002",
        )


def _deferred_writers() -> Iterator[CheckMessage]:
    for alias, database in _databases().items():
        options = database.get("OPTIONS") or {}
        if "sqlite" not in database.get("ENGINE", "") or "mode=memory" in str(database.get("NAME")):
            continue
        if str(options.get("transaction_mode", "")).upper() != "IMMEDIATE":
            yield Info(
                f"On the SQLite database {alias!r}, tools that write at the same time can fail with "
                "'database is locked'.",
                hint="Set its OPTIONS to {'transaction_mode': 'IMMEDIATE', 'timeout': 20}.",
                id="django_mcp.I003",
            )


def _databases() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = site_settings.DATABASES
    return found


def _needs_of(server: MCPServer) -> Requirements:
    """Return the access rules of a server's entries; none if its settings cannot be read (E001)."""
    try:
        return server.derived.requirements
    except ImproperlyConfigured:
        return Requirements(Registry(), Options(name=""))


def _is_sound(key: str) -> bool:
    """Return whether a setting can be read; E001 reports what is wrong with it."""
    try:
        getattr(settings, key)
    except ImproperlyConfigured:
        return False
    return True
