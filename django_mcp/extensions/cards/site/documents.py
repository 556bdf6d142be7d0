"""The card of a server, made from its options, and the catalog of the cards of a site.

Source: SEP-2127, and the schema of 24 July 2026 in modelcontextprotocol/experimental-ext-server-card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.utils.translation import override

from django_mcp.directories.server_json import RANGE, find_remotes
from django_mcp.protocol.json import JSONObject, decode, present
from django_mcp.registry.validators import Validator
from django_mcp.servers import MCPServer

SCHEMA_URL: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"


def make_card(server: MCPServer, url: str) -> JSONObject | None:
    """Return the card of a server, in the site's language; None: it has no name for one.

    Args:
        server: whose options are told.
        url: of its endpoint.
    """
    options = server.options
    if options.card_name is None:
        return None
    with override(site_settings.LANGUAGE_CODE):
        told = options.implementation()
    versions = server.engine.revisions.names()
    remotes = [
        {**remote, "supportedProtocolVersions": versions}
        if remote["type"] == "streamable-http"
        else remote
        for remote in find_remotes(server, url)
    ]
    return present(
        **{"$schema": SCHEMA_URL},
        name=options.card_name,
        version=options.version,
        title=told.get("title"),
        description=told.get("description"),
        websiteUrl=options.website_url,
        icons=told.get("icons"),
        remotes=remotes,
    )


def make_catalog(cards: Iterable[tuple[str, str]]) -> JSONObject:
    """Return the catalog of a site; each card is a name and a URL."""
    entries = [
        {"identifier": _identify(name), "type": CARD_TYPE, "url": url} for name, url in cards
    ]
    return {"specVersion": "1.0", "entries": entries}


def _identify(name: str) -> str:
    """Return `urn:air:example.com:mcp:shop` for the name `com.example/shop`."""
    domain, _, own = name.partition("/")
    return f"urn:air:{'.'.join(reversed(domain.split('.')))}:mcp:{own}"


def find_faults(card: JSONObject) -> Iterator[str]:
    """Yield what clients would refuse in a card."""
    for problem in _validator().problems(card):
        yield f"{problem.pointer or 'the card'}: {problem.message}"
    if RANGE.search(card["version"]):
        yield f"/version: {card['version']!r} is no single version"
    for remote in card.get("remotes", ()):
        if urlsplit(remote["url"]).scheme != "https":
            yield f"/remotes: {remote['url']} is not https"


@cache
def _validator() -> Validator:
    schema: JSONObject = decode(files(__package__).joinpath("card.schema.json").read_bytes())
    return Validator(schema, "a server card", is_input=False)
