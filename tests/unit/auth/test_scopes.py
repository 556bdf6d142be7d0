"""Scopes: the error names missing ones, and broad ones include narrow ones."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.auth.scopes import expand_scopes
from django_mcp.registry.problems import RegistrationError
from django_mcp.server.exchange.caller import ANONYMOUS
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient


def token(*scopes: str, has_all: bool = False) -> Principal:
    info = AuthInfo(
        subject="ann", authenticator="oauth", scopes=frozenset(scopes), has_all_scopes=has_all
    )
    return Principal(key="token:ann", user=User(username="ann"), auth=info)


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("scoped", public=True)

    @server.tool(scopes=["a", "b"])
    def tool() -> str:
        return "done"

    server.resource("x://1", scopes="a", name="r")(lambda: "read")
    server.resource("y://{n}", scopes="a", name="t")(lambda n: "read")
    server.prompt(name="p", scopes=["a"])(lambda n="": "text")

    @server.completion("p", "n", scopes=["c"])
    def complete(value: str) -> list[str]:
        return ["one"]

    return server


PROMPT = {"type": "ref/prompt", "name": "p"}
USES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("tools/call", {"name": "tool"}, ["a", "b"]),
    ("resources/read", {"uri": "x://1"}, ["a"]),
    ("resources/read", {"uri": "y://1"}, ["a"]),
    ("prompts/get", {"name": "p"}, ["a"]),
    ("completion/complete", {"ref": PROMPT, "argument": {"name": "n", "value": ""}}, ["a", "c"]),
]


@pytest.mark.parametrize(("method", "params", "scopes"), USES)
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
async def test_all_scopes_of_an_operation_are_listed(
    server: MCPServer, revision: Any, method: str, params: dict[str, Any], scopes: list[str]
) -> None:
    for held in ([], ["b"], ["A"]):
        client = WireClient(server, revision, principal=token(*held))
        status, error = await client.error(method, params)
        assert (status, error["data"]) == (403, {"scopes": scopes})
    client = WireClient(server, revision, principal=token("a", "b", "c"))
    assert "result" in (await client.send(method, params))[1]


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
async def test_scopes_do_not_replace_permissions(revision: Any) -> None:
    """A token with the scope of a tool gives no access to objects hidden from its user."""
    server = MCPServer("objects")

    @server.tool(scopes=["a"], check=lambda user, key: key == "own")
    def look(key: str) -> str:
        return f"seen {key}"

    client = WireClient(server, revision, principal=token("a", "b"))
    seen = await client.call("look", {"key": "own"})
    hidden = await client.call("look", {"key": "other"})

    assert seen["content"][0]["text"] == "seen own"
    assert hidden["isError"] is True
    assert "other" not in hidden["content"][0]["text"]


@pytest.mark.parametrize(("method", "params", "scopes"), USES)
async def test_only_tokens_have_scopes(
    server: MCPServer, method: str, params: dict[str, Any], scopes: list[str]
) -> None:
    for passes in (User(username="ann"), token(has_all=True), Principal(key="k")):
        client = WireClient(server, V2026_07_28, principal=passes)
        assert "result" in (await client.send(method, params))[1]
    for nobody in (ANONYMOUS, AnonymousUser()):
        status, _ = await WireClient(server, V2026_07_28, principal=nobody).error(method, params)
        assert status == 401


async def test_a_broad_scope_includes_narrow_ones(server: MCPServer) -> None:
    implied = {"all": ["most"], "most": ["a", "b", "all"], "a": ["c"]}

    async def status(*held: str) -> int:
        client = WireClient(server, V2026_07_28, principal=token(*held))
        return (await client.send("tools/call", {"name": "tool"}))[0]

    with override_settings(DJANGO_MCP={"SCOPE_IMPLIES": implied}):
        assert [await status(held) for held in ("all", "most", "a", "c")] == [200, 200, 403, 403]
        assert expand_scopes(frozenset({"all"})) == {"all", "most", "a", "b", "c"}
    assert [await status("all"), await status("a", "b")] == [403, 200]


@pytest.mark.parametrize("wrong", ["a b", "", 'a"b', "a\\b", "é", ["a", ""], 5, [None], "a\nb"])
def test_an_invalid_scope_is_rejected(wrong: Any) -> None:
    with pytest.raises(RegistrationError, match="scope"):
        MCPServer("x").register_tool(lambda: "", name="x", scopes=wrong)
