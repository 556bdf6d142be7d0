"""The configuration of each client for an endpoint."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.utils.translation import gettext_lazy as _

from django_mcp.auth.authenticators import APIKeyAuthenticator, BearerAuthenticator
from django_mcp.protocol.json import JSONObject, encode, present
from django_mcp.servers import MCPServer

KEY_PLACE = "Bearer <your key>"
"""Stands for the API key, which is shown only once."""


def _cursor_link(name: str, entry: JSONObject) -> str:
    query = urlencode({"name": name, "config": base64.b64encode(encode(entry)).decode()})
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{query}"


def _vscode_link(name: str, entry: JSONObject) -> str:
    return f"vscode:mcp/install?{quote(encode({'name': name, **entry}))}"


@dataclass(frozen=True, kw_only=True)
class Client:
    """The form of a client's configuration.

    Attributes:
        where: where to put it, a lazy text.
        key: of the servers in it.
        http_type, stdio_type: the type of a server; None: it is not named.
        only_starts_programs: it needs one that forwards messages to a URL.
        make_link: returns the address that has the client's program add an entry; None: it has none.
    """

    where: Any
    key: str = "mcpServers"
    http_type: str | None = "http"
    stdio_type: str | None = "stdio"
    only_starts_programs: bool = False
    make_link: Callable[[str, JSONObject], str] | None = None

    def over_http(self, name: str, url: str, authorization: str | None) -> JSONObject:
        """Return the configuration for a server at a URL, with the header that it needs."""
        headers = {"Authorization": authorization} if authorization else None
        entry = present(type=self.http_type, url=url, headers=headers)
        if self.only_starts_programs:
            entry = {"command": "npx", "args": ["-y", "mcp-remote", url]}
            if authorization:
                # On Windows, it starts programs in a way that splits arguments at spaces.
                entry["args"] += ["--header", "Authorization:${AUTHORIZATION}"]
                entry["env"] = {"AUTHORIZATION": authorization}
        return {self.key: {name: entry}}

    def over_stdio(self, name: str, command: list[str], env: Mapping[str, str]) -> JSONObject:
        """Return the configuration for a server that the client starts by a command."""
        program, *args = command
        entry = present(type=self.stdio_type, command=program, args=args, env=dict(env))
        return {self.key: {name: entry}}

    def install_link(self, name: str, configuration: JSONObject) -> str:
        """Return the address that has the client add the server; empty if there is none.

        It stays on the user's computer, so that an API key in it goes to nobody else.
        """
        return "" if self.make_link is None else self.make_link(name, configuration[self.key][name])


CLIENTS = {
    "claude-desktop": Client(
        where=_(
            "Add it to claude_desktop_config.json (Settings > Developer > Edit Config) and restart Claude Desktop."
        ),
        stdio_type=None,
        only_starts_programs=True,
    ),
    "claude-code": Client(where=_("Add it to .mcp.json in the folder where you start claude.")),
    "cursor": Client(
        where=_("Add it to .cursor/mcp.json of the project, or to ~/.cursor/mcp.json."),
        http_type=None,
        stdio_type=None,
        make_link=_cursor_link,
    ),
    "vscode": Client(
        where=_("Add it to .vscode/mcp.json of the workspace."),
        key="servers",
        make_link=_vscode_link,
    ),
    "inspector": Client(
        where=_(
            "Save it as mcp.json and run: npx @modelcontextprotocol/inspector --config mcp.json"
        ),
        http_type="streamable-http",
    ),
}


def needs_key(server: MCPServer) -> bool:
    """Return whether the server accepts neither anonymous clients nor OAuth, only API keys."""
    authentication = server.engine.authentication
    if authentication is None or authentication.is_public:
        return False
    tokens = [
        each for each in authentication.authenticators if isinstance(each, BearerAuthenticator)
    ]
    return bool(tokens) and all(isinstance(each, APIKeyAuthenticator) for each in tokens)
