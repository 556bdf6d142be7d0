"""Texts to copy: the configuration of each client for this site's endpoints, and a recorded call as a command."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import get_script_prefix

from django_mcp.admin.texts import escape_invisible
from django_mcp.admin.try_it import CLIENT_INFO
from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.client_config import (
    KEY_PLACE,
    as_curl,
    narrowing_of,
    needs_key,
    ways_to_connect,
)
from django_mcp.endpoints.connect import find_urls
from django_mcp.endpoints.mounts import find_path
from django_mcp.endpoints.usable_entries import usable_toolsets
from django_mcp.inprocess.call import ALL_CAPABILITIES, write_request
from django_mcp.known_servers import find_server
from django_mcp.models import APIKey, CallRecord
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode
from django_mcp.servers import MCPServer

KEYS_SHOWN = 50


def find_endpoints(request: HttpRequest, key: str = "") -> list[dict[str, Any]]:
    """Return the `name` or title of each server with a fixed URL, its `url`, and its `clients`.

    Each client has its name, its configuration with the key, where to put that, and the address that
    has the client install it, or an empty text.
    """
    endpoints = []
    for server, url in find_urls(request).items():
        is_keyed = bool(key) or needs_key(server)
        place = KEY_PLACE if not key else f"Bearer {key}"
        authorization = place if is_keyed else None
        clients = ways_to_connect(server, url, authorization)
        title = escape_invisible(str(server.options.title or server.name), 80)
        narrowing = narrowing_of(url, usable_toolsets(request.user, [server]))
        endpoints.append({"name": title, "url": url, "clients": clients, **narrowing})
    return endpoints


def _url_of(request: HttpRequest, path: str) -> str:
    return origin_of(request) + get_script_prefix().rstrip("/") + path


def find_own_keys(user: Any) -> list[dict[str, Any]]:
    """Return what may be shown of the user's own valid keys, newest first."""
    keys = APIKey.objects.valid_of(user)
    rows = keys.values("name", "prefix", "expires_at", "last_used_at")
    return [{**row, "name": escape_invisible(row["name"], 80)} for row in rows[:KEYS_SHOWN]]


def kept_arguments(call: CallRecord) -> JSONObject | None:
    """Return the arguments of a call; None if only their kinds were recorded, or a part of them."""
    server = find_server(call.server)
    tool = None if server is None else server.registry.registered["tools"].get(call.name)
    if call.method != CallRecord.Method.TOOL or not getattr(tool, "record_arguments", False):
        return None
    try:
        arguments: Any = decode(call.arguments.encode()) if call.arguments else {}
    except JSONDecodeError:
        return None
    return arguments if isinstance(arguments, dict) else None


def call_as_texts(request: HttpRequest, call: CallRecord) -> list[tuple[str, str]]:
    """Return titles and texts to copy."""
    arguments, server = kept_arguments(call), find_server(call.server)
    if arguments is None or not isinstance(server, MCPServer):
        return []
    python = (
        "from django_mcp.known_servers import find_server\n\n"
        f"server = find_server({call.server!r})\n"
        f"print(server.call_tool({call.name!r}, {arguments!r}))"
    )
    texts = [("Python", python)]
    path = find_path(server)
    if path is not None and server.engine.revisions.stateless:
        revision = server.engine.revisions.stateless[-1]
        params: JSONObject = {"name": call.name, "arguments": arguments}
        body = write_request(
            call.method, params, revision, capabilities=ALL_CAPABILITIES, client_info=CLIENT_INFO
        )
        place = KEY_PLACE if needs_key(server) else None
        curl = as_curl(_url_of(request, path), body, revision, place)
        texts.insert(0, ("curl", curl))
    return texts
