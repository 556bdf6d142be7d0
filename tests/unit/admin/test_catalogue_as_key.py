"""The catalogue as an API key sees it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.models import APIKey
from django_mcp.servers import MCPServer
from django_mcp.test import MCPClient
from tests.unit.admin.test_links import page_of
from tests.unit.admin.test_pages import client_of, url

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("keyed", authenticators=[APIKeyAuthenticator()])
    server.register_tool(lambda: "", name="open")
    server.register_tool(lambda: "", name="other")
    server.register_tool(lambda: "", name="of_staff", permission=lambda user: user.is_staff)
    server.register_resource("a://one", lambda: "", name="one")
    server.register_resource("a://two", lambda: "", name="two")
    server.register_resource("a://numbers/{number}", lambda number: "", name="numbers")
    server.register_prompt(lambda: "", name="greet")
    server.register_prompt(lambda: "", name="part")
    return server


def make_key(username: str, **named: Any) -> tuple[APIKey, str]:
    user, _ = get_user_model().objects.get_or_create(username=username)
    return APIKey.objects.issue(user=user, name="laptop", **named)


def seen(client: Client, key: APIKey) -> dict[str, set[str]]:
    page = client.get(
        url("disabledentry_changelist"), {"server": "keyed", "as_key": f"mcp_{key.prefix}"}
    )
    return {
        table.kind.value: {row["key"] for row in table.rows if row["is_visible"]}
        for table in page.context["tables"]
    }


def listed(server: MCPServer, text: str) -> dict[str, set[str]]:
    """Return what a client with the key is told."""
    client = MCPClient(server, headers={"Authorization": f"Bearer {text}"})
    return {
        "tools": {each["name"] for each in client.list_tools()},
        "resources": {each["uri"] for each in client.list_resources()},
        "templates": {each["uriTemplate"] for each in client.list_resource_templates()},
        "prompts": {each["name"] for each in client.list_prompts()},
    }


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"tools": ["open", "of_staff"]},
        {"tools": ["open"], "resources": ["a://two", "a://numbers/{number}"], "prompts": ["part"]},
        {"resources": ["a://one"]},
        {"tools": []},
    ],
)
def test_the_catalogue_shows_what_a_client_with_the_key_is_told(
    admin: Client, server: MCPServer, named: dict[str, Any]
):
    for username in ("ada", get_user_model().objects.get(is_superuser=True).username):
        key, text = make_key(username, **named)
        assert seen(admin, key) == listed(server, text)


def test_an_entry_shows_whether_the_key_sees_it(admin: Client, server: MCPServer):
    key, _text = make_key("ada", tools=["open"])
    for name, is_visible in (("open", True), ("other", False)):
        query = {"server": "keyed", "kind": "tools", "key": name, "as_key": f"mcp_{key.prefix}"}
        page = admin.get(url("entry"), query)
        assert (page.context["wire"] is not None) is is_visible
        assert f"laptop (mcp_{key.prefix})" in page.content.decode()


def test_a_key_links_to_what_it_sees(admin: Client, server: MCPServer):
    key, _text = make_key("ada", tools=["open"])
    links = {str(title): address for title, address in page_of(admin, key).context["links"]}

    page = admin.get(links["What it sees"])
    assert page.context["viewer"].key == key


def test_keys_that_are_over_or_hidden_from_the_viewer_are_not_viewed(
    admin: Client, server: MCPServer
):
    key, _text = make_key("ada", tools=["open"])
    over, _text = make_key("ada")
    over.revoke()
    may_see_keys = client_of("ben", "view_disabledentry", "view_apikey", "view_user")
    own, _text = make_key("ben", tools=["open"])
    without_users = client_of("cyd", "view_disabledentry", "view_apikey")
    without_keys = client_of("dan", "view_disabledentry")
    its_own, _text = make_key("dan", tools=["open"])

    assert seen(may_see_keys, own)["tools"] == {"open"}
    for client, hidden in (
        (admin, over),
        (may_see_keys, key),
        (without_users, key),
        (without_keys, its_own),
    ):
        page = client.get(
            url("disabledentry_changelist"), {"server": "keyed", "as_key": f"mcp_{hidden.prefix}"}
        )
        assert "There is no such key" in page.content.decode()
        assert page.context["viewer"].key is None
    for prefix in ("mcp_", "\0", "mcp_…", "x" * 5000):
        page = admin.get(url("disabledentry_changelist"), {"server": "keyed", "as_key": prefix})
        assert page.context["viewer"].key is None


def test_a_server_without_keys_shows_nothing_to_a_key(admin: Client):
    server = MCPServer("keyed", public=True)
    server.register_tool(lambda: "", name="open")
    key, _text = make_key("ada")

    assert seen(admin, key)["tools"] == set()
    query = {"server": "keyed", "as_key": f"mcp_{key.prefix}"}
    page = admin.get(url("disabledentry_changelist"), query)
    assert "does not accept API keys" in page.content.decode()
