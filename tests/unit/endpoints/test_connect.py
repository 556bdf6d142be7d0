"""The page Connect: the servers that a user may use, and nothing of the others."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator, BearerAuthenticator
from django_mcp.endpoints.client_config import ways_to_connect

PAGE = "/mcp/connect/"

free = MCPServer("free-desk", public=True, title="<i>Desk</i>", description="For all & more")
guarded = MCPServer(
    "vault",
    title="The vault",
    permission="auth.view_permission",
    authenticators=[APIKeyAuthenticator()],
)
closed = MCPServer("closed-desk", title="Closed desk")
empty = MCPServer("empty-desk", public=True, title="Empty desk")


@free.tool
def look() -> str:
    """Look."""
    return ""


@guarded.tool
def unlock() -> str:
    """Unlock."""
    return ""


@closed.tool
def peek() -> str:
    """Peek."""
    return ""


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("free/", free.urls),
    path("vault/", guarded.urls),
    path("closed/", closed.urls),
    path("empty/", empty.urls),
]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    settings.LOGIN_URL = "/login/"


@pytest.fixture
def ada(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("ada", password="pw")


def opened_by(user: Any) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(PAGE)


def test_the_anonymous_are_sent_to_the_login():
    response = Client().get(PAGE)

    assert (response.status_code, response["location"]) == (302, "/login/?next=/mcp/connect/")


def test_a_user_sees_only_the_servers_with_something_for_them(ada: Any):
    html = opened_by(ada).content.decode()

    assert "http://testserver/free/mcp" in html
    for unknown in ("vault", "closed", "Closed desk", "empty", "Empty desk"):
        assert unknown not in html
    assert "&lt;i&gt;Desk&lt;/i&gt;" in html
    assert "<i>" not in html

    ada.user_permissions.add(Permission.objects.get(codename="view_permission"))
    html = opened_by(ada).content.decode()
    assert "The vault" in html
    assert "http://testserver/vault/mcp" in html
    assert "testserver-vault" in html
    assert "Bearer &lt;your key&gt;" in html


def test_it_is_not_cached_nor_framed_and_leads_to_what_was_allowed(ada: Any):
    response = opened_by(ada)

    assert "no-store" in response["cache-control"]
    assert response["x-frame-options"] == "DENY"
    assert "script-src 'self'" in dict(response.items())["Content-Security-Policy"]
    assert 'href="/oauth/authorized/"' in response.content.decode()


def test_programs_are_told_how_to_send_a_key(ada: Any):
    ada.user_permissions.add(Permission.objects.get(codename="view_permission"))
    html = unescape(opened_by(ada).content.decode())

    assert "curl http://testserver/vault/mcp" in html
    assert "-H 'Authorization: Bearer <your key>'" in html
    assert "HEADERS = {'Authorization': 'Bearer <your key>'}" in html
    assert "Client('http://testserver/free/mcp')" in html


class Tokens(BearerAuthenticator):
    """Accepts the tokens of another issuer, which clients get by OAuth."""

    needs_authorization_server = False

    async def verify(self, token: str, exchange: Any) -> None:
        return None


def test_programs_send_a_key_where_clients_may_sign_in_as_well():
    server = MCPServer("both", authenticators=[APIKeyAuthenticator(), Tokens()])
    signing_in = MCPServer("tokens", authenticators=[Tokens()])

    def with_key(server: MCPServer) -> set[str]:
        ways = ways_to_connect(server, "http://testserver/mcp", None)
        return {each.client for each in ways if "Bearer <your key>" in each.text}

    assert with_key(server) == {"curl", "Python"}
    assert with_key(signing_in) == set()


def test_another_account_is_chosen_with_a_token_only(ada: Any):
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)

    assert client.post(PAGE, {"switch_account": "1"}).status_code == 403
    assert client.get(PAGE).status_code == 200
    assert client.put(PAGE).status_code in (403, 405)


def test_a_setting_turns_it_off(ada: Any, settings: Any):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CONNECT_PAGE": False}

    assert opened_by(ada).status_code == 404


def test_it_is_translated(ada: Any):
    client = Client()
    client.force_login(ada)

    assert "Verbinden" in client.get(PAGE, headers={"accept-language": "de"}).content.decode()
