"""The further URLs of a process that serves one server: what its clients need to authenticate.

The site's own URLconf is used for that, without its other servers: the login page has links to the
rest of the site.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.core.handlers.asgi import ASGIHandler
from django.shortcuts import resolve_url
from django.urls import URLResolver, path

from django_mcp.auth.addresses import METADATA_PATH
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import has_urlconf
from django_mcp.endpoints.well_known import SERVER_PATH, patterns, require_authorization_servers
from django_mcp.transports.http.replies import ASGIApp, not_found
from django_mcp.transports.http.view import EndpointView

if TYPE_CHECKING:
    from django_mcp.servers import MCPServer

urlpatterns: list[Any] = []
"""The URLs of the server that `site_of` was called for."""

OPENID_PATH = "/.well-known/openid-configuration"


def site_of(server: MCPServer) -> ASGIApp:
    """Return the application beside a server, and make this module the process's URLconf.

    It serves the metadata of the protected resource, if an authenticator names authorization servers;
    and this site's own authorization server with the login page, if its tokens are accepted.

    Raises:
        ImproperlyConfigured: clients could not find out where to get tokens.
    """
    site = import_module(site_settings.ROOT_URLCONF) if has_urlconf() else None
    urlpatterns[:] = [
        path("", server.urls),
        *patterns(),
        *_without_servers(getattr(site, "urlpatterns", ())),
    ]
    site_settings.ROOT_URLCONF = __name__
    require_authorization_servers()
    starts, sign_in = tuple(_starts_of(server)), _sign_in_of(server)
    handler = ASGIHandler()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        path = f"{scope['path'].removesuffix('/')}/"
        is_answered = path == sign_in or path.startswith(starts)
        await (handler if is_answered else not_found)(scope, receive, send)

    return serve


def _starts_of(server: MCPServer) -> Iterator[str]:
    if server.authenticators:
        yield f"{METADATA_PATH}/"
    if _takes_own_tokens(server):
        yield f"{SERVER_PATH}/"
        yield f"{OPENID_PATH}/"
        yield f"/{settings.OAUTH_PREFIX}"


def _sign_in_of(server: MCPServer) -> str | None:
    """Return the path of the login page, with a slash at its end; None: it is elsewhere."""
    parts = urlsplit(resolve_url(site_settings.LOGIN_URL))
    is_here = _takes_own_tokens(server) and not parts.netloc
    return f"{parts.path.rstrip('/')}/" if is_here else None


def _takes_own_tokens(server: MCPServer) -> bool:
    return any(each.is_of_this_site for each in server.authenticators)


def _without_servers(found: Any) -> Iterator[Any]:
    for each in found:
        if isinstance(each, URLResolver):
            inside = list(_without_servers(each.url_patterns))
            yield URLResolver(
                each.pattern, inside, each.default_kwargs, each.app_name, each.namespace
            )
        elif not isinstance(each.callback, EndpointView):
            yield each
