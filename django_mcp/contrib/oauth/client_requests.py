"""The requests of an OAuth client that the doctor plays: the authorization URL, forms to the server, calls of the endpoint."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django_mcp.management.doctor.http import Answer, ask
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import encode
from django_mcp.protocol.revisions import REVISIONS

_NEWEST = REVISIONS[-1]
_HANDSHAKE = next(revision for revision in reversed(REVISIONS) if not revision.is_stateless)


def authorization_url(
    server: Mapping[str, Any], verifier: str, query: Mapping[str, str], **changes: str | None
) -> str:
    """Return the URL for a person, with PKCE.

    Args:
        server: the metadata of the authorization server, as in `post_form`.
        verifier: of PKCE.
        query: the other parameters.
        changes: replace parameters; None removes one.
    """
    digest = hashlib.sha256(verifier.encode()).digest()
    parameters: dict[str, str | None] = {
        "response_type": "code",
        **query,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        **changes,
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{server['authorization_endpoint']}?{urlencode(given)}"


def post_form(server: Mapping[str, Any], endpoint: str, form: Mapping[str, str]) -> Answer:
    """Return the response to a form at an endpoint that the metadata names."""
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    return ask("POST", str(server[endpoint]), urlencode(form).encode(), headers)


def ask_endpoint(
    url: str, token: str, client_name: str, method: str, params: Mapping[str, Any]
) -> Answer:
    """Return the answer to an MCP request in the newest revision that the endpoint takes.

    Header names are in lower case, as HTTP/2 and most clients have them.
    """
    info = {"name": client_name, "version": "1"}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {token}",
    }
    meta = {
        keys.PROTOCOL_VERSION: _NEWEST.name,
        keys.CLIENT_INFO: info,
        keys.CLIENT_CAPABILITIES: {},
    }
    own = {"mcp-protocol-version": _NEWEST.name, "mcp-method": method}
    if "name" in params:
        own["mcp-name"] = params["name"]
    answer = _send(url, headers | own, method, {**params, "_meta": meta})
    if answer.status != 400:
        return answer
    # The server wants a handshake.
    about = {"protocolVersion": _HANDSHAKE.name, "capabilities": {}, "clientInfo": info}
    hello = _send(url, headers, "initialize", about)
    if hello.status != 200:
        return hello
    headers["mcp-protocol-version"] = _HANDSHAKE.name
    session = hello.headers.get("mcp-session-id")
    if session is None:
        return _send(url, headers, method, params)
    headers["mcp-session-id"] = session
    try:
        return _send(url, headers, method, params)
    finally:
        ask("DELETE", url, None, headers)


def _send(url: str, headers: Mapping[str, str], method: str, params: Mapping[str, Any]) -> Answer:
    body = encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return ask("POST", url, body, headers)
