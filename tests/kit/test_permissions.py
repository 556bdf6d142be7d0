"""What the test kit, and calls in process, make of permissions, scopes and checks."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command

from django_mcp import MCPServer
from django_mcp.auth import AuthInfo, Principal
from django_mcp.inprocess import MCPError, UnknownTool
from django_mcp.test import AsyncMCPClient, MCPClient, MCPTestCase

SERVER = MCPServer("permissions")


@SERVER.tool(permission="shop.view_order")
def orders() -> str:
    """List orders."""
    return "orders"


@SERVER.tool(scopes=["orders:write"])
def refund() -> str:
    """Refund."""
    return "refunded"


def permission() -> Permission:
    return Permission.objects.get(codename="view_order")


class Permissions(MCPTestCase):
    mcp_server = SERVER
    ann: Any

    @classmethod
    def setUpTestData(cls) -> None:
        cls.ann = get_user_model().objects.create_user("ann")

    def test_a_permission_counts_at_once(self) -> None:
        self.mcp.force_login(self.ann)
        self.mcp.assert_hidden("orders")

        self.ann.user_permissions.add(permission())

        fresh = get_user_model().objects.get(pk=self.ann.pk)
        self.mcp.force_login(fresh)
        self.mcp.assert_visible("orders")
        assert self.mcp.call("orders").text == "orders"
        assert SERVER.call_tool("orders", user=fresh).text == "orders"

    def test_nothing_is_left_of_it_in_the_next_test(self) -> None:
        self.mcp.force_login(self.ann)
        self.mcp.assert_hidden("orders")
        with pytest.raises(UnknownTool):
            SERVER.call_tool("orders", user=self.ann)

    def test_nor_in_the_one_after_it(self) -> None:
        self.test_a_permission_counts_at_once()

    async def test_the_same_holds_in_an_asynchronous_test(self) -> None:
        client = AsyncMCPClient(SERVER, user=self.ann)
        await client.assert_hidden("orders")

    def test_the_shell_lists_what_the_user_sees(self) -> None:
        from io import StringIO

        out = StringIO()
        call_command("mcp_list", "--server", "permissions", "--user", "ann", stdout=out)
        assert "refund" in out.getvalue()
        assert "orders" not in out.getvalue()
        with pytest.raises(CommandError, match="Unknown tool: orders"):
            call_command("mcp_call", "orders", "--server", "permissions", "--user", "ann")
        self.ann.user_permissions.add(permission())
        call_command("mcp_list", "--server", "permissions", "--user", "ann", stdout=out)
        assert "orders" in out.getvalue()

    def test_a_token_without_the_scope_is_challenged(self) -> None:
        auth = AuthInfo(subject="ann", authenticator="oauth", scopes=frozenset())
        client = MCPClient(SERVER, user=Principal(key="t", user=self.ann, auth=auth))

        client.assert_visible("refund")
        with pytest.raises(MCPError, match="orders:write") as raised:
            client.call("refund")
        assert raised.value.status == 403
        assert client.response is not None
        assert 'scope="orders:write"' in client.response.headers["www-authenticate"]

        assert MCPClient(SERVER, user=self.ann).call("refund").text == "refunded"
        assert SERVER.call_tool("refund", user=self.ann).text == "refunded"
