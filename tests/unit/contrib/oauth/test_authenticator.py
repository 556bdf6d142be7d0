"""A token is accepted at its endpoint, while it, its user and its client are valid."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, override_settings
from django.urls import include, path
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from django_mcp import Context
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.servers import MCPServer
from tests.support.wire import V2026_07_28, headers_for, message

AUTHENTICATORS = [OAuthAuthenticator(cache_s=0)]

orders = MCPServer("audience-orders", authenticators=AUTHENTICATORS)
stock = MCPServer("audience-stock", authenticators=AUTHENTICATORS)


@orders.tool(read_only=True)
def whoami(ctx: Context) -> str:
    """Tell who asks."""
    return ctx.user.get_username()


@orders.tool(scopes=["orders:read", "orders:write"])
def cancel() -> str:
    """Cancel."""
    return "cancelled"


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("orders/", orders.urls),
    path("orders/mcp/stock/", stock.urls),
]

pytestmark = pytest.mark.django_db(transaction=True)

RESOURCE = "http://testserver/orders/mcp"


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP={"SYNC_THREADS": 0}):
        yield


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada")


def token_for(user: Any, **fields: Any) -> str:
    application = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://client.example/",
    )
    get_access_token_model().objects.create(
        **{
            "user": user,
            "application": application,
            "token": "a-token",
            "scope": "mcp",
            "resource": [RESOURCE],
            "expires": timezone.now() + timedelta(hours=1),
            **fields,
        }
    )
    return "a-token"


def call(token: str, path: str = "/orders/mcp", *, name: str = "whoami", **headers: str) -> Any:
    body = message("tools/call", {"name": name, "arguments": {}}, revision=V2026_07_28)
    return Client().post(
        path,
        body,
        content_type="application/json",
        headers={
            **headers_for(body, V2026_07_28),
            "Host": "testserver",
            "Authorization": f"Bearer {token}",
            **headers,
        },
    )


@pytest.mark.parametrize(
    "resource",
    [
        [RESOURCE],
        ["http://testserver/orders/mcp/"],
        ["HTTP://TestServer:80/orders/mcp"],
        ["https://api.example.com/", RESOURCE],
    ],
)
def test_a_token_is_accepted_at_its_endpoint(user: Any, resource: list[str]):
    response = call(token_for(user, resource=resource))

    assert response.status_code == 200, response.content
    assert response.json()["result"]["content"][0]["text"] == "ada"


@pytest.mark.parametrize(
    "resource",
    [
        [],
        ["http://testserver"],
        ["http://testserver/"],
        ["http://testserver/orders"],
        ["http://testserver/orders/mcp/stock/mcp"],
        ["http://testserver/mcp"],
        ["http://testserver/orders/mc"],
        ["http://testserver/orders/mcp?x=1"],
        ["http://testserver/Orders/mcp"],
        ["http://testserver:8000/orders/mcp"],
        ["https://testserver/orders/mcp"],
        ["http://testserver.evil.example/orders/mcp"],
        ["http://testserver@evil.example/orders/mcp"],
        ["http://testserver/orders/mcp#"],
        ["http://testserver/orders/./mcp"],
        ["not a uri"],
    ],
)
def test_a_token_for_another_resource_is_rejected(user: Any, resource: list[str]):
    response = call(token_for(user, resource=resource))

    assert response.status_code == 401
    assert 'error="invalid_token"' in response["www-authenticate"]


def test_a_token_for_an_endpoint_is_rejected_below_it(user: Any):
    assert call(token_for(user), "/orders/mcp/stock/mcp").status_code == 401


def test_a_token_is_for_the_toolsets_of_its_address_alone(user: Any):
    token = token_for(user, resource=[f"{RESOURCE}/x/a,b"])

    assert call(token, "/orders/mcp/x/a,b", name="nothing").status_code == 200
    for other in ("", "/x/a", "/x/b,a", "/x/a,b,c"):
        assert call(token, f"/orders/mcp{other}").status_code == 401
    get_access_token_model().objects.update(resource=[RESOURCE])
    assert call(token, "/orders/mcp/x/a,b").status_code == 401
    refused = call("nonsense", "/orders/mcp/x/a,b")["www-authenticate"]
    assert "/.well-known/oauth-protected-resource/orders/mcp/x/a,b" in refused


def test_a_forged_host_does_not_change_the_audience(user: Any):
    token = token_for(user, resource=["http://evil.example/orders/mcp"])

    assert call(token, **{"X-Forwarded-Host": "evil.example"}).status_code == 401
    assert call(token, Host="evil.example").status_code == 400


def test_insufficient_scope_names_all_scopes_and_the_metadata(
    user: Any,
):
    response = call(token_for(user, scope="orders:read"), name="cancel")

    challenge = response["www-authenticate"]
    assert response.status_code == 403
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="orders:read orders:write"' in challenge
    metadata = "http://testserver/.well-known/oauth-protected-resource/orders/mcp"
    assert f'resource_metadata="{metadata}"' in challenge
    assert Client().get(metadata).json()["resource"] == RESOURCE


def test_a_token_with_all_required_scopes_is_accepted(user: Any):
    implied = {"SYNC_THREADS": 0, "SCOPE_IMPLIES": {"orders": ["orders:read", "orders:write"]}}
    with override_settings(DJANGO_MCP=implied):
        assert call(token_for(user, scope="orders"), name="cancel").status_code == 200


def test_an_expired_token_is_rejected(user: Any):
    assert call(token_for(user, expires=timezone.now())).status_code == 401


def test_a_revoked_token_is_rejected(user: Any):
    token = token_for(user)
    assert call(token).status_code == 200

    get_access_token_model().objects.get().revoke()

    assert call(token).status_code == 401


def test_a_token_of_an_inactive_user_is_rejected(user: Any):
    user.is_active = False
    user.save()

    assert call(token_for(user)).status_code == 401


def test_a_token_without_a_client_is_rejected(user: Any):
    assert call(token_for(user, application=None)).status_code == 401


def test_the_registration_access_token_is_not_accepted(user: Any):
    token = token_for(user, scope="oauth2_provider:registration", resource=[])

    assert call(token).status_code == 401


@pytest.mark.parametrize("token", ["unknown", "a-token=", "A-TOKEN", "x" * 4000])
def test_unknown_and_expired_tokens_get_the_same_error(user: Any, token: str):
    expired = call(token_for(user, expires=timezone.now()))
    unknown = call(token)

    assert unknown.status_code == expired.status_code == 401
    assert unknown.content == expired.content
    assert unknown["www-authenticate"] == expired["www-authenticate"]


def test_a_token_in_the_query_string_is_ignored(user: Any):
    token = token_for(user)
    body = message("tools/list", revision=V2026_07_28)
    response = Client().post(
        f"/orders/mcp?access_token={token}",
        body,
        content_type="application/json",
        headers={**headers_for(body, V2026_07_28), "Host": "testserver"},
    )

    assert response.status_code == 401


def test_a_token_costs_one_query(user: Any, django_assert_num_queries: Any):
    token = token_for(user)

    with django_assert_num_queries(1):
        response = call("unknown")
    assert response.status_code == 401
    with django_assert_num_queries(1):
        response = call(token)
    assert response.status_code == 200, response.content
