"""An independent client, from nothing to a tool call: documents, registration, step-up, refresh, revocation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.oauth.browser import Browser
from tests.support.oauth.local_documents import HOST, document, publish, serving
from tests.support.oauth.sdk import REDIRECT, SDKClient
from tests.support.sites import Running
from tests.support.wire import V2026_07_28, headers_for, message

ORDER = {"lines": [{"sku": "mug", "quantity": 1}]}


def customers_of(result: Any) -> set[str]:
    return {order["customer"] for order in json.loads(result.content[0].text)}


def scopes_asked_for(client: SDKClient) -> list[set[str]]:
    return [set(parse_qs(urlsplit(url).query)["scope"][0].split()) for url in client.visits]


async def test_dynamic_registration_leads_to_a_tool_call(shop: Running):
    client = SDKClient(shop.url, Browser())

    result = await client.call("find_orders")

    assert customers_of(result) == {"ada"}
    assert client.storage.client is not None
    assert client.storage.client.client_secret is None
    assert len(client.visits) == 1


async def test_a_client_signs_in_with_the_address_of_some_toolsets(shop: Running):
    url = f"{shop.url}/x/shop"
    client = SDKClient(url, Browser())

    result = await client.call("find_orders")

    assert customers_of(result) == {"ada"}
    assert url in client.browser.pages[0]
    assert client.storage.tokens is not None
    token = client.storage.tokens.access_token
    assert call_with(shop, token, url).json()["result"]["tools"]
    for other in (shop.url, f"{shop.url}/x/nowhere", f"{shop.url}/x/shop,nowhere"):
        assert call_with(shop, token, other).status_code == 401


async def test_the_address_of_a_toolset_that_is_not_there_leads_to_nothing(shop: Running):
    client = SDKClient(f"{shop.url}/x/nowhere", Browser())

    async with client.session() as session:
        assert (await session.list_tools()).tools == []
        with pytest.raises(Exception, match="Unknown tool"):
            await session.call_tool("find_orders", {})


async def test_a_metadata_document_leads_to_a_tool_call(shop: Running, certificate: Path):
    published: dict[str, object] = {}
    with serving(certificate, publish(published)) as port:
        client_id = f"https://{HOST}:{port}/client.json"
        published.update(document(client_id, REDIRECT))
        client = SDKClient(shop.url, Browser("grace"), client_metadata_url=client_id)

        result = await client.call("find_orders")

    assert customers_of(result) == {"grace"}
    assert client.storage.client is not None
    assert client.storage.client.client_id == client_id
    assert f"{HOST}:{port}" in client.browser.pages[0]


async def test_scope_step_up_works_when_a_tool_needs_it(shop: Running):
    client = SDKClient(shop.url, Browser())

    async with client.session() as session:
        await session.call_tool("find_orders", {})
        result = await session.call_tool("place_order", ORDER)

    assert not result.is_error
    # The metadata names `offline_access`, so the client adds it.
    first = {"shop", "offline_access"}
    assert scopes_asked_for(client) == [first, {*first, "orders:write"}]
    assert client.storage.tokens is not None
    assert set((client.storage.tokens.scope or "").split()) == {*first, "orders:write"}


async def test_an_expired_token_is_refreshed_without_consent(shop: Running):
    client = SDKClient(shop.url, Browser())
    async with client.session() as session:
        await session.call_tool("find_orders", {})
        before = client.storage.tokens
        client.provider.context.token_expiry_time = 1.0
        await session.call_tool("find_orders", {})
    after = client.storage.tokens

    assert before is not None
    assert after is not None
    assert after.access_token != before.access_token
    assert after.refresh_token != before.refresh_token
    assert len(client.visits) == 1
    until_refused(shop, before.access_token)


async def test_after_revocation_neither_token_is_accepted(shop: Running):
    client = SDKClient(shop.url, Browser())
    await client.call("find_orders")
    tokens, registered = client.storage.tokens, client.storage.client
    assert tokens is not None
    assert registered is not None
    assert call_with(shop, tokens.access_token).status_code == 200
    client_id = registered.client_id

    revoked = post(shop, "revoke/", token=tokens.refresh_token, client_id=client_id)
    refreshed = post(
        shop,
        "token/",
        grant_type="refresh_token",
        refresh_token=tokens.refresh_token,
        client_id=client_id,
    )

    assert revoked.status_code == 200
    assert refreshed.status_code == 400
    assert refreshed.json()["error"] == "invalid_grant"
    until_refused(shop, tokens.access_token)
    log = shop.log.read_text()
    assert tokens.access_token not in log
    assert str(tokens.refresh_token) not in log
    browser = Browser(allows=False)
    client.browser = browser
    with pytest.raises(BaseException) as refused:
        await client.call("find_orders")
    assert "Authorization" in repr(refused.value) or "OAuth" in repr(refused.value)
    assert len(browser.pages) == 1


def call_with(shop: Running, token: str, url: str | None = None) -> httpx.Response:
    request = message("tools/list", revision=V2026_07_28)
    headers = {**headers_for(request, V2026_07_28), "Authorization": f"Bearer {token}"}
    return httpx.post(url or shop.url, json=request, headers=headers, timeout=60.0)


def post(shop: Running, page: str, **form: Any) -> httpx.Response:
    return httpx.post(f"{shop.url.removesuffix('/mcp')}/oauth/{page}", data=form, timeout=60.0)


def until_refused(shop: Running, token: str) -> None:
    """Retry until the verdict on a token, which is cached for two seconds, has expired."""
    deadline = time.monotonic() + 10
    while call_with(shop, token).status_code != 401:
        assert time.monotonic() < deadline
