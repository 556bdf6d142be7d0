"""Texts to copy: the configuration of each client for this site's endpoints, and a recorded call as a command."""

from __future__ import annotations

import shlex
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import get_script_prefix
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.texts import escape_invisible
from django_mcp.admin.try_it import CLIENT_INFO
from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.client_config import CLIENTS, KEY_PLACE, needs_key
from django_mcp.endpoints.mounts import find_mounts, find_path
from django_mcp.inprocess.call import ALL_CAPABILITIES, write_request
from django_mcp.known_servers import find_server
from django_mcp.models import APIKey, CallRecord
from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_pretty
from django_mcp.servers import MCPServer

KEYS_SHOWN = 50


def find_endpoints(request: HttpRequest, key: str = "") -> list[dict[str, Any]]:
    """Return the `name` or title of each server with a fixed URL, its `url`, and its `clients`.

    Each client has its name, its configuration with the key, where to put that, and the address that
    has the client install it, or an empty text.
    """
    urls: dict[Any, str] = {}
    for mount in find_mounts():
        if mount.is_fixed:
            urls.setdefault(mount.server, _url_of(request, mount.path))
    found = []
    for server, url in urls.items():
        name, is_keyed = server.name, bool(key) or needs_key(server)
        place = KEY_PLACE if not key else f"Bearer {key}"
        command = ["claude", "mcp", "add", "--transport", "http", name, url]
        if is_keyed:
            command += ["--header", f"Authorization: {place}"]
        run = _("Run this in the folder where you start claude.")
        clients = [("claude mcp add", shlex.join(command), str(run), "")]
        for client, form in CLIENTS.items():
            configuration = form.over_http(name, url, place if is_keyed else None)
            link = form.install_link(name, configuration)
            clients.append((client, encode_pretty(configuration), str(form.where), link))
        title = escape_invisible(str(server.options.title or name), 80)
        found.append({"name": title, "url": url, "clients": clients})
    return found


def _url_of(request: HttpRequest, path: str) -> str:
    return origin_of(request) + get_script_prefix().rstrip("/") + path


def find_own_keys(user: Any) -> list[dict[str, Any]]:
    """Return what may be shown of the user's own valid keys, newest first."""
    keys = APIKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()), user=user, revoked_at=None
    )
    rows = keys.order_by("-created_at").values("name", "prefix", "expires_at", "last_used_at")
    return [{**row, "name": escape_invisible(row["name"], 80)} for row in rows[:KEYS_SHOWN]]


def kept_arguments(call: CallRecord) -> JSONObject | None:
    """Return the arguments of a call; None if only their kinds were recorded, or a part of them."""
    server = find_server(call.server)
    tool = None if server is None else server.registry.registered["tools"].get(call.name)
    if call.method != CallRecord.Method.TOOL or not getattr(tool, "record_arguments", False):
        return None
    try:
        found: Any = decode(call.arguments.encode()) if call.arguments else {}
    except JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


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
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": revision.name,
            "Mcp-Method": call.method,
            "Mcp-Name": encode_value(call.name),
            **({"Authorization": KEY_PLACE} if needs_key(server) else {}),
        }
        options = "".join(
            f" \\\n  -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()
        )
        data = shlex.quote(encode(body).decode())
        curl = f"curl {shlex.quote(_url_of(request, path))}{options} \\\n  -d {data}"
        texts.insert(0, ("curl", curl))
    return texts
