"""The URLs of the cards of servers, and of their catalog."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, get_script_prefix, path
from django.utils.cache import get_conditional_response

from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.endpoints.well_known import View, find_root_path, open_to_pages, refusal
from django_mcp.endpoints.well_known import server_at_path as find_server
from django_mcp.extensions.cards.site.documents import (
    CARD_TYPE,
    CATALOG_TYPE,
    make_card,
    make_catalog,
)
from django_mcp.process import reset_on
from django_mcp.protocol.json import encode
from django_mcp.server.server import BaseServer
from django_mcp.servers import MCPServer

SUFFIX = "/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"
ALIAS_PATH = "/.well-known/mcp/server-card.json"
"""Where scanners look that know an earlier draft."""

MAX_KEPT = 256
"""Cards that are kept in memory: the host of a request and the values in a path make others."""

MAX_KEPT_CHARS = 1_000
"""Of the URLs in a document that is kept: some servers let through hosts and paths of megabytes."""

_HEADERS = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Content-Type, If-None-Match",
    "Access-Control-Expose-Headers": "ETag",
    "Cache-Control": "public, max-age=3600",
}
"""Source: experimental-ext-server-card, docs/discovery.md."""


class _Document(NamedTuple):
    body: bytes
    etag: str


def patterns_of(server: BaseServer) -> list[URLPattern]:
    """Return the URL patterns beside the endpoint of a server."""
    if not isinstance(server, MCPServer):
        return []

    def card(request: HttpRequest, **_captured: object) -> HttpResponseBase:
        return _respond(request, _find_card(server, _url_of(request)), CARD_TYPE)

    view = _open(card)
    return [path(f"mcp{SUFFIX}", view, name="card"), path(f"mcp{SUFFIX}/", view)]


def root_patterns() -> list[URLPattern]:
    """Return the URL patterns at the root of the site."""
    return [
        path(CATALOG_PATH.removeprefix("/"), _open(catalog)),
        path(ALIAS_PATH.removeprefix("/"), _open(root_card)),
    ]


def catalog(request: HttpRequest) -> HttpResponseBase:
    """Return the catalog of the servers that have cards."""
    return _respond(request, _find_catalog(_origin_of(request)), CATALOG_TYPE)


def root_card(request: HttpRequest) -> HttpResponseBase:
    """Return the card of the default server, or of the only one."""
    path = find_root_path()
    server = None if path is None else find_server(path)
    if path is None or server is None:
        return _respond(request, None, CARD_TYPE)
    return _respond(request, _find_card(server, _origin_of(request) + path), CARD_TYPE)


def _open(view: View) -> View:
    opened = open_to_pages("GET", "HEAD")(view)

    def serve(request: HttpRequest, **captured: object) -> HttpResponseBase:
        response = opened(request, **captured)
        for name, value in _HEADERS.items():
            if name != "Cache-Control" or response.status_code in (200, 304):
                response[name] = value
        return response

    vars(serve).update(vars(opened))
    return serve


def _respond(
    request: HttpRequest, document: _Document | None, content_type: str
) -> HttpResponseBase:
    if document is None:
        return refusal("not_found", "There is no server card here", 404)
    response = HttpResponse(document.body, content_type=content_type)
    response["ETag"] = document.etag
    # It returns a response wherever it gets one, which its stubs do not know.
    return get_conditional_response(request, etag=document.etag, response=response) or response


def _find_named() -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each server that has a card, once."""
    seen: set[BaseServer] = set()
    for mount in find_mounts():
        name = mount.server.options.card_name
        if mount.is_fixed and name is not None and mount.server not in seen:
            seen.add(mount.server)
            yield mount.path, name


def _origin_of(request: HttpRequest) -> str:
    return origin_of(request) + get_script_prefix().rstrip("/")


def _url_of(request: HttpRequest) -> str:
    """Return the URL of the endpoint beside which a card is asked for."""
    return _origin_of(request) + request.path_info.rstrip("/").removesuffix(SUFFIX)


def _find_card(server: MCPServer, url: str) -> _Document | None:
    make = _keep_card if len(url) <= MAX_KEPT_CHARS else _keep_card.__wrapped__
    return make(server, url)


@lru_cache(MAX_KEPT)
def _keep_card(server: MCPServer, url: str) -> _Document | None:
    card = make_card(server, url)
    return None if card is None else _encode(card)


def _find_catalog(origin: str) -> _Document | None:
    cards = tuple((name, origin + path + SUFFIX) for path, name in _find_named())
    if not cards:
        return None
    make = _keep_catalog if len(origin) <= MAX_KEPT_CHARS else _keep_catalog.__wrapped__
    return make(cards)


@lru_cache(MAX_KEPT)
def _keep_catalog(cards: tuple[tuple[str, str], ...]) -> _Document:
    return _encode(make_catalog(cards))


def _encode(document: object) -> _Document:
    body = encode(document)
    return _Document(body, f'"{sha256(body).hexdigest()[:32]}"')


reset_on(_keep_card.cache_clear, settings=("DJANGO_MCP", "LANGUAGE_CODE"))
