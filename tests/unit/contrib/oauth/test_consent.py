"""The consent page for users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, override_settings
from django.urls import include, path
from django.utils.translation import gettext_lazy
from oauth2_provider.models import get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.contrib.oauth.names import clean_name
from django_mcp.servers import MCPServer
from tests.support.policies import policy_of
from tests.unit.contrib.oauth.test_authorizing import address

pytestmark = pytest.mark.django_db

AUTHENTICATORS = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
SCOPES = {"stock:read": "Look at the shelves", "stock:write": gettext_lazy("Permission denied.")}

depot = MCPServer("consent-depot", title="The depot", authenticators=AUTHENTICATORS)


@depot.tool(title="Count the shelves", scopes=["stock:read"])
def count() -> int:
    """Count."""
    return 3


@depot.tool(title="Fill the shelves", scopes=["stock:read", "stock:write"])
def fill() -> int:
    """Fill."""
    return 4


@depot.tool(title="Burn the depot", scopes=["stock:write"], permission="auth.delete_user")
def burn() -> int:
    """Burn."""
    return 0


mixed = MCPServer("consent-mixed", title="The mix", authenticators=AUTHENTICATORS)
mixed.tool(name="look", scopes=None)(lambda: "seen")
mixed.tool(name="greet", scopes=())(lambda: "hello")
mixed.tool(name="order", scopes=["stock:write"])(lambda: "ordered")

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("depot/", depot.urls),
    path("mixed/", mixed.urls),
]


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, OAUTH2_PROVIDER=oauth2_provider_settings(SCOPES)):
        yield


def application(**fields: Any) -> Any:
    return get_application_model().objects.create(
        **{
            "name": "A client",
            "client_type": "public",
            "authorization_grant_type": "authorization-code",
            "redirect_uris": "https://client.example/callback",
            "registration_source": "dcr",
            **fields,
        }
    )


def page_for(application: Any, **options: Any) -> str:
    text: str = response_for(application, **options).content.decode()
    return text


def response_for(
    application: Any, *, language: str = "en", user: str = "ada", **changes: str | None
) -> Any:
    browser = Client()
    browser.force_login(get_user_model().objects.create_user(user))
    asked = {
        "scope": "stock:read stock:write",
        "resource": "http://testserver/depot/mcp",
        **changes,
    }
    response = browser.get(address(application, **asked), headers={"Accept-Language": language})
    assert response.status_code == 200, response.content
    return response


def test_the_consent_page_shows_client_scopes_and_redirect():
    page = page_for(application())

    assert "A client" in page
    assert "nobody has checked it" in page
    assert "<strong>client.example</strong>" in page
    assert "<strong><bdi>ada</bdi></strong>" in page
    assert "The depot" in page
    assert "Look at the shelves" in page
    assert "Needed for: Count the shelves, Fill the shelves" in page


def test_the_page_counts_the_tools_that_every_token_may_call():
    page = page_for(application(), resource="http://testserver/mixed/mcp")
    without = page_for(application(), user="grace")

    assert "And 2 tools that need no scope" in page
    assert "no scope" not in without


def test_the_page_names_the_site_and_shows_its_logo(settings: Any):
    settings.DJANGO_MCP = {"TITLE": None}
    assert '<p class="site"><bdi>testserver</bdi></p>' in page_for(application())

    settings.DJANGO_MCP = {"TITLE": "Ada & sons", "ICONS": ["https://cdn.example/logo.png"]}
    response = response_for(application(), user="grace")

    text = response.content.decode()
    assert (
        '<p class="site"><img src="https://cdn.example/logo.png" alt=""> <bdi>Ada &amp; sons'
        in text
    )
    assert "img-src 'self' data: https://cdn.example;" in policy_of(response)


def test_the_page_lists_the_url_of_every_requested_endpoint():
    page = page_for(application(registration_source="manual"))

    assert "<strong>The depot</strong>" in page
    assert "http://testserver/depot/mcp" in page
    assert "No MCP endpoint" not in page


def test_the_page_says_if_no_endpoint_is_requested():
    page = page_for(application(registration_source="manual"), resource=None)

    assert "No MCP endpoint of this site is included." in page
    assert "The depot" not in page


def test_the_consent_page_uses_the_users_language():
    page = page_for(application(), language="de")

    assert '<html lang="de" dir="ltr">' in page
    assert "Weiterleitung an" in page
    assert "Endpunkte" in page
    assert "Keine Berechtigung." in page
    assert "Erlauben</button>" in page


def test_a_metadata_document_client_is_shown_by_its_host():
    page = page_for(
        application(client_id="https://claude.example/client.json", registration_source="cimd")
    )

    assert "Described by itself at claude.example." in page
    assert "nobody has checked it" not in page


def test_a_client_on_the_users_computer_is_labelled():
    page = page_for(
        application(redirect_uris="http://127.0.0.1/callback"),
        redirect_uri="http://127.0.0.1:33418/callback",
    )

    assert "A program on the computer you are using now." in page


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "{% csrf_token %}{{ form }}",
        '" onmouseover="alert(1)',
        "</bdi></h1><form action=//evil.example>",
    ],
)
def test_a_client_name_is_escaped(name: str):
    page = page_for(application(name=name))

    assert name not in page or "<" not in name
    assert "<script" not in page
    # That of the answer, and that to sign in with another account.
    assert page.count("<form") == 2
    assert '" onmouseover=' not in page


def test_tools_hidden_from_the_user_are_not_listed_under_a_scope():
    assert "Burn the depot" not in page_for(application())


def test_a_broad_scope_lists_the_tools_of_its_narrow_scopes():
    with override_settings(DJANGO_MCP={"SCOPE_IMPLIES": {"stock": ["stock:read", "stock:write"]}}):
        page = page_for(application(), scope="stock")

    assert "(stock)" in page
    assert "Needed for: Count the shelves, Fill the shelves" in page


def test_a_scope_used_only_by_a_tool_is_shown_by_name():
    with override_settings(OAUTH2_PROVIDER=oauth2_provider_settings({"stock:read": "Look"})):
        page = page_for(application())

    assert "(stock:write)" in page
    assert "No description is given." in page


def test_an_error_is_shown_escaped():
    browser = Client()
    browser.force_login(get_user_model().objects.create_user("ada"))

    response = browser.get("/oauth/authorize/?client_id=<script>&response_type=code")

    assert response.status_code == 400
    assert "<script" not in response.content.decode()
    assert "<form" not in response.content.decode()


def test_the_consent_page_requires_login():
    response = Client().get(address(application()))

    assert response.status_code == 302
    assert response["location"].startswith("/admin/login/?next=/oauth/authorize/")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Claude", "Claude"),
        ("  two\n\tlines ", "two lines"),
        ("Bank\u202eknaB", "BankknaB"),
        ("a\u200bb\ufeff\u2066c\0", "abc"),
        ("A" * 200, "A" * 79 + "…"),
        ("\u05d0\u05d1", "\u05d0\u05d1"),
    ],
)
def test_a_client_name_is_one_line_of_visible_characters(name: str, shown: str):
    assert clean_name(name) == shown
