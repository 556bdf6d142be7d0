"""Clients with a metadata document: fetched for the consent page, and not too often."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client, override_settings
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.support.oauth.browser import post_form
from tests.support.oauth.local_documents import document

pytestmark = pytest.mark.django_db

REDIRECT = "https://client.example/callback"
CHALLENGE = "c" * 43


class Web:
    """A web in which every URL has a document, and fetches are recorded."""

    asked: list[str] = []

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        self.asked.append(client_id)
        return document(client_id, REDIRECT), 3600


@pytest.fixture(autouse=True)
def web() -> Iterator[list[str]]:
    cache.clear()
    Web.asked.clear()
    preset = oauth2_provider_settings(
        CIMD_METADATA_FETCHER="tests.unit.contrib.oauth.test_document_clients.Web",
        CIMD_REGISTRATION_PERMISSION_CLASSES=["oauth2_provider.cimd.AllowAllCIMDPermission"],
    )
    with override_settings(OAUTH2_PROVIDER=preset):
        yield Web.asked


@pytest.fixture
def browser() -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_user("ada"))
    return browser


def name(number: int) -> str:
    return f"https://client.example/{number}.json"


def arrive(browser: Client, client_id: str, address: str = "192.0.2.1") -> Any:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": "mcp",
    }
    return browser.get("/oauth/authorize/", query, REMOTE_ADDR=address)


def clients() -> Any:
    return get_application_model().objects


def test_a_document_is_fetched_when_consent_is_requested(browser: Client, web: list[str]):
    assert arrive(browser, name(1)).status_code == 200
    assert arrive(browser, name(1)).status_code == 200
    assert web == [name(1)]
    assert clients().get().registration_source == "cimd"


@pytest.mark.parametrize(
    ("page", "form"),
    [
        ("token", {"grant_type": "authorization_code", "code": "x", "redirect_uri": REDIRECT}),
        ("token", {"grant_type": "refresh_token", "refresh_token": "x"}),
        ("revoke", {"token": "x"}),
        ("revoke", {"token": "x", "token_type_hint": "refresh_token"}),
    ],
)
@pytest.mark.parametrize("by_header", [False, True])
@pytest.mark.parametrize("secret", ["", "a secret"])
def test_anonymous_requests_do_not_fetch_a_document(
    web: list[str], page: str, form: dict[str, str], by_header: bool, secret: str
):
    client_id, headers = name(1), {}
    if by_header:
        # Form-encoded first, as RFC 6749 section 2.3.1 has it: the colon of the address too.
        pair = f"{client_id.replace(':', '%3A')}:{secret}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form = {**form, "client_id": client_id, **({"client_secret": secret} if secret else {})}

    response = post_form(f"/oauth/{page}/", form, headers=headers)

    assert response.status_code == 401
    assert response.json()["error"] == "invalid_client"
    assert web == []
    assert not clients().exists()


def test_token_requests_do_not_refetch_a_known_client(browser: Client, web: list[str]):
    arrive(browser, name(1))
    clients().update(cimd_expires_at=timezone.now() - timedelta(days=1))

    post_form("/oauth/token/", {"grant_type": "refresh_token", "client_id": name(1)})
    assert web == [name(1)]
    arrive(browser, name(1))
    assert web == [name(1), name(1)]


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 2})
def test_documents_are_limited_per_address(browser: Client, web: list[str]):
    statuses = [arrive(browser, name(number)).status_code for number in range(4)]

    assert statuses == [200, 200, 429, 429]
    assert len(web) == 2
    assert arrive(browser, name(0)).status_code == 200
    assert arrive(browser, name(4), address="192.0.2.2").status_code == 200


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_a_known_client_is_unchanged_above_the_limit(browser: Client, web: list[str]):
    arrive(browser, name(1))
    clients().update(cimd_expires_at=timezone.now() - timedelta(days=1))

    assert arrive(browser, name(1)).status_code == 200
    assert web == [name(1)]


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_registered_clients_count_towards_the_document_limit(browser: Client):
    metadata = {"client_name": "A client", "redirect_uris": [REDIRECT]}
    kind = "application/json"
    Client().post("/oauth/register/", metadata, content_type=kind, REMOTE_ADDR="192.0.2.1")

    assert arrive(browser, name(1)).status_code == 429


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2})
def test_document_clients_count_and_are_evicted(browser: Client, web: list[str]):
    arrive(browser, name(1))
    arrive(browser, name(2))
    refused = arrive(browser, name(3))
    assert refused.status_code == 429
    assert "Too many applications use this site." in refused.content.decode()

    clients().update(updated=timezone.now() - timedelta(hours=2))
    get_access_token_model().objects.create(
        application=clients().get(client_id=name(1)),
        user=get_user_model().objects.get(),
        token="a token",
        scope="mcp",
        expires=timezone.now() + timedelta(hours=1),
    )
    assert arrive(browser, name(3)).status_code == 200
    assert {each.client_id for each in clients().all()} == {name(1), name(3)}


@override_settings(
    OAUTH2_PROVIDER=oauth2_provider_settings(
        CIMD_ENABLED=False,
        CIMD_METADATA_FETCHER="tests.unit.contrib.oauth.test_document_clients.Web",
    )
)
def test_documents_can_be_turned_off(browser: Client, web: list[str]):
    assert arrive(browser, name(1)).status_code == 400
    assert web == []


def registered(number: int) -> list[Any]:
    """Add clients as dynamic registration does."""
    model = get_application_model()
    return [
        model.objects.create(
            redirect_uris=REDIRECT,
            client_type="public",
            authorization_grant_type="authorization-code",
            registration_source="dcr",
        )
        for _ in range(number)
    ]


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 4})
def test_registered_clients_cannot_block_document_clients(browser: Client):
    registered(3)
    response = Client().post(
        "/oauth/register/",
        {"client_name": "A client", "redirect_uris": [REDIRECT]},
        content_type="application/json",
        REMOTE_ADDR="192.0.2.2",
    )

    assert response.status_code == 429
    assert arrive(browser, name(1)).status_code == 200
    assert clients().filter(registration_source="dcr").count() == 3


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 4})
def test_document_clients_cannot_block_registrations(browser: Client):
    statuses = [arrive(browser, name(number)).status_code for number in range(4)]

    assert statuses == [200, 200, 200, 429]


def test_security_an_asynchronous_permission_class_admits_no_document(
    browser: Client, web: list[str], settings: Any
):
    settings.OAUTH2_PROVIDER = {
        **settings.OAUTH2_PROVIDER,
        "CIMD_REGISTRATION_PERMISSION_CLASSES": [
            "tests.unit.contrib.oauth.test_register.Asynchronous"
        ],
    }

    refused = arrive(browser, name(1))

    assert refused.status_code == 400
    assert web == []
    assert not clients().exists()
