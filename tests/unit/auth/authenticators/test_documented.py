"""The authenticator that docs/howto/authentication.md shows as an example of an own class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Context, MCPServer
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from tests.support.doc_blocks import all_blocks


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the page's block defines."""
    (block,) = [each for each in all_blocks() if "class DeviceAuthenticator" in each.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    return SimpleNamespace(**names)


@pytest.fixture
def server(page: SimpleNamespace) -> MCPServer:
    server = MCPServer("devices", authenticators=[page.DeviceAuthenticator()])

    @server.tool(read_only=True)
    def who(ctx: Context) -> str:
        """Return who calls."""
        assert ctx.auth is not None
        return f"{ctx.user} by {ctx.auth.authenticator}"

    return server


def client_with(server: MCPServer, token: str) -> MCPClient:
    return MCPClient(server, headers={"Authorization": f"Bearer {token}"})


@pytest.mark.django_db
def test_its_tokens_are_accepted_until_they_expire(
    page: SimpleNamespace, server: MCPServer
) -> None:
    ada = User.objects.create_user("ada")
    found = client_with(server, page.make_device_token(ada)).call("who")
    assert found.text == "ada by device"
    for token in (page.make_device_token(ada, days=-1), "of.somebody.else"):
        with pytest.raises(MCPError) as error:
            client_with(server, token).call("who")
        assert error.value.status == 401
