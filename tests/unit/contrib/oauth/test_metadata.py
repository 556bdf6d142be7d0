"""The documents by which clients find their way: where they are, what they say, and under which address."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import AsyncClient, Client, override_settings
from django.urls import clear_script_prefix, include, path, set_script_prefix

from django_mcp.auth.authenticators import CallableAuthenticator
from django_mcp.servers import MCPServer

AUTHENTICATORS = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
PROTECTED = {"NAME": "shop", "TITLE": "The shop", "AUTHENTICATORS": AUTHENTICATORS}
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"

staff = MCPServer("metadata-staff", authenticators=AUTHENTICATORS)
tenants = MCPServer("metadata-tenants", authenticators=AUTHENTICATORS)
everybody = MCPServer("metadata-everybody", public=True)
called = MCPServer(
    "metadata-called",
    authenticators=[CallableAuthenticator(lambda request: None, challenge="Bearer")],
)


@staff.tool(scopes=["stock:write", "stock:read", "offline_access"])
def restock() -> str:
    """Fill the shelves."""
    return "full"


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("staff/", staff.urls),
    path("of/<slug:tenant>/", tenants.urls),
    path("open/", everybody.urls),
    path("called/", called.urls),
]

FORGED: dict[str, str] = {
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Server": "evil.example",
    "Forwarded": "host=evil.example",
    "X-Original-URL": "http://evil.example/",
}


@pytest.fixture(autouse=True)
def site() -> Any:
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP=PROTECTED):
        yield


def get(url: str, **headers: str) -> Any:
    return Client().get(url, headers=headers)


@pytest.mark.parametrize("url", [RESOURCE, f"{RESOURCE}/mcp", f"{RESOURCE}/mcp/"])
def test_the_resource_metadata_is_at_both_forms(url: str):
    response = get(url)

    assert response.status_code == 200
    assert response["content-type"] == "application/json"
    assert response["access-control-allow-origin"] == "*"
    assert response.json() == {
        "resource": "http://testserver/mcp",
        "authorization_servers": ["http://testserver"],
        "bearer_methods_supported": ["header"],
        "resource_name": "The shop",
    }


def test_each_server_has_metadata_of_its_own_with_the_scopes_that_its_tools_name():
    found = get(f"{RESOURCE}/staff/mcp").json()

    assert found["resource"] == "http://testserver/staff/mcp"
    assert found["scopes_supported"] == ["stock:read", "stock:write"]


def test_a_server_below_a_captured_path_has_metadata_of_each():
    assert get(f"{RESOURCE}/of/acme/mcp").json()["resource"] == "http://testserver/of/acme/mcp"


def test_clients_are_told_to_ask_for_the_base_scopes_when_there_are_some():
    with override_settings(
        DJANGO_MCP={**PROTECTED, "OAUTH_BASE_SCOPES": ["mcp", "offline_access"]}
    ):
        assert get(f"{RESOURCE}/staff/mcp").json()["scopes_supported"] == ["mcp"]


@pytest.mark.parametrize(
    "path", ["/open/mcp", "/nothing", "/mcp/health", "/mcp/more", "/of/mcp", "//evil.example/mcp"]
)
def test_what_is_no_protected_resource_has_no_metadata(path: str):
    response = get(RESOURCE + path)

    assert response.status_code == 404
    assert response["content-type"] == "application/json"
    assert "evil" not in response.content.decode()


def test_without_the_default_server_the_root_form_is_about_nothing_if_there_are_several():
    with override_settings(DJANGO_MCP={"PUBLIC": True}):
        assert get(RESOURCE).status_code == 404


@pytest.mark.parametrize("url", [SERVER, f"{SERVER}/mcp", f"{SERVER}/staff/mcp"])
def test_the_authorization_server_has_one_issuer_wherever_it_is_looked_for(url: str):
    response = get(url)
    found = response.json()

    assert response["access-control-allow-origin"] == "*"
    assert found["issuer"] == "http://testserver"
    assert found["authorization_endpoint"] == "http://testserver/oauth/authorize/"
    assert found["token_endpoint"] == "http://testserver/oauth/token/"
    assert found["registration_endpoint"] == "http://testserver/oauth/register/"
    assert found["revocation_endpoint"] == "http://testserver/oauth/revoke/"
    assert found["response_types_supported"] == ["code"]
    assert found["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert "none" in found["token_endpoint_auth_methods_supported"]
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True
    assert {"mcp", "stock:read", "stock:write"} <= set(found["scopes_supported"])
    assert "offline_access" not in found["scopes_supported"]


@pytest.mark.parametrize("path", ["/nothing", "/evil.example", "//evil.example", "/mcp/more"])
def test_no_other_path_has_an_issuer(path: str):
    assert get(SERVER + path).status_code == 404


DOCUMENTS = [RESOURCE, f"{RESOURCE}/mcp", f"{RESOURCE}/staff/mcp", SERVER, f"{SERVER}/mcp"]


@pytest.mark.parametrize("url", DOCUMENTS)
def test_forged_headers_change_no_document(url: str):
    assert get(url, **FORGED).json() == get(url).json()


@pytest.mark.parametrize("url", [*DOCUMENTS, "/oauth/authorize/", "/oauth/register/"])
def test_a_host_that_is_not_allowed_is_answered_with_nothing(url: str):
    response = get(url, Host="evil.example")

    assert response.status_code in (400, 405)
    assert b"evil.example" not in response.content


@pytest.mark.parametrize("url", DOCUMENTS)
@override_settings(ALLOWED_HOSTS=["*"], USE_X_FORWARDED_HOST=True)
def test_the_public_url_is_in_every_document_whatever_is_forged(url: str):
    with override_settings(DJANGO_MCP={**PROTECTED, "PUBLIC_URL": "https://shop.example.com"}):
        text = get(url, Host="evil.example", **FORGED).content.decode()

    assert "evil" not in text
    assert "http://" not in text
    assert "https://shop.example.com" in text


@pytest.mark.django_db
@override_settings(ALLOWED_HOSTS=["*"])
def test_the_public_url_is_in_a_registration_whatever_is_forged():
    with override_settings(DJANGO_MCP={**PROTECTED, "PUBLIC_URL": "https://shop.example.com"}):
        response = Client().post(
            "/oauth/register/",
            json.dumps({"redirect_uris": ["https://client.example/"]}),
            content_type="application/json",
            headers={"Host": "evil.example", **FORGED},
        )

    assert response.status_code == 201
    assert response.json()["registration_client_uri"].startswith("https://shop.example.com/oauth/")


async def test_a_refusal_names_the_metadata_of_the_endpoint_and_nothing_forged():
    for endpoint, where in (
        ("/mcp", "/mcp"),
        ("/staff/mcp/", "/staff/mcp"),
        ("/of/a/mcp", "/of/a/mcp"),
    ):
        response = await AsyncClient().post(
            endpoint, b"{}", content_type="application/json", headers={**FORGED, "Accept": "*/*"}
        )

        challenge = response["www-authenticate"]
        assert response.status_code == 401
        assert f'resource_metadata="http://testserver{RESOURCE}{where}"' in challenge
        assert "error" not in challenge
        assert "evil" not in challenge


async def test_a_refusal_names_the_base_scopes_when_there_are_some():
    base = {**PROTECTED, "OAUTH_BASE_SCOPES": ["mcp", "offline_access"]}
    with override_settings(DJANGO_MCP=base):
        response, without = [
            await AsyncClient().post(path, b"{}", content_type="application/json")
            for path in ("/mcp", "/called/mcp")
        ]

    assert 'scope="mcp"' in response["www-authenticate"]
    # It takes no tokens of any authorization server.
    assert without["www-authenticate"] == 'Bearer realm="metadata-called"'


@override_settings(
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
)
@pytest.mark.parametrize("url", DOCUMENTS)
def test_a_site_that_asks_everybody_to_sign_in_does_not_ask_clients(url: str):
    assert get(url).status_code == 200


@pytest.mark.parametrize("url", DOCUMENTS)
def test_pages_of_every_origin_may_read_the_documents(url: str):
    response = Client().options(url, headers={"Origin": "https://inspector.example"})

    assert response.status_code == 204
    assert response["access-control-allow-origin"] == "*"
    assert "MCP-Protocol-Version" in response["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response


def test_below_a_script_prefix_every_address_is_below_it():
    client = Client(SCRIPT_NAME="/shop")
    # The test client leaves to us what the WSGI and ASGI handlers do.
    set_script_prefix("/shop/")
    try:
        resource = client.get(f"{RESOURCE}/staff/mcp").json()
        server = client.get(SERVER).json()
        by_whole_path = client.get(f"{RESOURCE}/shop/staff/mcp").json()
        by_issuer = client.get(f"{SERVER}/shop").json()
    finally:
        clear_script_prefix()

    assert resource["resource"] == "http://testserver/shop/staff/mcp"
    assert resource["authorization_servers"] == [server["issuer"]] == ["http://testserver/shop"]
    assert server["token_endpoint"] == "http://testserver/shop/oauth/token/"
    assert by_whole_path == resource
    assert by_issuer == server
