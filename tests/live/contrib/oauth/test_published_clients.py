"""Every known client, with what it publishes or registers: from the first 401 to a refresh."""

from __future__ import annotations

import pytest

from django_mcp.contrib.oauth.published_clients import PublishedClient, read_published_clients
from tests.support.oauth.played import Played, call
from tests.support.sites import Running

CLIENTS = read_published_clients()


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_known_client_signs_in_calls_and_refreshes(client: PublishedClient, shop: Running):
    played = Played.arrive(client, shop.url)
    played.introduce()
    tokens = played.get_tokens()

    answer = call(shop.url, tokens["access_token"])
    assert answer.status_code == 200
    assert "ada" in answer.text

    refreshed = played.post(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert refreshed["access_token"] != tokens["access_token"]
    assert call(shop.url, refreshed["access_token"]).status_code == 200


def test_the_client_that_prefers_a_key_may_also_do_without(shop: Running):
    client = next(each for each in CLIENTS if each.name == "ChatGPT" and each.kind == "document")
    played = Played.arrive(client, shop.url)
    played.introduce()
    assert played.method == "private_key_jwt"
    played.method = "none"

    assert call(shop.url, played.get_tokens()["access_token"]).status_code == 200
