"""Toolsets in the commands: what they list, and the keys and configurations that they make."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.models import APIKey
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def server() -> MCPServer:
    server = MCPServer("listed", public=True, authenticators=[APIKeyAuthenticator(cache_s=0)])
    server.register_tool(lambda: "", name="find", toolset="orders", read_only=True)
    server.register_tool(lambda: "", name="cancel", toolset="orders", scopes=["orders:write"])
    server.register_tool(lambda: "", name="report", toolset="reports", read_only=True)
    server.register_tool(lambda: "", name="plan", toolset="plans", permission="auth.view_user")
    server.register_tool(lambda: "", name="loose")
    server.register_prompt(lambda: "", name="greet", toolset="orders")
    return server


def run(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, "--server", "listed", *arguments, stdout=out, stderr=out, no_color=True)
    return out.getvalue()


def listed(*arguments: str) -> set[str]:
    found: dict[str, Any] = json.loads(run("mcp_list", "--json", *arguments))
    return {each["name"] for kind in ("tools", "prompts") for each in found[kind]}


def test_the_list_tells_the_toolsets_and_can_be_narrowed_to_some():
    assert "Toolsets: orders (3), reports (1)\n" in run("mcp_list")
    found = json.loads(run("mcp_list", "--json"))
    assert found["toolsets"] == {"orders": ["find", "cancel", "greet"], "reports": ["report"]}
    assert listed() == {"find", "cancel", "report", "loose", "greet"}
    assert listed("--toolset", "orders") == {"find", "cancel", "greet"}
    assert listed("--toolset", "orders", "--toolset", "reports", "--read-only") == {
        "find",
        "report",
        "greet",
    }
    assert listed("--toolset", "plans") == set()
    told = "Nothing of it is in the lists. The toolsets of the server 'listed': orders, plans, reports."
    assert told in run("mcp_list", "--toolset", "ordres")


def test_a_key_for_a_toolset_has_the_scopes_that_it_needs(server: MCPServer):
    user = User.objects.create_user("ada")
    made = StringIO()
    named = ("create", "ada", "report", "--server", "listed", "--toolset", "orders", "--json")
    call_command("mcp_key", *named, stdout=made)
    found = json.loads(made.getvalue())

    assert found["scopes"] == ["orders:write"]
    assert found["only"]["toolsets"] == ["orders"]
    client = MCPClient(server, headers={"Authorization": f"Bearer {found['key']}"})
    assert {each["name"] for each in client.list_tools()} == {"find", "cancel"}
    assert listed("--key", found["prefix"]) == {"find", "cancel", "greet"}
    assert APIKey.objects.get().user == user


def test_a_key_that_only_reads(server: MCPServer):
    User.objects.create_user("ada")
    made = StringIO()
    call_command("mcp_key", "create", "ada", "report", "--read-only", "--json", stdout=made)
    found = json.loads(made.getvalue())

    assert found["read_only"] is True
    assert "only" not in found
    client = MCPClient(server, headers={"Authorization": f"Bearer {found['key']}"})
    assert {each["name"] for each in client.list_tools()} == {"find", "report"}


def test_a_key_for_an_unknown_toolset_is_refused():
    User.objects.create_user("ada")
    for given, told in (("ordres", "has the toolsets 'ordres'"), ("a,b", "without commas")):
        with pytest.raises(CommandError, match=told):
            call_command("mcp_key", "create", "ada", "report", "--toolset", given)
    assert not APIKey.objects.exists()


def test_configurations_are_narrowed_as_they_are_told(server: MCPServer):
    def configure(*arguments: str) -> Any:
        out = StringIO()
        given = ("--client", "cursor", "--server", "listed", *arguments)
        call_command("mcp_config", *given, stdout=out, stderr=StringIO())
        return json.loads(out.getvalue())["mcpServers"]["listed"]

    http = ("--http", "https://x.org/mcp/")
    url = configure(*http, "--toolset", "orders", "--toolset", "reports")["url"]
    assert url == "https://x.org/mcp/x/orders,reports"
    arguments = configure("--toolset", "orders", "--read-only")["args"]
    assert arguments[-5:] == ["--server", "listed", "--toolset", "orders", "--read-only"]
    with pytest.raises(CommandError, match="has no toolset 'ordres'"):
        configure("--toolset", "ordres")
    with pytest.raises(CommandError, match="X-MCP-Readonly: true"):
        configure(*http, "--read-only")
