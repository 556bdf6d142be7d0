"""What to copy in order to use an endpoint: the configuration of each client, commands and programs."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from django.utils.translation import gettext_lazy as _

from django_mcp.auth.authenticators import APIKeyAuthenticator, BearerAuthenticator
from django_mcp.protocol import meta as keys
from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.json import JSONObject, encode, encode_pretty, present
from django_mcp.protocol.names import SEGMENT
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.sanitize import clean
from django_mcp.server.server import BaseServer
from django_mcp.servers import MCPServer

MAX_TITLE_CHARS = 80
MAX_DESCRIPTION_CHARS = 500

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


class Configuration(NamedTuple):
    """What to put into one client.

    Attributes:
        client: its name.
        text: what to copy.
        where: where to put it, a lazy text.
        link: the address that has the client install it; empty if there is none.
    """

    client: str
    text: str
    where: Any
    link: str = ""


def ways_to_connect(server: MCPServer, url: str, authorization: str | None) -> list[Configuration]:
    """Return how to use a server at a URL from each client, from curl and from Python."""
    return [*configurations_of(url, authorization), *_programs_of(server, url, authorization)]


def configurations_of(url: str, authorization: str | None) -> list[Configuration]:
    """Return how to add a URL to each client, with the header that it needs."""
    name = entry_name(url)
    command = ["claude", "mcp", "add", "--transport", "http", name, url]
    if authorization:
        command += ["--header", f"Authorization: {authorization}"]
    configurations = [
        Configuration(
            client="claude mcp add",
            text=_join(command, url),
            where=_("Run this in the folder where you start claude."),
        )
    ]
    for client, form in CLIENTS.items():
        configuration = form.over_http(name, url, authorization)
        link = form.install_link(name, configuration)
        text = encode_pretty(configuration)
        configurations.append(Configuration(client=client, text=text, where=form.where, link=link))
    return configurations


def _join(command: list[str], url: str) -> str:
    """Return a command for shells, among which PowerShell takes what a comma separates for two arguments."""
    text = shlex.join(command)
    return text.replace(url, f'"{url}"') if "," in url else text


def _programs_of(server: MCPServer, url: str, authorization: str | None) -> list[Configuration]:
    """Return how to list the tools of a URL with curl, and with the official SDK of Python.

    curl can do so in revisions without a handshake only. Neither can sign in by OAuth as the clients do, so
    they send a key also where OAuth is accepted too.
    """
    programs = []
    if authorization is None and needs_key(server, any):
        authorization = KEY_PLACE
    if stateless := server.engine.revisions.stateless:
        meta = {keys.PROTOCOL_VERSION: stateless[-1].name, keys.CLIENT_CAPABILITIES: {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        curl = as_curl(url, body, stateless[-1], authorization)
        programs.append(Configuration(client="curl", text=curl, where=_("Run this in a terminal.")))
    python = PYTHON_WITH_KEY if authorization else PYTHON
    text = python.format(url=url, headers={"Authorization": authorization})
    where = _('Install the official SDK with: pip install "mcp>=2.3"')
    return [*programs, Configuration(client="Python", text=text, where=where)]


PYTHON = """\
import asyncio

from mcp import Client


async def main() -> None:
    async with Client({url!r}) as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())
"""

PYTHON_WITH_KEY = """\
import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

HEADERS = {headers!r}


async def main() -> None:
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=60) as http,
        Client(streamable_http_client({url!r}, http_client=http)) as client,
    ):
        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())
"""


def as_curl(url: str, body: JSONObject, revision: Revision, authorization: str | None) -> str:
    """Return the command that sends a request of a revision without a handshake."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision.name,
        "Mcp-Method": body["method"],
    }
    if "name" in body["params"]:
        headers["Mcp-Name"] = encode_value(body["params"]["name"])
    if authorization:
        headers["Authorization"] = authorization
    options = "".join(
        f" \\\n  -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()
    )
    data = shlex.quote(encode(body).decode())
    return f"curl {shlex.quote(url)}{options} \\\n  -d {data}"


def entry_name(url: str) -> str:
    """Return the name of a URL's entry in the configuration of a client: its host, and what precedes `/mcp`.

    Two projects have different hosts, but may have servers of one name. It has letters, digits and
    hyphens only, which `claude mcp add` demands.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/mcp")
    return re.sub("[^A-Za-z0-9]+", "-", parts.netloc + path).strip("-") or "server"


def narrowing_of(url: str, toolsets: list[str]) -> dict[str, Any]:
    """Return the toolsets to which a user can narrow a URL, and the URL for the first of them; empty if there is one at most."""
    if len(toolsets) < 2:
        return {}
    return {"toolsets": toolsets, "narrowed": f"{url.rstrip('/')}{SEGMENT}{toolsets[0]}"}


def texts_of(server: BaseServer) -> tuple[str, str]:
    """Return the title and the description of a server as a page shows them."""
    title, description = server.options.title or server.options.name, server.options.description
    return clean(str(title), MAX_TITLE_CHARS), clean(str(description or ""), MAX_DESCRIPTION_CHARS)


def needs_key(server: MCPServer, of: Callable[[Iterable[bool]], bool] = all) -> bool:
    """Return whether the server accepts neither anonymous clients nor OAuth, only API keys.

    With `any`, it may accept OAuth as well.
    """
    authentication = server.engine.authentication
    if authentication is None or authentication.is_public:
        return False
    tokens = [
        authenticator
        for authenticator in authentication.authenticators
        if isinstance(authenticator, BearerAuthenticator)
    ]
    return bool(tokens) and of(
        isinstance(authenticator, APIKeyAuthenticator) for authenticator in tokens
    )
