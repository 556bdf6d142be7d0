"""System checks of what a site sets and registers: `DJANGO_MCP`, its servers and their entries, hosts and middleware."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import Any, get_args, get_origin

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model

from django_mcp.checks.declared import check
from django_mcp.conf import find_problems, server_settings, settings, site_aliases
from django_mcp.endpoints.mounts import find_decorated
from django_mcp.middleware import load_middleware
from django_mcp.registry import hints
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.problems import RegistrationError
from django_mcp.servers import MCPServer, all_servers
from django_mcp.tasks.runners import load_runner

_DESCRIBING = {"title", "description", "default"}
"""The keywords of a schema that accepts everything."""


@check()
def check_settings() -> Iterator[CheckMessage]:
    """E001, E002: a wrong value, an unknown key."""
    for problem in find_problems(getattr(site_settings, "DJANGO_MCP", {})):
        id_ = "django_mcp.E002" if problem.is_unknown else "django_mcp.E001"
        yield Error(problem.message, hint=problem.hint, id=id_)


@check(id="django_mcp.E003")
def check_middleware() -> Iterator[CheckMessage]:
    """E003: middleware in `DJANGO_MCP` cannot be loaded."""
    paths = settings.MIDDLEWARE
    try:
        load_middleware(paths, all_servers()[0].answer)
    except ImproperlyConfigured as error:
        yield Error(str(error), hint="Name factories by dotted path.")


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


@check(id="django_mcp.E009")
def check_runner() -> Iterator[CheckMessage]:
    """E009: the task runner cannot be loaded."""
    path = settings.TASK_RUNNER
    try:
        load_runner(path)
    except (ImportError, ImproperlyConfigured, TypeError) as error:
        yield Error(
            f"DJANGO_MCP['TASK_RUNNER'] cannot be loaded: {error}",
            hint="Name a class that takes no arguments, and install what it needs.",
        )


@check(id="django_mcp.E011")
def check_atomic() -> Iterator[CheckMessage]:
    """E011: a synchronous tool would open a transaction on a database that the site does not have."""
    known = [alias for alias, database in site_settings.DATABASES.items() if database]
    listed = ", ".join(map(repr, known)) or "none"
    for source, aliases in _transactions():
        for alias in aliases:
            if alias not in known:
                yield Error(
                    f"{source} names the database {alias!r}, which is not in DATABASES.",
                    hint=f"Databases are: {listed}. False opens no transaction.",
                )


def _transactions() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what names databases, with the aliases: tools, the setting, and servers."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            yield f"{tool.source}: atomic=", tool.handler.aliases or ()
    of_site = site_aliases(server_settings.atomic)
    yield "DJANGO_MCP['ATOMIC']", of_site
    for server in all_servers():
        of_server = site_aliases(server.options.atomic)
        if of_server != of_site:
            yield f"The option atomic of the server {server.name!r}", of_server


@check(id="django_mcp.E014")
def check_returned_models() -> Iterator[CheckMessage]:
    """E014: a function declares that it returns a model, without the fields to publish."""
    for server in all_servers():
        for entry in _returning(server):
            for model in dict.fromkeys(_find_models(_declared(entry))):
                yield Error(
                    f"{entry.source} returns {model.__name__}, and nothing names the fields to publish.",
                    hint="Declare them with a dataclass, a TypedDict or a pydantic model, as in -> "
                    f"list[{model.__name__}Out]; the function may return the {model.__name__} objects "
                    "or a queryset.",
                )


def _returning(server: MCPServer) -> Iterator[Entry]:
    registry = server.registry
    return chain(registry.tools.values(), registry.resources.values(), registry.templates.values())


def _declared(entry: Entry) -> Any:
    try:
        return hints.resolve_hints(entry.handler.origin, entry.source).get("return")
    except RegistrationError:
        return None  # an origin that describes itself by another signature


def _find_models(annotation: Any) -> Iterator[type[Model]]:
    plain = hints.strip(annotation)
    origin, arguments = get_origin(plain), get_args(plain)
    if isinstance(plain, type) and origin is None and issubclass(plain, Model):
        yield plain
    for each in arguments:
        yield from _find_models(each)


@check(id="django_mcp.I007")
def check_descriptions() -> Iterator[CheckMessage]:
    """I007: a tool has no description, which models choose tools by."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            if not tool.description:
                yield Info(
                    f"{tool.source} has no description, so models do not know when to call {tool.name}.",
                    hint="Write a docstring, or description='...'.",
                )


@check(id="django_mcp.I008")
def check_annotations() -> Iterator[CheckMessage]:
    """I008: nothing says what a parameter of a tool is."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            for name in _find_unannotated(tool):
                yield Info(
                    f"{tool.source}: the parameter `{name}` has no annotation, so clients may send "
                    "anything.",
                    hint=f"Annotate it, as in {name}: str.",
                )


def _find_unannotated(tool: ToolEntry) -> Iterator[str]:
    """Yield the arguments of a tool that neither its function nor its schema restricts."""
    published = tool.input_schema.get("properties", {})
    try:
        parameters = inspect.signature(tool.handler.origin).parameters.values()
    except (TypeError, ValueError):
        return
    for each in parameters:
        schema = published.get(each.name)
        is_free = isinstance(schema, dict) and schema.keys() <= _DESCRIBING
        if is_free and each.annotation is inspect.Parameter.empty:
            yield each.name


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


@check(Tags.security, id="django_mcp.W002")
def check_hosts() -> Iterator[CheckMessage]:
    """W002: a web page can reach the endpoint under another host name (DNS rebinding)."""
    if "*" in site_settings.ALLOWED_HOSTS and not site_settings.DEBUG:
        yield checks.Warning(
            "ALLOWED_HOSTS accepts every host, so a web page that points a name of its own at this "
            "site can call the MCP endpoint from the browser of anybody who reaches it.",
            hint="List the names of this site in ALLOWED_HOSTS.",
        )


@check(id="django_mcp.W003")
def check_login_pages() -> Iterator[CheckMessage]:
    """W003: middleware may answer the plain view's clients with a login page."""
    for path in site_settings.MIDDLEWARE:
        # Django's own asks the view, which is exempt.
        if "loginrequired" in path.lower() and not path.startswith("django."):
            yield checks.Warning(
                f"{path} may answer MCP clients with a login page.",
                hint="Exempt the endpoint there, or serve it with django_mcp_application, which "
                "runs none of the site's MIDDLEWARE.",
            )


@check(id="django_mcp.W004")
def check_redirects() -> Iterator[CheckMessage]:
    """W004: middleware redirects a POST."""
    middleware = site_settings.MIDDLEWARE
    if (
        "django.middleware.security.SecurityMiddleware" in middleware
        and site_settings.SECURE_SSL_REDIRECT
        and not site_settings.SECURE_REDIRECT_EXEMPT
    ):
        yield checks.Warning(
            "SECURE_SSL_REDIRECT answers a POST over http with a redirect, which loses its body; "
            "MCP clients report that as a broken server.",
            hint="Give clients the https address, and add r'^mcp/?$' to SECURE_REDIRECT_EXEMPT if "
            "the endpoint is reached over http, from behind a proxy for example.",
        )
    if "django.middleware.common.CommonMiddleware" in middleware and site_settings.PREPEND_WWW:
        yield checks.Warning(
            "PREPEND_WWW answers a POST without www. with a redirect, which loses its body.",
            hint="Give clients the address with www.",
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


@check(deploy=True, id="django_mcp.I001")
def check_skipped_middleware() -> Iterator[CheckMessage]:
    """I001: the site's middleware does not run for the consumer."""
    skipped = [path for path in site_settings.MIDDLEWARE if path not in settings.MIDDLEWARE]
    if skipped and getattr(site_settings, "ASGI_APPLICATION", None):
        yield Info(
            "Where django_mcp_application serves the MCP endpoint, this MIDDLEWARE of the site "
            f"does not run: {', '.join(skipped)}.",
            hint="What MCP calls need of it, such as a tenant, belongs in DJANGO_MCP['MIDDLEWARE'].",
        )


@check(deploy=True, id="django_mcp.I006")
def check_web_resources() -> Iterator[CheckMessage]:
    """I006: a resource has a web URI, which clients may try to fetch.

    Source: 2025-11-25 server/resources "Common URI Schemes".
    """
    for server in all_servers():
        for source, uri in _uris(server):
            if uri.lower().startswith(("https://", "http://")):
                yield Info(
                    f"{source} is served at {uri!r}, which tells clients that they can fetch it "
                    "from the web themselves.",
                    hint="Use a scheme of your own, unless they can.",
                )


def _uris(server: MCPServer) -> Iterator[tuple[str, str]]:
    registry = server.registry
    yield from ((entry.source, uri) for uri, entry in registry.resources.items())
    yield from ((entry.source, str(uri)) for uri, entry in registry.templates.items())
