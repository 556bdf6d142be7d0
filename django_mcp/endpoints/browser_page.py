"""The page for a person whose browser has opened an endpoint: what it is, and how to add it to a client.

Anybody gets it, so it says no more of a server than its metadata and its answers say to anybody.
"""

from __future__ import annotations

import re
import sys
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils import translation
from django.utils.encoding import escape_uri_path

from django_mcp.auth.addresses import origin_of
from django_mcp.conf import settings
from django_mcp.endpoints.client_config import (
    KEY_PLACE,
    configurations_of,
    needs_key,
    texts_of,
)
from django_mcp.endpoints.mounts import resolve
from django_mcp.middleware import find_language
from django_mcp.pages.policy import own_policy
from django_mcp.server.server import BaseServer
from django_mcp.servers import MCPServer

MAX_URL_CHARS = 2048
"""The page repeats the URL for each client, and anybody may ask for any URL with captured values."""

_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]{1,255}[A-Za-z0-9/._~,%-]*")
"""A URL that means nothing to a shell, but for a comma in it: users copy commands with it, also to shells of Windows."""


def render_page(server: BaseServer, request: HttpRequest) -> bytes | None:
    """Return the page of a server in the language of the browser; None for a URL that it cannot show."""
    url = origin_of(request) + escape_uri_path(request.path.rstrip("/"))
    if len(url) > MAX_URL_CHARS or _PLAIN_URL.fullmatch(url) is None:
        return None
    # Not by the cookie or the session: nothing of a request to the endpoint is read from the database.
    language = find_language(request.headers.get("Accept-Language", ""))
    with translation.override(language or translation.get_language()):
        return render_to_string("django_mcp/endpoint.html", _context(server, url)).encode()


def _context(server: BaseServer, url: str) -> dict[str, object]:
    is_open = is_keyed = False
    if isinstance(server, MCPServer):
        authentication = server.engine.authentication
        is_open = authentication is None or authentication.is_public
        is_keyed = needs_key(server)
    # Others learn both only after authentication.
    title, description = texts_of(server) if is_open else ("", "")
    return {
        "title": title,
        "description": description,
        "url": url,
        "clients": configurations_of(url, KEY_PLACE if is_keyed else None),
        "is_keyed": is_keyed,
        "is_open": is_open,
        "sign_in": "" if is_open else _find_sign_in(),
        "policy": f"{own_policy()}; base-uri 'none'; form-action 'none'",
    }


def _find_sign_in() -> str:
    """Return the address that leads to the login; empty if the site has none.

    That is the page Connect where there is one, on which the user then is.
    """
    url = resolve_url(site_settings.LOGIN_URL)
    parts = urlsplit(url)
    if not (parts.netloc or (resolve(parts.path) and _serves(parts.path))):
        return ""
    try:
        page = reverse("django_mcp_connect_page") if settings.CONNECT_PAGE else url
    except NoReverseMatch:
        return url
    return page if _serves(page) else url


def _serves(path: str) -> bool:
    """Return whether the process answers a path of its URLconf: `mcp_serve` answers few."""
    serves_path = getattr(sys.modules.get(site_settings.ROOT_URLCONF), "serves_path", None)
    return serves_path is None or bool(serves_path(path))
