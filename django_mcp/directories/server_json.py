"""`server.json` of the MCP registry: made from the options of a server, and checked.

The schema has what the registry's own demands of a server at a URL. Packages are the site's own business:
only the members that every kind of package needs are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.directories.addresses import find_obstacle
from django_mcp.endpoints.well_known import authenticators_of
from django_mcp.protocol.json import JSONObject, decode, encode, present
from django_mcp.registry.rules import read_icons
from django_mcp.registry.validators import Validator
from django_mcp.servers import MCPServer

SCHEMA = "server_json.schema.json"
"""The demands, as a JSON Schema, beside this module."""

MAX_OWN_BYTES = 4096
"""The registry keeps so much of what a publisher adds."""

_OWN = "io.modelcontextprotocol.registry/publisher-provided"
RANGE = re.compile(r"[\^~<>=|*]|\s-\s|(^|\.)[xX](\.|$)|^latest$")
"""Versions that stand for several."""

_REMEDIES = {
    "$schema": "Write the file anew with manage.py mcp_server_json.",
    "name": "Give a name of at most 200 characters with --name: the domain that you can prove, reversed, one slash, "
    "and the server, such as com.example/shop.",
    "description": "Say in DESCRIPTION what the server is for, in at most 100 characters.",
    "title": "Set TITLE to at most 100 characters.",
    "version": 'Set VERSION to one version, such as "1.0.0".',
    "websiteUrl": "Set WEBSITE_URL to an address that begins with https://.",
    "icons": "Give each icon in ICONS an https address of at most 255 characters, and the type of a PNG, JPEG, SVG "
    "or WebP.",
    "remotes": "Set PUBLIC_URL to the address at which the internet reaches the site, such as "
    "https://shop.example.com, or give that of the endpoint with --url.",
}
_OTHER_REMEDY = "Correct it in the file."


class RegistryFault(NamedTuple):
    """What the registry would refuse, and the remedy."""

    text: str
    fix: str


def describe(server: MCPServer, url: str, name: str | None = None) -> JSONObject:
    """Return what the registry is told of a server.

    Args:
        server: whose options are told.
        url: of its endpoint, for clients on the internet.
        name: in the registry; None: made from the host and the name of the server.
    """
    options = server.options
    implementation = options.implementation()
    return present(
        **{"$schema": _read_schema()["properties"]["$schema"]["const"]},
        name=name or make_name(server, url),
        title=implementation.get("title"),
        description=implementation.get("description"),
        version=options.version,
        websiteUrl=options.website_url,
        icons=[icon.to_wire() for icon in read_icons(options.icons)] or None,
        remotes=list(find_remotes(server, url)),
    )


def make_name(server: MCPServer, url: str) -> str:
    """Return a name for the registry: the host of the URL reversed, a slash, and the server."""
    labels = (urlsplit(url).hostname or "").split(".")
    own = re.sub(r"[^A-Za-z0-9._-]+", "-", server.name).strip("-._") or "mcp"
    return f"{'.'.join(reversed(labels))}/{own}"


def find_remotes(server: MCPServer, url: str) -> Iterator[JSONObject]:
    """Yield how clients reach a server, by the URL of its endpoint."""
    headers = _find_headers(server)
    yield present(type="streamable-http", url=url, headers=headers)
    if server.options.legacy_sse:
        stream = url.rstrip("/").rpartition("/")[0] + "/sse"
        yield present(type="sse", url=stream, headers=headers)


def _find_headers(server: MCPServer) -> list[JSONObject] | None:
    """Return the header for an API key, if a client can authenticate by nothing else."""
    authentication, authenticators = server.engine.authentication, authenticators_of(server)
    is_open = authentication is None or authentication.is_public
    if is_open or any(each.names_authorization_server() for each in authenticators):
        return None
    if not any(isinstance(each, APIKeyAuthenticator) for each in authenticators):
        return None
    key = {"description": "An API key of the site", "isRequired": True, "isSecret": True}
    header = {"name": "Authorization", "value": "Bearer {api_key}", "variables": {"api_key": key}}
    return [header]


def merge(kept: Mapping[str, Any], described: JSONObject) -> JSONObject:
    """Return a file's document with what is known of the server; what else the file has stays.

    Remotes stay as they are in the file if the endpoint is among them, since their variables and headers
    may be written by hand.
    """
    merged = {**kept, **described}
    if _has_remotes(kept, described):
        merged["remotes"] = kept["remotes"]
    return merged


def find_differences(kept: Mapping[str, Any], described: JSONObject) -> list[str]:
    """Return the members of a file's document that do not agree with the options of the server."""
    return [
        key
        for key, value in described.items()
        if (not _has_remotes(kept, described) if key == "remotes" else kept.get(key) != value)
    ]


def _has_remotes(kept: Mapping[str, Any], described: JSONObject) -> bool:
    remotes = kept.get("remotes")
    if not isinstance(remotes, list):
        return False
    places = [(each.get("type"), each.get("url")) for each in remotes if isinstance(each, dict)]
    return all((each["type"], each["url"]) in places for each in described["remotes"])


@cache
def _read_schema() -> JSONObject:
    schema: JSONObject = decode(files(__package__).joinpath(SCHEMA).read_bytes())
    return schema


@cache
def _validator() -> Validator:
    return Validator(_read_schema(), "server.json", is_input=False)


def find_faults(document: JSONObject) -> Iterator[RegistryFault]:
    """Yield what the registry would refuse in a document, and addresses that clients would not reach."""
    for problem in _validator().problems(document):
        member = problem.pointer.split("/")[1] if problem.pointer else ""
        text = f"server.json: {problem.pointer}: {problem.message}"
        yield RegistryFault(text, _REMEDIES.get(member, _OTHER_REMEDY))
    version = document.get("version")
    if isinstance(version, str) and RANGE.search(version):
        text = f"server.json: the version {version!r} is no single version"
        yield RegistryFault(text, _REMEDIES["version"])
    remotes = document.get("remotes")
    if not remotes and not document.get("packages"):
        yield RegistryFault("server.json names no address of the server", _REMEDIES["remotes"])
    for remote in remotes if isinstance(remotes, list) else ():
        url = remote.get("url") if isinstance(remote, dict) else None
        # A variable may stand for any part of the address.
        if isinstance(url, str) and "{" not in url and (obstacle := find_obstacle(url)):
            text = f"server.json: clients would not reach {url}: it {obstacle}"
            yield RegistryFault(text, _REMEDIES["remotes"])
    meta = document.get("_meta")
    if isinstance(meta, dict) and len(encode(meta.get(_OWN, {}))) > MAX_OWN_BYTES:
        text = f"server.json: {_OWN} is larger than {MAX_OWN_BYTES} bytes"
        yield RegistryFault(text, "Leave some of it out.")
