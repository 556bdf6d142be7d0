"""The discovery documents: their locations, their content, and the host in their URLs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import AsyncClient, Client, override_settings
from django.urls import clear_script_prefix, include, path, set_script_prefix

from django_mcp.auth.authenticators import CallableAuthenticator
from django_mcp.contrib.oauth import oauth2_provider_settings
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
def test_the_resource_metadata_is_at_both_well_known_urls(url: str):
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


def test_each_server_has_its_own_metadata_with_the_scopes_of_its_tools():
    found = get(f"{RESOURCE}/staff/mcp").json()

    assert found["resource"] == "http://testserver/staff/mcp"
    assert found["scopes_supported"] == ["stock:read", "stock:write"]


def test_a_server_below_a_captured_path_has_metadata_for_each_path():
    assert get(f"{RESOURCE}/of/acme/mcp").json()["resource"] == "http://testserver/of/acme/mcp"


@pytest.mark.parametrize("names", ["a", "nowhere", "b,a", "a,"])
def test_the_address_for_some_toolsets_has_metadata_of_its_own(names: str):
    whole = get(f"{RESOURCE}/staff/mcp").json()
    found = get(f"{RESOURCE}/staff/mcp/x/{names}").json()

    # The names are not told apart: a toolset that is there may be hidden.
    assert found == {**whole, "resource": f"http://testserver/staff/mcp/x/{names}"}


def test_the_metadata_lists_base_scopes_if_configured():
    with override_settings(
        DJANGO_MCP={**PROTECTED, "OAUTH_BASE_SCOPES": ["mcp", "offline_access"]}
    ):
        assert get(f"{RESOURCE}/staff/mcp").json()["scopes_supported"] == ["mcp"]


@pytest.mark.parametrize(
    "path",
    [
        "/open/mcp",
        "/nothing",
        "/mcp/health",
        "/mcp/x",
        "/mcp/x/a/b",
        "/mcp/x/a b",
        "/mcp/more",
        "/of/mcp",
        "//evil.example/mcp",
    ],
)
def test_an_unprotected_resource_has_no_metadata(path: str):
    response = get(RESOURCE + path)

    assert response.status_code == 404
    assert response["content-type"] == "application/json"
    assert "evil" not in response.content.decode()


def test_several_servers_without_a_default_have_no_root_metadata():
    with override_settings(DJANGO_MCP={"PUBLIC": True}):
        assert get(RESOURCE).status_code == 404


@pytest.mark.parametrize("url", [SERVER, f"{SERVER}/mcp", f"{SERVER}/staff/mcp"])
def test_the_authorization_server_has_one_issuer_at_every_url(url: str):
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
    assert "offline_access" in found["scopes_supported"]


@pytest.mark.parametrize("path", ["/nothing", "/evil.example", "//evil.example", "/mcp/more"])
def test_no_other_path_has_an_issuer(path: str):
    assert get(SERVER + path).status_code == 404


DOCUMENTS = [RESOURCE, f"{RESOURCE}/mcp", f"{RESOURCE}/staff/mcp", SERVER, f"{SERVER}/mcp"]


@pytest.mark.parametrize("url", DOCUMENTS)
def test_forged_headers_change_no_document(url: str):
    assert get(url, **FORGED).json() == get(url).json()


@pytest.mark.parametrize("url", [*DOCUMENTS, "/oauth/authorize/", "/oauth/register/"])
def test_a_disallowed_host_gets_no_document(url: str):
    response = get(url, Host="evil.example")

    assert response.status_code in (400, 405)
    assert b"evil.example" not in response.content


@pytest.mark.parametrize("url", DOCUMENTS)
@override_settings(ALLOWED_HOSTS=["*"], USE_X_FORWARDED_HOST=True)
def test_the_public_url_overrides_forged_headers_in_documents(url: str):
    with override_settings(DJANGO_MCP={**PROTECTED, "PUBLIC_URL": "https://shop.example.com"}):
        text = get(url, Host="evil.example", **FORGED).content.decode()

    assert "evil" not in text
    assert "http://" not in text
    assert "https://shop.example.com" in text


@pytest.mark.django_db
@override_settings(ALLOWED_HOSTS=["*"])
def test_the_public_url_overrides_forged_headers_in_a_registration():
    with override_settings(DJANGO_MCP={**PROTECTED, "PUBLIC_URL": "https://shop.example.com"}):
        response = Client().post(
            "/oauth/register/",
            json.dumps({"redirect_uris": ["https://client.example/"]}),
            content_type="application/json",
            headers={"Host": "evil.example", **FORGED},
        )

    assert response.status_code == 201
    assert response.json()["registration_client_uri"].startswith("https://shop.example.com/oauth/")


async def test_the_401_names_the_endpoints_metadata_and_no_forged_host():
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


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"]


@pytest.mark.parametrize("endpoint", ["/mcp", "/mcp/", "/staff/mcp", "/of/a/mcp/"])
@pytest.mark.parametrize("accept", ["text/html", "*/*", "text/event-stream"])
async def test_each_request_without_a_token_is_told_where_to_get_one(endpoint: str, accept: str):
    for method in METHODS:
        response = await AsyncClient().generic(
            method, endpoint, b"{}", content_type="text/plain", headers={"Accept": accept}
        )

        assert_challenged(response, endpoint)


@pytest.mark.parametrize("endpoint", ["/mcp", "/mcp/", "/staff/mcp", "/of/a/mcp/"])
def test_each_request_without_a_token_is_told_so_under_wsgi(endpoint: str):
    for method in METHODS:
        response = Client().generic(
            method, endpoint, b"{}", content_type="text/plain", headers={"Host": "testserver"}
        )

        assert_challenged(response, endpoint)


def assert_challenged(response: Any, endpoint: str) -> None:
    url = f"http://testserver{RESOURCE}{endpoint.rstrip('/')}"
    assert response.status_code == 401, response.content
    assert f'resource_metadata="{url}"' in response["www-authenticate"]


async def test_a_preflight_needs_no_token():
    response = await AsyncClient().options("/mcp", headers={"Origin": "http://testserver"})

    assert response.status_code == 204


def test_the_metadata_names_no_grant_that_has_no_pages():
    device = "urn:ietf:params:oauth:grant-type:device_code"
    grants = ["authorization_code", "refresh_token", device]
    with override_settings(
        OAUTH2_PROVIDER=oauth2_provider_settings(OAUTH2_GRANT_TYPES_SUPPORTED=grants)
    ):
        assert get(SERVER).json()["grant_types_supported"] == grants[:2]


async def test_the_401_names_base_scopes_if_configured():
    base = {**PROTECTED, "OAUTH_BASE_SCOPES": ["mcp", "offline_access"]}
    with override_settings(DJANGO_MCP=base):
        response, without = [
            await AsyncClient().post(path, b"{}", content_type="application/json")
            for path in ("/mcp", "/called/mcp")
        ]

    assert 'scope="mcp"' in response["www-authenticate"]
    # It accepts no tokens of an authorization server.
    assert without["www-authenticate"] == 'Bearer realm="metadata-called"'


@override_settings(
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
)
@pytest.mark.parametrize("url", DOCUMENTS)
def test_login_required_middleware_does_not_affect_clients(url: str):
    assert get(url).status_code == 200


@pytest.mark.parametrize("url", DOCUMENTS)
def test_documents_allow_every_origin(url: str):
    response = Client().options(url, headers={"Origin": "https://inspector.example"})

    assert response.status_code == 204
    assert response["access-control-allow-origin"] == "*"
    assert "MCP-Protocol-Version" in response["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response


def test_every_url_includes_the_script_prefix():
    client = Client(SCRIPT_NAME="/shop")
    # The test client does not do this as the WSGI and ASGI handlers do.
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
