"""A client that names toolsets sees only what is in them, by every method, and is granted nothing by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import include, path

from django_mcp import Context, MCPServer, ResourceLink
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.endpoints.mounts import find_match, find_mounts
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.server.methods import discovery
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

ERAS = ["2025-11-25", "2026-07-28"]
SECRET = "shop.view_order"

EVERYTHING = {
    "find_orders",
    "cancel_order",
    "plan_purge",
    "report",
    "loose",
    "order://list",
    "order://{number}",
    "report://{year}",
    "ui://board",
    "greet",
    "summarize",
}


@pytest.fixture
def server(settings: Any) -> MCPServer:
    server = MCPServer(
        "sets", public=True, authenticators=[APIKeyAuthenticator(cache_s=0)], instructions="Hello."
    )

    @server.tool(toolset="orders", read_only=True, task="allowed")
    def find_orders() -> list[ResourceLink]:
        return [ResourceLink("report://2026", name="2026")]

    @server.tool(toolset="orders")
    def cancel_order() -> str:
        return "cancelled"

    @server.tool(toolset="purge", permission=SECRET)
    def plan_purge() -> str:
        return "planned"

    @server.tool(toolset="reports", read_only=True, meta={"ui": {"resourceUri": "ui://board"}})
    def report() -> str:
        return "reported"

    @server.tool(toolset="health", read_only=True)
    def loose() -> str:
        return "loose"

    add_readable(server)
    urls = type("URLs", (), {"urlpatterns": [path("", include(server.urls[0]))]})
    settings.ROOT_URLCONF = urls
    return server


def add_readable(server: MCPServer) -> None:
    server.resource("order://list", toolset="orders", name="orders")(lambda: "orders")
    server.resource("ui://board", toolset="pages", name="board")(lambda: "<p>board</p>")

    @server.resource("order://{number}", toolset="orders")
    def order(number: str) -> str:
        return f"order {number}"

    @server.resource("report://{year}", toolset="reports")
    def yearly(year: str) -> str:
        return f"report {year}"

    @server.prompt(toolset="orders")
    def greet(city: str) -> str:
        return f"greet {city}"

    @server.prompt(toolset="reports")
    def summarize(city: str) -> str:
        return f"summarize {city}"

    for prompt in ("greet", "summarize"):
        server.completion(prompt, "city")(lambda value: ["Aden"])


def client_of(
    toolsets: str | None = None,
    *,
    at: str | None = None,
    revision: str | None = None,
    read_only: str | None = None,
    key: str | None = None,
) -> MCPClient:
    headers = {
        "X-MCP-Toolsets": toolsets,
        "X-MCP-Readonly": read_only,
        "X-API-Key": key,
    }
    given = {name: value for name, value in headers.items() if value is not None}
    where = "/mcp" if at is None else f"/mcp/x/{at}"
    return MCPClient(path=where, revision=revision, headers=given)


def seen_by(client: MCPClient) -> set[str]:
    return {
        *(each["name"] for each in client.list_tools()),
        *(each["uri"] for each in client.list_resources()),
        *(each["uriTemplate"] for each in client.list_resource_templates()),
        *(each["name"] for each in client.list_prompts()),
    }


def refusal(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[int | None, str]:
    with pytest.raises(MCPError) as found:
        function(*args, **kwargs)
    return found.value.code, found.value.message


ORDERS = {"find_orders", "cancel_order", "order://list", "order://{number}", "greet"}
REPORTS = {"report", "report://{year}", "ui://board", "summarize"}
WAYS: Any = pytest.mark.parametrize("way", [{"toolsets": "orders"}, {"at": "orders"}])


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ({}, EVERYTHING - {"plan_purge"}),
        ({"toolsets": "orders"}, ORDERS),
        ({"at": "orders"}, ORDERS),
        ({"toolsets": " reports ,, orders"}, ORDERS | REPORTS),
        ({"at": "reports,orders"}, ORDERS | REPORTS),
        ({"at": "reports,orders", "toolsets": "orders"}, ORDERS),
        ({"at": "reports", "toolsets": "orders"}, set()),
        ({"toolsets": "nowhere"}, set()),
        ({"at": "nowhere"}, set()),
        ({"toolsets": "ORDERS"}, set()),
        ({"toolsets": ","}, EVERYTHING - {"plan_purge"}),
        ({"read_only": "true"}, EVERYTHING - {"plan_purge", "cancel_order"}),
        ({"read_only": "whatever"}, EVERYTHING - {"plan_purge", "cancel_order"}),
        ({"read_only": "false"}, EVERYTHING - {"plan_purge"}),
        ({"at": "orders", "read_only": "true"}, ORDERS - {"cancel_order"}),
    ],
)
def test_lists_have_what_is_in_the_toolsets_that_the_client_names(
    server: MCPServer, way: dict[str, Any], expected: set[str], revision: str
) -> None:
    client = client_of(**way, revision=revision)

    assert seen_by(client) == expected
    assert seen_by(client) == expected


@pytest.mark.parametrize("revision", ERAS)
@WAYS
def test_what_is_not_in_the_toolsets_is_unknown_by_every_method(
    server: MCPServer, way: dict[str, str], revision: str
) -> None:
    client = client_of(**way, revision=revision)

    assert client.call("cancel_order").text == "cancelled"
    client.assert_hidden("report", "report://2026", "ui://board", "summarize", "loose")


@pytest.mark.parametrize("revision", ERAS)
@WAYS
def test_only_what_is_in_the_toolsets_is_completed(
    server: MCPServer, way: dict[str, str], revision: str
) -> None:
    client = client_of(**way, revision=revision)

    def complete(prompt: str) -> Any:
        ref, argument = {"type": "ref/prompt", "name": prompt}, {"name": "city", "value": ""}
        return client.send("completion/complete", {"ref": ref, "argument": argument})

    assert complete("greet")["completion"]["values"] == ["Aden"]
    assert refusal(complete, "summarize")[1] == "Unknown reference: summarize"


@WAYS
def test_a_result_that_links_out_of_the_toolsets_opens_nothing(
    server: MCPServer, way: dict[str, str], django_user_model: Any
) -> None:
    user = django_user_model.objects.create_user("ada")
    _row, key = APIKey.objects.issue(user=user, name="tests", tools=["find_orders"])
    client = client_of(**way, key=key)
    client.call("find_orders")

    assert refusal(client.read, "report://2026")
    assert client_of(key=key).read("report://2026").text == "report 2026"


def test_the_page_of_a_tool_comes_with_the_tool(server: MCPServer) -> None:
    assert client_of("reports").read("ui://board").text == "<p>board</p>"
    assert refusal(client_of("orders").read, "ui://board")


@WAYS
@pytest.mark.parametrize("revision", ERAS)
def test_a_stream_tells_only_of_what_is_in_the_toolsets(
    server: MCPServer,
    way: dict[str, str],
    revision: str,
    django_capture_on_commit_callbacks: Any,
) -> None:
    client = client_of(**way, revision=revision)

    if revision == "2025-11-25":
        error = refusal(client.send, "resources/subscribe", {"uri": "report://2026"})
        assert error[1] == "Resource not found: report://2026"
    uris = ("order://1",) if revision == "2025-11-25" else ("report://2026", "order://1")
    with client.listen(*uris, lists=()) as changes:
        with django_capture_on_commit_callbacks(execute=True):
            server.notify_resource_updated("report://2026")
            server.notify_resource_updated("order://1")
        assert changes.next()["params"]["uri"] == "order://1"
        assert len(changes.heard) == 1


def test_requests_of_one_session_may_name_different_toolsets(server: MCPServer) -> None:
    client = client_of("orders", revision="2025-11-25")
    assert seen_by(client) == ORDERS
    session = client._session_id

    client.headers = {"X-MCP-Toolsets": "reports"}
    assert seen_by(client) == REPORTS
    client.headers = {}
    assert seen_by(client) == EVERYTHING - {"plan_purge"}
    assert client._session_id == session


def test_a_task_is_unknown_where_its_tool_is(server: MCPServer, django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("ada")
    _row, key = APIKey.objects.issue(user=user, name="tests")
    client = client_of("orders", revision="2025-11-25", key=key)
    client.call_as_task("find_orders")
    (task,) = client.send("tasks/list", {})["tasks"]

    elsewhere = client_of("reports", revision="2025-11-25", key=key)
    assert elsewhere.send("tasks/list", {})["tasks"] == []
    assert refusal(elsewhere.send, "tasks/get", {"taskId": task["taskId"]})
    whole = client_of(revision="2025-11-25", key=key)
    assert whole.send("tasks/get", {"taskId": task["taskId"]})["status"] == "completed"


# -- what may not be told


@pytest.mark.parametrize("revision", ERAS)
def test_a_toolset_that_the_user_cannot_see_is_like_one_that_does_not_exist(
    server: MCPServer, revision: str, django_user_model: Any
) -> None:
    user = django_user_model.objects.create_user("ada")
    _row, key = APIKey.objects.issue(user=user, name="tests")

    def answers(name: str) -> list[Any]:
        found: list[Any] = []
        for way in ({"toolsets": name}, {"at": name}, {"toolsets": f"{name},orders"}):
            client = client_of(**way, revision=revision, key=key)
            found += (
                sorted(seen_by(client)),
                client.discover(),
                refusal(client.call, "plan_purge"),
            )
        return found

    assert answers("purge") == answers("nowhere")

    user.user_permissions.add(Permission.objects.get(codename="view_order"))
    assert seen_by(client_of("purge", revision=revision, key=key)) == {"plan_purge"}


@pytest.mark.parametrize("revision", ERAS)
def test_the_instructions_name_the_toolsets_of_this_user(
    server: MCPServer, revision: str, django_user_model: Any
) -> None:
    user = django_user_model.objects.create_user("ada")
    _row, key = APIKey.objects.issue(user=user, name="tests")
    names = "health, orders, pages, reports"
    expected = (
        "Hello.\n\n"
        "Toolsets: {}. To see only some of them, send their names in the header X-MCP-Toolsets, or add /x/ "
        "and their names to the address."
    )

    for way in ({}, {"toolsets": "orders"}, {"at": "nowhere"}):
        told = client_of(**way, revision=revision, key=key).discover()["instructions"]
        assert told == expected.format(names)
    user.user_permissions.add(Permission.objects.get(codename="view_order"))
    told = client_of(revision=revision, key=key).discover()["instructions"]
    assert told == expected.format("health, orders, pages, purge, reports")


def test_a_server_of_one_toolset_says_nothing_of_it(settings: Any) -> None:
    server = MCPServer("one", public=True)
    server.tool(name="only", toolset="orders")(lambda: "")

    assert "instructions" not in MCPClient(server).discover()


def test_names_that_are_too_long_are_refused(server: MCPServer) -> None:
    most = "x," * 511 + "xx"
    assert seen_by(client_of(most)) == seen_by(client_of(at=most)) == set()

    client = client_of("x" * 10_000)
    assert refusal(client.list_tools)[1] == "X-MCP-Toolsets must be at most 1024 bytes"
    assert client.response is not None
    assert client.response.status == 431
    for wrong in ("x" * 1025, "a b", "a%2Fb", "a/b"):
        assert Client().get(f"/mcp/x/{wrong}").status_code == 404, wrong
    assert Client().get("/mcp/x/").status_code == 404


# -- handlers


def test_handlers_do_not_get_the_names_as_captured_values(server: MCPServer) -> None:
    @server.tool(toolset="orders")
    def where(ctx: Context) -> str:
        return repr(dict(ctx.url_kwargs))

    assert client_of(at="orders").call("where").text == "{}"


# -- speed


def test_lists_are_kept_by_what_is_wanted_and_apart_from_those_of_others(
    server: MCPServer, django_user_model: Any
) -> None:
    derived = server.engine.derived
    client_of().list_tools()
    for number in range(20):
        client_of(f"orders,nowhere{number}").list_tools()
    strangers, known = derived.narrowed_lists

    assert len(derived.lists) == len(strangers) == 1
    user = django_user_model.objects.create_user("ada")
    _row, key = APIKey.objects.issue(user=user, name="tests")
    client_of("orders", key=key).list_tools()
    assert (len(known), len(strangers)) == (1, 1)


def test_lists_of_many_toolsets_take_bounded_memory(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MAX_NARROWED_BYTES", 2000)
    strangers, _known = server.engine.derived.narrowed_lists
    for names in ("orders", "reports", "health", "orders,reports", "orders,health"):
        client_of(names).list_tools()
        assert sum(map(len, strangers.values())) <= 2000
    assert strangers


# -- where it is in the URLconf


def test_the_path_with_toolsets_is_no_endpoint_of_its_own(server: MCPServer) -> None:
    assert {mount.path for mount in find_mounts()} == {"/mcp", "/mcp/"}
    assert find_match("/mcp/x/orders") is not None
    assert find_match("/mcp/x/orders/") is not None
    for other in ("/mcp/x", "/mcp/y/orders", "/x/orders", "/mcp/orders"):
        assert find_match(other) is None


def test_a_toolset_takes_the_path_of_nothing_else(server: MCPServer) -> None:
    assert Client().get("/mcp/health").json() == {"status": "ok"}
    assert seen_by(client_of(at="health")) == {"loose"}


def test_many_paths_displace_no_endpoint_from_memory(server: MCPServer) -> None:
    from django_mcp.endpoints import mounts

    find_match("/mcp")
    for number in range(2 * mounts.MAX_KNOWN):
        find_match(f"/mcp/x/t{number}")

    assert "/mcp" in mounts._known
    assert len(mounts._known_narrowed) <= mounts.MAX_KNOWN
