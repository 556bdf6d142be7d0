"""The scopes that clients request, of which some are not about this site's tools."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from oauth2_provider.models import get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.support.oauth.browser import hidden_fields, place_of, post_form

pytestmark = pytest.mark.django_db

REDIRECT = "https://client.example/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()
OAUTH = {
    "AUTHENTICATORS": ["django_mcp.contrib.oauth.OAuthAuthenticator"],
    "OAUTH_BASE_SCOPES": ["mcp"],
}


@pytest.fixture(autouse=True)
def protected(settings: Any) -> None:
    settings.DJANGO_MCP = OAUTH
    settings.OAUTH2_PROVIDER = oauth2_provider_settings({"mcp": "Use the tools"})


@pytest.fixture
def browser() -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_user("ada"))
    return browser


@pytest.fixture
def client_id() -> str:
    application = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
        registration_source="dcr",
    )
    return str(application.client_id)


def address(client_id: str, scope: str | None) -> str:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": "http://testserver/mcp",
        **({} if scope is None else {"scope": scope}),
    }
    return f"/oauth/authorize/?{urlencode(query)}"


def sign_in(browser: Client, client_id: str, scope: str | None) -> dict[str, Any]:
    """Return the tokens of a client that requests these scopes, and whose user allows them."""
    url = address(client_id, scope)
    page = browser.get(url)
    assert page.status_code == 200, page["location"]
    answer = browser.post(url, {**hidden_fields(page.content.decode()), "allow": "true"})
    code = parse_qs(urlsplit(answer["location"]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
    return ask_for_tokens(client_id, code_verifier=VERIFIER, **form)


def ask_for_tokens(client_id: str, **form: str) -> dict[str, Any]:
    tokens: dict[str, Any] = post_form("/oauth/token/", {**form, "client_id": client_id}).json()
    return tokens


@pytest.mark.parametrize(
    ("requested", "granted"),
    [
        (None, "mcp"),
        ("", "mcp"),
        (" ", "mcp"),
        ("mcp  mcp", "mcp"),
        ("openid email profile", "mcp"),
        ("openid mcp profile", "mcp"),
        ("mcp offline_access", "mcp offline_access"),
        ("offline_access", "offline_access"),
    ],
)
def test_a_client_gets_the_scopes_that_its_request_means(
    browser: Client, client_id: str, requested: str | None, granted: str
):
    tokens = sign_in(browser, client_id, requested)

    assert tokens["scope"] == granted
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    again = ask_for_tokens(client_id, **form, **({} if requested is None else {"scope": requested}))
    assert again["scope"] == granted


@pytest.mark.parametrize("requested", ["nothing", "mcp nothing", "address", "nothing openid"])
def test_an_unknown_scope_is_refused(browser: Client, client_id: str, requested: str):
    response = browser.get(address(client_id, requested))

    assert parse_qs(urlsplit(place_of(response)).query)["error"] == ["invalid_scope"]


def test_a_refresh_adds_no_scope(browser: Client, client_id: str, settings: Any):
    settings.OAUTH2_PROVIDER = oauth2_provider_settings({"mcp": "Use", "more": "Use more"})
    tokens = sign_in(browser, client_id, "mcp")

    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert ask_for_tokens(client_id, **form, scope="mcp more")["error"] == "invalid_scope"
    assert ask_for_tokens(client_id, **form, scope="mcp openid")["scope"] == "mcp"


def test_a_site_with_openid_connect_gives_its_scopes(
    browser: Client, client_id: str, settings: Any
):
    scopes = {"mcp": "Use the tools", "email": "See your address"}
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(scopes)

    assert sign_in(browser, client_id, "email profile mcp")["scope"] == "email mcp"


def test_the_page_describes_that_a_client_stays_signed_in(browser: Client, client_id: str):
    page = browser.get(address(client_id, "mcp offline_access")).content.decode()

    assert "Stay signed in, without asking you again" in page


def test_a_site_without_refresh_tokens_does_not_offer_to_stay_signed_in(
    browser: Client, client_id: str, settings: Any
):
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(
        {"mcp": "Use the tools"}, OAUTH2_GRANT_TYPES_SUPPORTED=["authorization_code"]
    )

    found = Client().get("/.well-known/oauth-authorization-server").json()
    assert "offline_access" not in found["scopes_supported"]
    assert sign_in(browser, client_id, "mcp offline_access")["scope"] == "mcp"


def test_only_the_authorization_server_names_offline_access():
    resource = Client().get("/.well-known/oauth-protected-resource/mcp").json()
    server = Client().get("/.well-known/oauth-authorization-server").json()

    assert "offline_access" not in resource.get("scopes_supported", [])
    assert "offline_access" in server["scopes_supported"]
