"""A recorded call as a command and as Python, where its arguments were kept."""

from __future__ import annotations

import shlex
from typing import Any

from django.http import HttpRequest

from django_mcp.admin.connect import find_endpoints
from django_mcp.admin.try_it import write_request
from django_mcp.endpoints.client_config import KEY_PLACE, needs_key
from django_mcp.models import CallRecord
from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode
from django_mcp.servers import find_server


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


def as_texts(request: HttpRequest, call: CallRecord) -> list[tuple[str, str]]:
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
    urls = [each.url for each in find_endpoints(request) if each.name == server.name]
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
