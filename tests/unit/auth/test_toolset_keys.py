"""The toolsets of a key, and whether it only reads, are rules of access that no request can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer, ResourceLink
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.server.exchange.visibility import Allowed
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("keyed-sets", authenticators=[APIKeyAuthenticator(cache_s=0)])

    @server.tool(toolset="orders", read_only=True, task="allowed")
    def find() -> list[ResourceLink]:
        return [ResourceLink("secret://plan", name="plan")]

    @server.tool(toolset="orders", task="allowed")
    def cancel() -> str:
        return "cancelled"

    @server.tool(toolset="reports", read_only=True)
    def report() -> str:
        return "reported"

    server.resource("order://list", toolset="orders", name="orders")(lambda: "orders")
    server.resource("secret://plan", toolset="plans", name="plan")(lambda: "attack at dawn")
    server.prompt(name="greet", toolset="orders")(lambda: "hello")
    server.prompt(name="plan", toolset="plans")(lambda: "plan")
    return server


def client_of(
    server: MCPServer, user: User, revision: str | None = None, **named: Any
) -> MCPClient:
    _key, text = APIKey.objects.issue(user=user, name="tests", **named)
    headers = {"Authorization": f"Bearer {text}"}
    return MCPClient(server, revision=revision, headers=headers)


def seen_by(client: MCPClient) -> set[str]:
    return {
        *(each["name"] for each in client.list_tools()),
        *(each["uri"] for each in client.list_resources()),
        *(each["name"] for each in client.list_prompts()),
    }


def refusal(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(MCPError) as found:
        function(*args, **kwargs)
    return found.value.message


ORDERS = {"find", "cancel", "order://list", "greet"}


@ERAS
@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"toolsets": ["orders"]}, ORDERS),
        ({"toolsets": ["orders"], "read_only": True}, ORDERS - {"cancel"}),
        ({"toolsets": ["orders"], "tools": ["report"]}, {*ORDERS, "report"}),
        ({"tools": ["cancel", "report"], "read_only": True}, {"report"}),
        (
            {"read_only": True},
            {"find", "report", "order://list", "secret://plan", "greet", "plan"},
        ),
    ],
)
def test_a_key_sees_what_its_toolsets_have_and_what_it_names(
    server: MCPServer, user: User, named: dict[str, Any], expected: set[str], revision: str
) -> None:
    client = client_of(server, user, revision, **named)

    assert seen_by(client) == expected
    for tool in {"find", "cancel", "report"} - expected:
        assert refusal(client.call, tool) == f"Unknown tool: {tool}"


@ERAS
def test_a_request_can_narrow_a_key_and_not_widen_it(
    server: MCPServer, user: User, revision: str
) -> None:
    named: Any = {"toolsets": ["orders", "reports"]}
    _key, text = APIKey.objects.issue(user=user, name="tests", **named)

    def seen(names: str) -> set[str]:
        headers = {"Authorization": f"Bearer {text}", "X-MCP-Toolsets": names}
        return seen_by(MCPClient(server, revision=revision, headers=headers))

    assert seen("reports,plans") == {"report"}
    assert seen("plans") == set()
    headers = {"Authorization": f"Bearer {text}", "X-MCP-Readonly": "false"}
    assert "cancel" in seen_by(MCPClient(server, revision=revision, headers=headers))
    APIKey.objects.update(read_only=True)
    assert "cancel" not in seen_by(MCPClient(server, revision=revision, headers=headers))


def test_the_instructions_name_the_toolsets_of_the_key(server: MCPServer, user: User) -> None:
    several = client_of(server, user, tools=["report", "find"])
    assert several.discover()["instructions"].startswith("Toolsets: orders, reports. ")

    _key, text = APIKey.objects.issue(user=user, name="tests", toolsets=["orders"])
    one = MCPClient(server, headers={"Authorization": f"Bearer {text}"})
    assert "plans" not in str(one.discover())


@pytest.mark.parametrize("named", [{"tools": ["plan"]}, {"toolsets": ["plans"]}])
def test_a_key_that_becomes_read_only_loses_what_its_other_tools_linked_to(
    server: MCPServer, user: User, named: dict[str, Any]
) -> None:
    @server.tool(toolset="plans")
    def plan() -> list[ResourceLink]:
        return [ResourceLink("order://list", name="orders")]

    client = client_of(server, user, **named)
    client.call("plan")
    assert client.read("order://list").text == "orders"

    APIKey.objects.update(read_only=True)

    assert "not found" in refusal(client.read, "order://list").lower()


@ERAS
def test_a_key_reads_what_the_tools_of_its_toolsets_link_to(
    server: MCPServer, user: User, revision: str
) -> None:
    _key, text = APIKey.objects.issue(user=user, name="tests", toolsets=["orders"])
    client = MCPClient(server, revision=revision, headers={"Authorization": f"Bearer {text}"})
    assert refusal(client.read, "secret://plan")

    client.call("find")

    assert client.read("secret://plan").text == "attack at dawn"


def test_a_task_is_unknown_once_its_key_only_reads(server: MCPServer, user: User) -> None:
    _key, text = APIKey.objects.issue(user=user, name="tests")
    client = MCPClient(server, revision="2025-11-25", headers={"Authorization": f"Bearer {text}"})
    client.call_as_task("cancel")
    (task,) = client.send("tasks/list", {})["tasks"]

    APIKey.objects.update(read_only=True)

    assert client.send("tasks/list", {})["tasks"] == []
    assert refusal(client.send, "tasks/get", {"taskId": task["taskId"]})


@pytest.mark.parametrize(
    ("now", "before", "is_covered"),
    [
        ({}, {}, True),
        ({"toolsets": {"a", "b"}}, {"toolsets": {"a"}}, True),
        ({"toolsets": {"a"}}, {"toolsets": {"a", "b"}}, False),
        ({"toolsets": {"a"}}, {"tools": {"x"}}, False),
        ({"names_all": True}, {"tools": {"x"}}, True),
        ({"tools": {"x"}}, {"names_all": True}, False),
        ({"names_all": True, "read_only": True}, {"tools": {"x"}}, False),
        ({"names_all": True, "read_only": True}, {"tools": {"x"}, "read_only": True}, True),
        ({"tools": {"x"}}, {"tools": {"x"}, "read_only": True}, True),
    ],
)
def test_a_key_that_was_changed_covers_what_it_was_or_ends_what_it_began(
    now: dict[str, Any], before: dict[str, Any], is_covered: bool
) -> None:
    def allowed(given: dict[str, Any]) -> Allowed:
        values: Any = {
            name: frozenset(value) if isinstance(value, set) else value
            for name, value in given.items()
        }
        return Allowed(**values)

    assert allowed(now).covers(allowed(before)) is is_covered


def test_an_unknown_toolset_is_an_error(server: MCPServer, user: User) -> None:
    with pytest.raises(ValueError, match="No MCP server has the toolsets 'ordres'"):
        APIKey.objects.issue(user=user, name="tests", toolsets=["ordres"])
    with pytest.raises(TypeError, match="toolsets= takes a list"):
        APIKey.objects.issue(user=user, name="tests", toolsets="orders")
