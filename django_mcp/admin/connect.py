"""Texts to copy: the configuration of each client for this site's endpoints, and a recorded call as a command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import get_script_prefix
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.texts import escape_invisible
from django_mcp.admin.try_it import write_request
from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.client_config import CLIENTS, KEY_PLACE, needs_key
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.models import APIKey, CallRecord
from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_pretty
from django_mcp.servers import MCPServer, find_server

KEYS_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One server at one URL.

    Attributes:
        server: the name of the server.
        name: its title, or its name.
        url: its endpoint.
        clients: the client's name, its configuration, where to put it, and the address that has the
            client install it, if there is one.
    """

    server: str
    name: str
    url: str
    clients: list[tuple[str, str, str, str]]


def find_endpoints(request: HttpRequest, key: str = "") -> list[Endpoint]:
    """Return every endpoint with a fixed URL, without duplicates, its configurations with a key."""
    found: dict[int, Endpoint] = {}
    origin = origin_of(request) + get_script_prefix().rstrip("/")
    for mount in find_mounts():
        if not mount.is_fixed:
            continue
        server: Any = mount.server
        found.setdefault(id(server), _describe(server, origin + mount.path, key))
    return list(found.values())


def find_own_keys(user: Any) -> list[dict[str, Any]]:
    """Return what may be shown of the user's own valid keys, newest first."""
    if not user.has_perm("django_mcp.view_apikey"):
        return []
    keys = APIKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()), user=user, revoked_at=None
    )
    rows = keys.order_by("-created_at").values("name", "prefix", "expires_at", "last_used_at")
    return [{**row, "name": escape_invisible(row["name"], 80)} for row in rows[:KEYS_SHOWN]]


def _describe(server: MCPServer, url: str, api_key: str) -> Endpoint:
    name, is_keyed, clients = server.name, bool(api_key) or needs_key(server), []
    place = KEY_PLACE if not api_key else f"Bearer {api_key}"
    command = ["claude", "mcp", "add", "--transport", "http", name, url]
    header = ["--header", f"Authorization: {place}"] if is_keyed else []
    run = _("Run this in the folder where you start claude.")
    clients.append(("claude mcp add", shlex.join([*command, *header]), str(run), ""))
    for client, form in CLIENTS.items():
        configuration = form.over_http(name, url, place if is_keyed else None)
        link = form.install_link(name, configuration)
        clients.append((client, encode_pretty(configuration), str(form.where), link))
    title = escape_invisible(str(server.options.title or name), 80)
    return Endpoint(server=name, name=title, url=url, clients=clients)


def kept_arguments(call: CallRecord) -> JSONObject | None:
    """Return the arguments of a call; None if only their kinds were recorded, or a part of them."""
    server = find_server(call.server)
    tool = None if server is None else server.registry.registered("tools").get(call.name)
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
    if arguments is None or server is None:
        return []
    python = (
        "from django_mcp.servers import find_server\n\n"
        f"server = find_server({call.server!r})\n"
        f"print(server.call_tool({call.name!r}, {arguments!r}))"
    )
    texts = [("Python", python)]
    urls = [each.url for each in find_endpoints(request) if each.server == server.name]
    if urls and server.revisions.stateless:
        revision = server.revisions.stateless[-1]
        params: JSONObject = {"name": call.name, "arguments": arguments}
        body = write_request(revision, call.method, params)
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
        texts.insert(0, ("curl", f"curl {shlex.quote(urls[0])}{options} \\\n  -d {data}"))
    return texts
