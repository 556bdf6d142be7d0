"""The configuration of each client for an endpoint."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_mcp.auth import APIKeyAuthenticator, BearerAuthenticator
from django_mcp.protocol.json import JSONObject
from django_mcp.servers import MCPServer

__all__ = ["WHERE", "needs_key", "over_http"]

KEY_PLACE = "Bearer <your key>"
"""Stands for the API key, which is shown only once."""

WHERE = {
    "claude-desktop": _(
        "Put it into claude_desktop_config.json (Settings > Developer > Edit Config) and start Claude Desktop anew."
    ),
    "claude-code": _("Put it into .mcp.json in the folder where you start claude."),
    "cursor": _("Put it into .cursor/mcp.json of the project, or ~/.cursor/mcp.json."),
    "vscode": _("Put it into .vscode/mcp.json of the workspace."),
    "inspector": _(
        "Save it as mcp.json and run: npx @modelcontextprotocol/inspector --config mcp.json"
    ),
}
"""The clients, with instructions for each configuration."""


def over_http(client: str, url: str, *, needs_key: bool = False) -> JSONObject:
    """Return the entry for a client to use an endpoint, with a place for an API key if needed."""
    headers = {"headers": {"Authorization": KEY_PLACE}} if needs_key else {}
    match client:
        case "claude-desktop":
            # Its configuration file only allows programs; this one forwards messages to a URL.
            entry: JSONObject = {"command": "npx", "args": ["-y", "mcp-remote", url]}
            if needs_key:
                # On Windows, it starts programs in a way that splits arguments at spaces.
                entry["args"] += ["--header", "Authorization:${AUTHORIZATION}"]
                entry["env"] = {"AUTHORIZATION": KEY_PLACE}
            return entry
        case "cursor":
            return {"url": url, **headers}
        case "inspector":
            return {"type": "streamable-http", "url": url, **headers}
    return {"type": "http", "url": url, **headers}


def needs_key(server: MCPServer) -> bool:
    """Return whether the server accepts neither anonymous clients nor OAuth, only API keys."""
    gate = server.gate
    if gate is None or gate.is_public:
        return False
    tokens = [each for each in gate.authenticators if isinstance(each, BearerAuthenticator)]
    return bool(tokens) and all(isinstance(each, APIKeyAuthenticator) for each in tokens)
