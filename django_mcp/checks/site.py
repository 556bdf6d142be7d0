"""System checks of a site's servers, hosts, URLs and middleware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags

from django_mcp.checks.declared import check
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_decorated
from django_mcp.servers import MCPServer, all_servers

__all__: list[str] = []


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
