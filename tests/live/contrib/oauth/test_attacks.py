"""Attacks on the authorization server of a site with OpenID Connect, over the network."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.oauth.browser import hidden_fields
from tests.support.oauth.local_documents import HOST, document, response, serving_requests
from tests.support.oauth.watched import (
    REDIRECT,
    VERIFIER,
    Watched,
    allow,
    authorize_url,
    caller,
    code_for,
    exchange,
    person,
    register,
    watched,
)

FORM = "application/x-www-form-urlencoded"
PARAMETERS = [
    "state", "nonce", "prompt", "claims", "ui_locales", "response_mode", "display", "max_age",
    "id_token_hint", "login_hint", "acr_values", "request", "request_uri", "approval_prompt",
    "code_challenge", "scope", "resource", "redirect_uri", "client_id", "response_type",
]  # fmt: skip
VALUES = [
    "", " ", "x" * 300, "x" * 9000, "\r\nSet-Cookie: stolen=1", "<script>alert(1)</script>", "{", "[]",
    '{"id_token": {"x": null}}', "\u202e", "none", "login", "login consent", "-1", "\U0001f600",
    "fragment", "form_post", "0", "auto", "https://evil.example/", "//evil.example/",
]  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Watched]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    toolkit = {
        "OIDC_ENABLED": True,
        "OIDC_RSA_PRIVATE_KEY": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
        "SCOPES": {"openid": "Know you", "shop": "Look", "orders:write": "Order"},
    }
    with watched(tmp_path_factory.mktemp("attacks"), certificate, toolkit=toolkit) as found:
        yield found


@pytest.fixture
def browser(site: Watched) -> Iterator[httpx.Client]:
    with person(site) as found:
        yield found


@pytest.fixture(scope="module")
def client_id(site: Watched) -> str:
    with caller(site) as client:
        return str(register(client).json()["client_id"])


def assert_harmless(answer: httpx.Response) -> None:
    """Check that an answer is no failure of the site, and leads only to it or to the client."""
    assert answer.status_code < 500, answer.text
    assert "stolen" not in answer.headers.get("set-cookie", "")
    assert "<script>" not in answer.text
    place = urlsplit(answer.headers.get("location", ""))
    assert place.netloc in ("", "client.example")
    assert not answer.headers.get("location", "").startswith("//")


@pytest.mark.parametrize("prompt", ["none", "none login", "create none"])
def test_nobody_is_led_to_a_strangers_host_without_signing_in(
    site: Watched, client_id: str, certificate: Path, prompt: str
):
    asked: list[bytes] = []
    with (
        caller(site) as anybody,
        serving_requests(certificate, lambda request, _connection: asked.append(request)) as port,
    ):
        for each in (client_id, f"https://{HOST}:{port}/client.json"):
            answer = anybody.get(authorize_url(site, each, prompt=prompt, scope="openid shop"))
            assert_harmless(answer)
            assert "client.example" not in urlsplit(answer.headers.get("location", "")).netloc
    # Nor is a document fetched for anybody.
    assert asked == []


def test_a_silent_sign_in_is_refused_on_a_page(
    site: Watched, browser: httpx.Client, client_id: str
):
    with site.refusing("prompt"):
        answer = browser.get(authorize_url(site, client_id, prompt="none", scope="openid shop"))

    assert answer.status_code == 400
    assert "error=consent_required" in answer.text


@pytest.mark.parametrize("page", ["token", "revoke"])
@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "utf-7", "zlib_codec", "undefined"])
def test_a_form_in_another_encoding_is_refused(site: Watched, page: str, charset: str):
    with caller(site) as client:
        answer = client.post(
            f"/oauth/{page}/",
            content=b"grant_type=refresh_token&refresh_token=+AGE-&client_id=x&token=x",
            headers={"Content-Type": f"{FORM}; charset={charset}"},
        )

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"&",
        b"%zz=%zz",
        b"a=%ff",
        b"\xff\xfe",
        b"a=%00",
        b"a=1&" * 2000,
        b"a=" + b"x" * 3_000_000,
    ],
)
def test_a_broken_body_gets_an_error_in_json(site: Watched, body: bytes):
    with caller(site) as client:
        for page, kind in (("token", FORM), ("revoke", FORM), ("register", "application/json")):
            answer = client.post(f"/oauth/{page}/", content=body, headers={"Content-Type": kind})
            assert 400 <= answer.status_code < 500, (page, answer.text)
            assert "error" in answer.json()


def test_a_clients_texts_are_shown_inert_and_its_images_never_loaded(
    site: Watched, browser: httpx.Client, certificate: Path
):
    name = "Bank\u202eknaB\r\n<img src=x onerror=alert(1)>\u200b\x1b[31m"
    published: dict[str, Any] = {}

    def answer(_request: bytes, connection: socket.socket) -> None:
        connection.sendall(response(json.dumps(published).encode()))

    with serving_requests(certificate, answer) as port:
        client_id = f"https://{HOST}:{port}/client.json"
        published.update(
            document(client_id, REDIRECT),
            client_name=name,
            logo_uri="https://evil.example/pixel.png",
            client_uri="javascript:alert(1)",
            tos_uri="javascript:alert(2)",
        )
        page = browser.get(authorize_url(site, client_id))

    assert page.status_code == 200
    assert "&lt;img src=x" in page.text
    for hidden in ("\u202e", "\u200b", "\x1b", "<img src=x", "evil.example", "javascript:"):
        assert hidden not in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"


def test_the_consent_of_another_site_or_person_does_not_count(
    site: Watched, browser: httpx.Client, client_id: str
):
    url = authorize_url(site, client_id)
    form = {**hidden_fields(browser.get(url).text), "allow": "true"}
    with person(site) as other:
        own = hidden_fields(other.get(url).text)
        token = {"csrfmiddlewaretoken": own["csrfmiddlewaretoken"]}
        # Another page's form, sent by the person's browser; and one that was made for somebody else.
        for sent in ({}, token, {**form, **token}):
            answer = other.post(
                url, data={"allow": "true", **sent}, headers={"Referer": site.base + url}
            )
            assert answer.status_code in (400, 403)
        elsewhere = {"Referer": "https://evil.example/", "Origin": "https://evil.example"}
        answer = other.post(url, data={**own, "allow": "true"}, headers=elsewhere)
        assert answer.status_code == 403


@pytest.mark.parametrize("changes", [{"code_verifier": ""}, {"code_verifier": VERIFIER[1:]}])
def test_pkce_cannot_be_left_out_or_guessed(
    site: Watched, browser: httpx.Client, client_id: str, changes: dict[str, str]
):
    answer = exchange(browser, client_id, code_for(site, browser, client_id), **changes)

    assert answer.status_code == 400
    assert "access_token" not in answer.text


def test_pkce_cannot_be_taken_out_of_the_form(site: Watched, browser: httpx.Client, client_id: str):
    url = authorize_url(site, client_id)
    for fields in ({"code_challenge": ""}, {"code_challenge_method": "plain"}):
        with site.refusing("seal"):
            answer = allow(browser, url, **fields)
        assert answer.status_code == 400


def test_a_code_is_used_once_and_a_second_use_ends_its_tokens(
    site: Watched, browser: httpx.Client, client_id: str
):
    code = code_for(site, browser, client_id)
    first = exchange(browser, client_id, code).json()
    headers = {"Authorization": f"Bearer {first['access_token']}"}

    again = exchange(browser, client_id, code)

    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    with caller(site) as client:
        assert client.post("/mcp", json={}, headers=headers).status_code == 401


def test_a_token_of_one_server_is_none_at_another(
    site: Watched, browser: httpx.Client, client_id: str
):
    code = code_for(site, browser, client_id)
    token = exchange(browser, client_id, code).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}

    with caller(site) as client:
        statuses = [
            client.post(f"{mount}/mcp", json={}, headers=headers).status_code
            for mount in ("/staff", "/storefront", "")
        ]

    assert statuses[:2] == [401, 401]
    assert statuses[2] != 401


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example/", "/\\evil.example/"])
def test_signing_in_and_switching_lead_only_back_here(site: Watched, client_id: str, place: str):
    with person(site) as browser:
        url = f"{authorize_url(site, client_id)}&{urlencode({'next': place})}"
        form = hidden_fields(browser.get(url).text)
        switched = browser.post(
            url, data={**form, "switch_account": "1"}, headers={"Referer": site.base}
        )
        anonymous = browser.get(url)
        asked_again = browser.get(f"{url}&prompt=login")

    for answer in (switched, anonymous, asked_again):
        assert answer.status_code == 302
        assert answer.headers["location"].startswith("/login/?next=/oauth/authorize/")


# The last one, since the log leaves out warnings of one kind above a number.
@pytest.mark.parametrize("scope", ["shop", "openid shop"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_no_parameter_breaks_the_page_or_leads_elsewhere(
    site: Watched, browser: httpx.Client, client_id: str, name: str, scope: str
):
    for value in VALUES:
        url = authorize_url(site, **{"client_id": client_id, "scope": scope, name: value})
        page = browser.get(url)
        assert_harmless(page)
        if page.status_code == 200:
            answer = allow(browser, url)
            assert_harmless(answer)
            place = answer.headers["location"].replace("#", "?")
            found = parse_qs(urlsplit(place).query)
            assert found["iss"] == [site.base]
            if "code" in found:
                tokens = exchange(browser, client_id, found["code"][0])
                assert tokens.status_code == 200, (value, tokens.text)
