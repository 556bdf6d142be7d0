"""The documents at the origin's root, which pages of any origin may read: the metadata of resources (RFC 9728) and of OAuth, and a directory's token.

They are plain Django views, so the ASGI wrapper leaves them to the site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.urls import URLPattern, URLResolver, get_script_prefix, path
from django.views.decorators.csrf import csrf_exempt

from django_mcp.auth.addresses import METADATA_PATH, origin_of
from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.scopes import baseline_scopes
from django_mcp.conf import settings
from django_mcp.endpoints.connect import CONNECT_PATH, connect_page
from django_mcp.endpoints.mounts import find_mounts, resolve
from django_mcp.extension_packages import load_parts
from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.visibility import Narrowing
from django_mcp.servers import MCPServer, all_servers
from django_mcp.transports.http.guard import MAX_AGE_S
from django_mcp.transports.http.narrowing import find_narrowing
from django_mcp.transports.http.view import EndpointView

View: TypeAlias = Callable[..., HttpResponseBase]

_REQUEST_HEADERS = "Authorization, Content-Type, MCP-Protocol-Version"

SERVER_PATH = "/.well-known/oauth-authorization-server"
CHALLENGE_PATH = "/.well-known/openai-apps-challenge"
_REMEDY = (
    "Add 'oauth2_provider' and 'django_mcp.contrib.oauth' to INSTALLED_APPS and "
    'path("", include("django_mcp.urls")) to the root URLconf.'
)
_NAMING_REMEDY = (
    "Set its authorization_servers, or needs_authorization_server = False if clients get its tokens by "
    "other means."
)


@runtime_checkable
class DocumentsApp(Protocol):
    """An installed app with more documents for the root of the URLconf, as its `AppConfig` has the method."""

    def mcp_urlpatterns(self) -> list[URLPattern | URLResolver]:
        """Return the URL patterns of its documents."""


def require_authorization_servers() -> None:
    """Check that clients can find out where to get tokens.

    The ASGI wrapper calls it at the start. Without the wrapper there is no URLconf until the first
    request, so a view calls it on first use. It raises `ImproperlyConfigured` if a server accepts tokens
    of this site's authorization server, whose metadata does not exist, or of one that nothing names.
    """
    for text, remedy in chain(find_unnamed(), find_unreachable()):
        raise ImproperlyConfigured(f"{text} {remedy}")


def find_unnamed() -> Iterator[tuple[str, str]]:
    """Yield which authenticators of tokens name no authorization server, with the remedy."""
    for server, taker in _mounted_authenticators():
        if taker.needs_authorization_server and not taker.names_authorization_server():
            text = (
                f"The MCP server {server.name!r} takes bearer tokens, and "
                f"{type(taker).__name__} names no authorization server, so clients cannot get one."
            )
            yield text, _NAMING_REMEDY


def find_unreachable() -> Iterator[tuple[str, str]]:
    """Yield which servers take tokens of this site's authorization server, if it is missing."""
    if resolve(SERVER_PATH) and resolve(METADATA_PATH):
        return
    for name in {each.name for each, taker in _mounted_authenticators() if taker.is_of_this_site}:
        text = (
            f"The MCP server {name!r} takes tokens of this site's authorization server, and there "
            f"is none: {SERVER_PATH} and {METADATA_PATH} must answer."
        )
        yield text, _REMEDY


def find_undescribed() -> list[MCPServer]:
    """Return the servers that accept tokens of other issuers, if no metadata names these."""
    if resolve(METADATA_PATH):
        return []
    takers = (server for server, each in _mounted_authenticators() if each.authorization_servers)
    return list(dict.fromkeys(takers))


def _mounted_authenticators() -> Iterator[tuple[MCPServer, Authenticator]]:
    mounted = {mount.server for mount in find_mounts()}
    for server in all_servers():
        if server in mounted:
            yield from ((server, authenticator) for authenticator in authenticators_of(server))


def authenticators_of(server: MCPServer) -> Sequence[Authenticator]:
    """Return the authenticators of a server; none if everybody may call it."""
    return (
        () if server.engine.authentication is None else server.engine.authentication.authenticators
    )


class Endpoint(NamedTuple):
    """What is at a path: the server, and what the path narrows it to."""

    server: MCPServer
    narrowing: Narrowing | None


def endpoint_at_path(path_info: str) -> Endpoint | None:
    """Return the endpoint, or stream of HTTP+SSE, that has a path, or None."""
    match = resolve(path_info)
    server = match.func.server if match and isinstance(match.func, EndpointView) else None
    if match is None or not isinstance(server, MCPServer):
        return None
    return Endpoint(server, find_narrowing(Headers([]), match.kwargs))


def server_at_path(path_info: str) -> MCPServer | None:
    """Return the server whose endpoint, or stream of HTTP+SSE, has a path, or None."""
    endpoint = endpoint_at_path(path_info)
    return None if endpoint is None else endpoint.server


def patterns() -> list[URLPattern | URLResolver]:
    """Return the URL patterns of the documents and of the page Connect, for the root of the URLconf."""
    view = open_to_pages("GET", "HEAD")(protected_resource)
    name = METADATA_PATH.removeprefix("/")
    urls: list[URLPattern | URLResolver] = [
        path(name, view),
        path(f"{name}/<path:resource_path>", view),
        path(CHALLENGE_PATH.removeprefix("/"), open_to_pages("GET", "HEAD")(openai_challenge)),
    ]
    urls.append(path(CONNECT_PATH.removeprefix("/"), connect_page, name="django_mcp_connect_page"))
    for part in load_parts("site.urls"):
        urls += part.root_patterns()
    for config in apps.get_app_configs():
        if isinstance(config, DocumentsApp):
            urls += config.mcp_urlpatterns()
    return urls


def protected_resource(request: HttpRequest, resource_path: str = "") -> HttpResponseBase:
    """Return the metadata of the endpoint with a path; without a path, of the root's server."""
    prefix = get_script_prefix()
    path_info = f"/{resource_path}" if resource_path else find_root_path() or "/"
    if prefix != "/" and path_info.startswith(prefix):
        path_info = path_info.removeprefix(prefix.rstrip("/"))
    server = server_at_path(path_info)
    issuers = [] if server is None else find_issuers(server, request)
    if server is None or server.engine.authentication is None or not issuers:
        return refusal("not_found", "No protected resource is at this path", 404)
    scopes = list(
        dict.fromkeys((*server.engine.authentication.required_scopes, *baseline_scopes(server)))
    )
    options = server.options
    document = {
        "resource": origin_of(request) + get_script_prefix().rstrip("/") + path_info.rstrip("/"),
        "authorization_servers": issuers,
        "bearer_methods_supported": ["header"],
        "resource_name": str(options.title or options.name),
        **({"scopes_supported": scopes} if scopes else {}),
        **({"resource_documentation": options.website_url} if options.website_url else {}),
    }
    return JsonResponse(document)


def openai_challenge(_request: HttpRequest) -> HttpResponseBase:
    """Return the token of `OPENAI_APPS_CHALLENGE`, by which OpenAI sees whose the domain is."""
    token = settings.OPENAI_APPS_CHALLENGE
    if token is None:
        return refusal("not_found", "No token is set", 404)
    return HttpResponse(token, content_type="text/plain")


def find_issuers(server: Any, request: HttpRequest) -> list[str]:
    """Return the issuers whose tokens a server accepts, without duplicates."""
    issuers = (
        authenticator.find_authorization_servers(request)
        for authenticator in authenticators_of(server)
    )
    return list(dict.fromkeys(chain.from_iterable(issuers)))


def find_root_path() -> str | None:
    """Return the path of the root metadata's endpoint: the default server's, or the only one."""
    endpoints = {mount.server: mount.path for mount in reversed(find_mounts()) if mount.is_fixed}
    for server, endpoint in endpoints.items():
        if getattr(server, "is_default", False) or len(endpoints) == 1:
            return endpoint
    return None


def open_to_pages(*methods: str) -> Callable[[View], View]:
    """Let web pages of any origin use a view by these methods, without their cookies.

    Clients that run in a browser read the metadata and exchange codes for tokens this way.
    """
    allowed = ", ".join((*methods, "OPTIONS"))

    def decorate(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "OPTIONS":
                response: HttpResponseBase = HttpResponse(status=204)
                response["Access-Control-Allow-Methods"] = allowed
                response["Access-Control-Allow-Headers"] = _REQUEST_HEADERS
                response["Access-Control-Max-Age"] = str(MAX_AGE_S)
            elif request.method not in methods:
                response = refusal("invalid_request", f"Only {allowed} is answered here", 405)
                response["Allow"] = allowed
            else:
                response = view(request, *args, **kwargs)
            response["Access-Control-Allow-Origin"] = "*"
            return response

        vars(serve)["login_required"] = False
        return serve

    return decorate


def refusal(error: str, description: str, status: int) -> JsonResponse:
    """Return an error in the form of OAuth (RFC 6749 section 5.2)."""
    response = JsonResponse({"error": error, "error_description": description}, status=status)
    response["Cache-Control"] = "no-store"
    return response
