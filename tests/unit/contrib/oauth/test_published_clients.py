"""The clients that the package keeps as data."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from django_mcp.contrib.oauth.published_clients import (
    PublishedClient,
    find_published_clients,
    read_published_clients,
)

CLIENTS = read_published_clients()


def test_each_client_that_the_documentation_names_is_known():
    assert {client.name for client in CLIENTS} >= {
        "Claude",
        "Claude Code",
        "ChatGPT",
        "VS Code",
        "Cursor",
        "Codex",
        "Goose",
        "Gemini CLI",
        "opencode",
        "mcp-remote",
    }


def test_the_table_of_the_documentation_has_each_client_with_its_dates():
    page = Path(__file__).parents[4] / "docs" / "howto" / "clients.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines()]
    told = {row[0].removeprefix("| "): row[1:3] for row in rows if len(row) == 5}

    ways = {"document": "a document", "registration": "registration"}
    for name in {client.name for client in CLIENTS}:
        own = [client for client in CLIENTS if client.name == name]
        kinds = ", ".join(ways[client.kind] for client in own)
        assert told[name] == [kinds, ", ".join(str(client.date) for client in own)]


def test_no_client_occurs_twice_in_one_way():
    assert len({(client.name, client.kind) for client in CLIENTS}) == len(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_document_names_itself_and_a_registration_does_not(client: PublishedClient):
    assert ("client_id" in client.metadata) == (client.kind == "document")
    assert client.source.startswith("https://")


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_the_redirect_is_one_that_the_client_declares_but_for_its_loopback_port(
    client: PublishedClient,
):
    used = urlsplit(client.redirect_uri)
    declared = [urlsplit(uri) for uri in client.metadata["redirect_uris"]]
    assert (used.scheme, used.hostname, used.path) in {
        (uri.scheme, uri.hostname, uri.path) for uri in declared
    }


def test_clients_are_found_by_their_names_in_any_case():
    found = find_published_clients(["vs code", "Cursor"])

    assert [str(client) for client in found] == [
        "VS Code (document)",
        "VS Code (registration)",
        "Cursor (registration)",
    ]


def test_an_unknown_name_is_told_with_those_that_there_are():
    with pytest.raises(LookupError, match=r"No client is named 'Netscape'\. There are: Claude,"):
        find_published_clients(["Netscape"])
