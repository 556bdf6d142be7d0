"""Server cards: what a client can read of a server before it connects."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.core.checks import run_checks
from django.test import Client, override_settings
from django.urls import include, path
from django.utils.translation import gettext_lazy

from django_mcp import MCPServer, default_server
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.endpoints.urlconf import site_of
from django_mcp.extensions.cards.site.documents import find_faults
from django_mcp.test import MCPClient

CARD = "/mcp/server-card"
ALIAS = "/.well-known/mcp/server-card.json"
CATALOG = "/.well-known/ai-catalog.json"
SHOP = {
    "NAME": "shop",
    "CARD_NAME": "org.example/shop",
    "TITLE": "The shop",
    "DESCRIPTION": gettext_lazy("Delete"),
    "VERSION": "2.1.0",
    "WEBSITE_URL": "https://shop.example.org/about",
    "ICONS": ["https://shop.example.org/icon.png"],
    "PUBLIC": True,
    "PUBLIC_URL": "https://shop.example.org",
}

staff = MCPServer("cards-staff", permission="auth.view_user")
keys = MCPServer(
    "cards-keys",
    authenticators=[APIKeyAuthenticator()],
    card_name="org.example/keys",
    description="With keys.",
    legacy_sse=True,
)
by_tenant = MCPServer(
    "cards-tenant", public=True, card_name="org.example/of", description="Of one."
)

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("staff/", staff.urls),
    path("keys/", keys.urls),
    path("of/<slug:tenant>/", by_tenant.urls),
]


@pytest.fixture(autouse=True)
def _site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP=SHOP):
        yield


def test_the_card_says_what_and_where_the_server_is():
    response = Client().get(CARD, headers={"accept": "application/mcp-server-card+json"})

    assert response.status_code == 200
    assert response["Content-Type"] == "application/mcp-server-card+json"
    card = response.json()
    versions = card["remotes"][0].pop("supportedProtocolVersions")
    assert card == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "org.example/shop",
        "version": "2.1.0",
        "title": "The shop",
        "description": "Delete",
        "websiteUrl": "https://shop.example.org/about",
        "icons": [{"src": "https://shop.example.org/icon.png"}],
        "remotes": [{"type": "streamable-http", "url": "https://shop.example.org/mcp"}],
    }
    assert "2026-07-28" in versions
    assert list(find_faults(response.json())) == []


def test_the_card_does_not_contradict_the_server():
    told = MCPClient(default_server, revision="2026-07-28").discover()

    card = Client().get(CARD).json()

    info = told["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert card["name"].endswith(f"/{info['name']}")
    for name in ("version", "title", "description", "websiteUrl", "icons"):
        assert card[name] == info[name]
    assert set(told["supportedVersions"]) <= set(card["remotes"][0]["supportedProtocolVersions"])


@pytest.mark.parametrize("url", [CARD, ALIAS, CATALOG])
def test_pages_of_any_origin_may_read_and_cache_it(url: str):
    response = Client().get(url, headers={"origin": "https://other.example"})
    again = Client().get(url, headers={"if-none-match": response["ETag"]})

    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Access-Control-Allow-Methods"] == "GET"
    assert response["Access-Control-Allow-Headers"] == "Content-Type, If-None-Match"
    assert response["Access-Control-Expose-Headers"] == "ETag"
    assert response["Cache-Control"] == "public, max-age=3600"
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == response["ETag"]
    assert again["Access-Control-Allow-Origin"] == "*"
    assert Client().options(url)["Access-Control-Allow-Headers"] == "Content-Type, If-None-Match"
    assert Client().post(url).status_code == 405


def test_the_older_path_has_the_same_bytes():
    assert Client().get(ALIAS).content == Client().get(CARD).content


def test_the_catalog_names_the_cards_of_the_site():
    response = Client().get(CATALOG)

    assert response["Content-Type"] == "application/ai-catalog+json"
    kind = "application/mcp-server-card+json"
    assert response.json() == {
        "specVersion": "1.0",
        "entries": [
            {
                "identifier": f"urn:air:example.org:mcp:{name}",
                "type": kind,
                "url": f"https://shop.example.org{path}/server-card",
            }
            for name, path in [("shop", "/mcp"), ("keys", "/keys/mcp")]
        ],
    }
    for entry in response.json()["entries"]:
        assert (
            Client().get(entry["url"].removeprefix("https://shop.example.org")).status_code == 200
        )


def test_servers_without_a_name_for_one_have_no_card():
    assert Client().get("/staff/mcp/server-card").status_code == 404
    with override_settings(DJANGO_MCP={**SHOP, "CARD_NAME": None}):
        assert [Client().get(url).status_code for url in (CARD, ALIAS)] == [404, 404]
        [entry] = Client().get(CATALOG).json()["entries"]
        assert entry["identifier"] == "urn:air:example.org:mcp:keys"


def test_no_card_at_all_is_no_catalog():
    with override_settings(ROOT_URLCONF="django_mcp.urls", DJANGO_MCP={**SHOP, "CARD_NAME": None}):
        response = Client().get(CATALOG)

    assert response.status_code == 404
    assert response["Cache-Control"] == "no-store"


def test_an_address_with_a_variable_has_the_card_of_that_address():
    card = Client().get("/of/ann/mcp/server-card").json()

    assert card["remotes"][0]["url"] == "https://shop.example.org/of/ann/mcp"


def test_a_card_names_the_header_for_a_key_and_the_older_transport():
    http, sse = Client().get("/keys/mcp/server-card").json()["remotes"]

    assert http["headers"][0]["name"] == "Authorization"
    assert sse["url"] == "https://shop.example.org/keys/sse"


def test_the_language_of_a_request_makes_no_difference():
    # A card is cached by proxies for everybody.
    german = Client().get(CARD, headers={"accept-language": "de"})

    assert german.json()["description"] == "Delete"


def test_a_foreign_host_gets_no_card(settings: Any):
    settings.ALLOWED_HOSTS = ["shop.example.org"]
    with override_settings(DJANGO_MCP={**SHOP, "PUBLIC_URL": None}):
        answers = [
            Client().get(url, headers={"host": "evil.example"}) for url in (CARD, ALIAS, CATALOG)
        ]

    assert [answer.status_code for answer in answers] == [400, 400, 400]


async def test_a_server_alone_serves_it_as_well(settings: Any):
    # `site_of` sets the URLconf of the process.
    settings.ROOT_URLCONF = settings.ROOT_URLCONF
    server = MCPServer("carded", public=True, card_name="org.example/carded", description="Alone.")
    transport = httpx.ASGITransport(app=site_of(server))

    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        found = [(await client.get(url)).status_code for url in (CARD, ALIAS, CATALOG)]

    assert found == [200, 200, 200]


@pytest.mark.parametrize("wrong", ["shop", "a/b/c", "com.example/", 7, "x" * 200 + "/a"])
def test_what_cannot_be_a_name_is_an_error(wrong: Any):
    with override_settings(DJANGO_MCP={**SHOP, "CARD_NAME": wrong}):
        found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E001"]

    assert ["CARD_NAME" in each.msg for each in found] == [True]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"DESCRIPTION": None}, "description"),
        ({"DESCRIPTION": "x" * 101}, "/description"),
        ({"TITLE": "x" * 101}, "/title"),
        ({"VERSION": "1.x"}, "no single version"),
        ({"PUBLIC_URL": "http://shop.example.org"}, "is not https"),
    ],
)
def test_what_clients_would_refuse_is_reported(change: dict[str, Any], told: str):
    with override_settings(DJANGO_MCP={**SHOP, **change}):
        found = [
            each.msg
            for each in run_checks(tags=["django_mcp"])
            if each.id == "django_mcp.cards.W001" and each.obj is default_server
        ]

    assert len(found) == 1
    assert told in found[0]


@override_settings(ALLOWED_HOSTS=[".example.com"], DJANGO_MCP={**SHOP, "PUBLIC_URL": None})
@pytest.mark.parametrize("address", [CARD, CATALOG])
def test_hosts_longer_than_any_name_are_refused(address: str):
    response = Client().get(address, headers={"host": f"{'a' * 300}.example.com"})

    assert response.status_code == 400


def test_cards_of_long_paths_are_not_kept():
    tracemalloc.start()
    try:
        for number in range(20):
            assert Client().get(f"/of/{number}{'a' * 200_000}{CARD}").status_code == 200
        gc.collect()
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 10_000_000
