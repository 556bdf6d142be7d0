"""What misbehaving clients send, over the network: a clear error, one warning, and nothing issued."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from django_mcp.contrib.oauth.families import MAX_REUSES
from tests.support.oauth.browser import hidden_fields
from tests.support.oauth.local_documents import HOST, document, response, serving_requests
from tests.support.oauth.published import key_set, proof, signing_key
from tests.support.oauth.watched import (
    REDIRECT,
    Watched,
    allow,
    authorize_url,
    caller,
    code_for,
    exchange,
    person,
    refresh,
    register,
    watched,
)

OTHER = "https://other.example/callback"
EXPIRE = "UPDATE oauth2_provider_application SET cimd_expires_at = '2020-01-01' WHERE client_id = ?"
AGE = "UPDATE oauth2_provider_application SET updated = '2020-01-01'"


@dataclass
class Maker:
    """The server of a client's maker, whose document and keys may change."""

    port: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    keys: Any = None

    @property
    def client_id(self) -> str:
        return f"https://{HOST}:{self.port}/client.json"

    def answer(self, request: bytes, connection: socket.socket) -> None:
        page = self.keys
        if request.startswith(b"GET /client.json "):
            page = {**document(self.client_id, REDIRECT), **self.changes}
        connection.sendall(response(json.dumps(page).encode()))

    def has_keys_at(self, uri: str = "") -> None:
        uri = uri or f"https://{HOST}:{self.port}/keys.json"
        self.changes = {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": uri}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("bad-input"), certificate) as found:
        yield found


@pytest.fixture
def maker(certificate: Path) -> Iterator[Maker]:
    found = Maker(keys=key_set(signing_key()))
    with serving_requests(certificate, found.answer) as found.port:
        yield found


@pytest.fixture
def browser(site: Watched) -> Iterator[httpx.Client]:
    with person(site) as found:
        yield found


def assert_error(answer: httpx.Response, status: int, error: str, field: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["error"] == error, answer.text
    assert answer.json().get("error_description", "").startswith(field), answer.text
    assert "access_token" not in answer.text


# -- documents and keys


def test_a_document_that_takes_its_redirect_back_between_two_requests(
    site: Watched, maker: Maker, browser: httpx.Client
):
    url = authorize_url(site, maker.client_id)
    page = browser.get(url)
    maker.changes = {"redirect_uris": [OTHER]}
    site.change(EXPIRE, maker.client_id)

    with site.refusing("redirect_uri"):
        answer = browser.get(url)

    assert page.status_code == 200
    assert answer.status_code == 400
    assert "location" not in answer.headers


def test_a_document_that_changes_while_the_person_looks_at_the_page(
    site: Watched, maker: Maker, browser: httpx.Client
):
    url = authorize_url(site, maker.client_id)
    page = browser.get(url)
    maker.changes = {"redirect_uris": [OTHER]}
    site.change(EXPIRE, maker.client_id)
    # Somebody else makes the site read it again.
    with person(site) as other:
        assert (
            other.get(authorize_url(site, maker.client_id, redirect_uri=OTHER)).status_code == 200
        )

    with site.refusing("redirect_uri"):
        answer = allow_shown(browser, page)

    assert answer.status_code == 400
    assert "location" not in answer.headers


def allow_shown(browser: httpx.Client, page: httpx.Response) -> httpx.Response:
    """Press the button of a page that was shown before."""
    form = {**hidden_fields(page.text), "allow": "true"}
    return browser.post(page.url, data=form, headers={"Referer": str(page.url)})


def test_a_document_that_becomes_another_clients(
    site: Watched, maker: Maker, browser: httpx.Client
):
    code = code_for(site, browser, maker.client_id)
    maker.changes = {"client_id": f"https://{HOST}:{maker.port}/another.json"}
    site.change(EXPIRE, maker.client_id)

    with site.refusing("client_id"):
        page = browser.get(authorize_url(site, maker.client_id))

    # The client that the site knows stays as it was.
    assert page.status_code == 200
    assert exchange(browser, maker.client_id, code).status_code == 200


def test_keys_at_a_private_address_are_not_asked_for(
    site: Watched, maker: Maker, browser: httpx.Client, certificate: Path
):
    asked: list[bytes] = []
    with serving_requests(certificate, lambda request, _connection: asked.append(request)) as port:
        maker.has_keys_at(f"https://127.0.0.1:{port}/keys.json")
        code = code_for(site, browser, maker.client_id)

        with site.refusing("client_assertion"):
            signed = proof(maker.client_id, site.base)
            answer = exchange(browser, maker.client_id, code, **signed)

    assert_error(answer, 401, "invalid_client", "client_assertion: ")
    assert asked == []


@pytest.mark.parametrize("kind", ["secret", "encryption", "curve"])
def test_keys_of_the_wrong_kind(site: Watched, maker: Maker, browser: httpx.Client, kind: str):
    keys: dict[str, Any] = {
        "secret": {"kty": "oct", "k": "c2VjcmV0", "kid": "key of the tests"},
        "encryption": {**key_set(signing_key())["keys"][0], "use": "enc"},
        "curve": {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
    }
    maker.keys = {"keys": [keys[kind]]}
    maker.has_keys_at()
    code = code_for(site, browser, maker.client_id)

    with site.refusing("client_assertion"):
        answer = exchange(browser, maker.client_id, code, **proof(maker.client_id, site.base))

    assert_error(answer, 401, "invalid_client", "client_assertion: ")


def test_an_assertion_for_another_audience(site: Watched, maker: Maker, browser: httpx.Client):
    maker.has_keys_at()
    code = code_for(site, browser, maker.client_id)

    with site.refusing("aud"):
        signed = proof(maker.client_id, "https://another.example/token/")
        answer = exchange(browser, maker.client_id, code, **signed)

    assert_error(answer, 401, "invalid_client", "aud: ")


def test_an_assertion_that_is_used_twice(site: Watched, maker: Maker, browser: httpx.Client):
    maker.has_keys_at()
    codes = [code_for(site, browser, maker.client_id) for _ in range(2)]
    signed = proof(maker.client_id, site.base)
    assert exchange(browser, maker.client_id, codes[0], **signed).status_code == 200

    with site.refusing("jti"):
        answer = exchange(browser, maker.client_id, codes[1], **signed)

    assert_error(answer, 401, "invalid_client", "jti: ")


# -- refreshing


@pytest.fixture
def signed_in(site: Watched, browser: httpx.Client) -> tuple[str, dict[str, str]]:
    """A client and its first tokens."""
    client_id = register(browser).json()["client_id"]
    answer = exchange(browser, client_id, code_for(site, browser, client_id))
    assert answer.status_code == 200, answer.text
    return client_id, answer.json()


SignedIn = tuple[str, dict[str, str]]


def test_a_refresh_token_of_another_client_within_the_grace(
    site: Watched, browser: httpx.Client, signed_in: SignedIn
):
    client_id, tokens = signed_in
    refresh(browser, client_id, tokens["refresh_token"])
    other = register(browser).json()["client_id"]

    with site.refusing("refresh_token"):
        answer = refresh(browser, other, tokens["refresh_token"])

    assert_error(answer, 400, "invalid_grant")
    assert refresh(browser, client_id, tokens["refresh_token"]).status_code == 200


def test_a_revoked_refresh_token_within_the_grace(
    site: Watched, browser: httpx.Client, signed_in: SignedIn
):
    client_id, tokens = signed_in
    newer = refresh(browser, client_id, tokens["refresh_token"]).json()
    form = {"token": newer["refresh_token"], "client_id": client_id}
    assert browser.post("/oauth/revoke/", data=form).status_code == 200

    for token in (tokens["refresh_token"], newer["refresh_token"]):
        with site.refusing("refresh_token"):
            answer = refresh(browser, client_id, token)
        assert_error(answer, 400, "invalid_grant")


def test_a_superseded_refresh_token_that_is_used_once_too_often(
    site: Watched, browser: httpx.Client, signed_in: SignedIn
):
    client_id, tokens = signed_in
    used = [refresh(browser, client_id, tokens["refresh_token"]) for _ in range(MAX_REUSES + 1)]
    assert [each.status_code for each in used] == [200] * 6

    with site.refusing("refresh_token"):
        answer = refresh(browser, client_id, tokens["refresh_token"])

    assert_error(answer, 400, "invalid_grant")


# -- registrations


def test_redirects_of_which_one_is_forbidden(site: Watched, browser: httpx.Client):
    with site.refusing("redirect_uris"):
        answer = register(browser, redirect_uris=[REDIRECT, "http://client.example/"])

    assert_error(answer, 400, "invalid_redirect_uri", "redirect_uris: ")
    assert "'http://client.example/' is not allowed" in answer.json()["error_description"]


def test_a_document_keeps_its_allowed_redirects(site: Watched, maker: Maker, browser: httpx.Client):
    maker.changes = {"redirect_uris": ["javascript:alert(1)", REDIRECT, "http://client.example/"]}

    assert allow(browser, authorize_url(site, maker.client_id)).is_redirect
    for forbidden in ("javascript:alert(1)", "http://client.example/"):
        with site.refusing("redirect_uri"):
            answer = browser.get(authorize_url(site, maker.client_id, redirect_uri=forbidden))
        assert answer.status_code == 400
        assert "location" not in answer.headers


def test_a_thousand_registrations_of_one_address(site: Watched):
    with caller(site) as client:
        taken = [register(client).status_code for _ in range(60)]
        # What is told of an address is limited, and so is this one.
        answers = [register(client) for _ in range(940)]

    assert taken == [201] * 60
    assert {each.status_code for each in answers} == {429}
    assert_error(answers[0], 429, "temporarily_unavailable")
    assert 0 < int(answers[-1].headers["retry-after"]) <= 3600
    with caller(site) as other:
        assert register(other).status_code == 201


def test_clients_of_one_user_leave_room_for_others(tmp_path: Path, certificate: Path):
    limits = {"OAUTH_MAX_REGISTERED": 20, "OAUTH_REGISTRATIONS_PER_HOUR": 1000}
    with watched(tmp_path, certificate, limits) as site:
        with person(site) as browser:
            mine = [register(browser).json()["client_id"] for _ in range(15)]
            for client_id in mine:
                code = code_for(site, browser, client_id)
                assert exchange(browser, client_id, code).status_code == 200
        site.change(AGE)
        with caller(site) as other:
            answers = [register(other) for _ in range(20)]

        left = {
            row["client_id"] for row in site.select("SELECT * FROM oauth2_provider_application")
        }
    # A tenth of the clients is a user's share. The other quarter is for clients with documents.
    assert [each.status_code for each in answers] == [201] * 13 + [429] * 7
    assert sum(each in left for each in mine) == 2
    assert_error(answers[-1], 429, "temporarily_unavailable")
