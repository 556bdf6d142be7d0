"""A key for some entries sees these, what its tools link to, and nothing else of a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import include, path
from django.utils import timezone

from django_mcp import MCPServer, ResourceLink
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.inprocess import MCPError
from django_mcp.middleware import TenantMiddleware
from django_mcp.models import APIKey
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

HIDDEN = "secret"
EACH_REVISION = [each.name for each in REVISIONS]


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer(
        "restricted",
        authenticators=[APIKeyAuthenticator(cache_s=0)],
        instructions="Read secret://plan first.",
        task_ttl_s=3600,
    )

    @server.tool(read_only=True, task="allowed")
    def find() -> list[ResourceLink]:
        """Find orders."""
        return [ResourceLink("order://1", name="1")]

    @server.tool(read_only=True, meta={"ui": {"resourceUri": "ui://board"}})
    def board() -> str:
        return "shown"

    @server.tool(name=HIDDEN, task="allowed")
    def hidden() -> list[ResourceLink]:
        return [ResourceLink("order://9", name="9")]

    add_resources(server)
    add_prompts(server)
    return server


def add_resources(server: MCPServer) -> None:
    @server.resource("order://{number}")
    def order(number: str) -> str:
        return f"order {number}"

    @server.resource("secret://plan")
    def plan() -> str:
        return "attack at dawn"

    @server.resource("secret://{name}/notes")
    def notes(name: str) -> str:
        return f"notes of {name}"

    @server.resource("ui://board")
    def page() -> str:
        return "<p>board</p>"

    @server.completion("secret://{name}/notes", "name")
    def names(value: str) -> list[str]:
        return ["ann"]


def add_prompts(server: MCPServer) -> None:
    @server.prompt(name="secret_prompt")
    def ask(city: str) -> str:
        return f"ask about {city}"

    @server.prompt
    def greet(city: str) -> str:
        return f"greet {city}"

    @server.completion("secret_prompt", "city")
    def cities(value: str) -> list[str]:
        return ["Atlantis"]


def client_of(
    server: MCPServer, user: User, revision: str | None = None, **named: Any
) -> MCPClient:
    _key, text = APIKey.objects.issue(user=user, name="tests", **named)
    return MCPClient(server, revision=revision, headers={"Authorization": f"Bearer {text}"})


def refusal(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[int | None, str]:
    with pytest.raises(MCPError) as found:
        function(*args, **kwargs)
    return found.value.code, found.value.message


@pytest.mark.parametrize("revision", EACH_REVISION)
def test_a_key_for_some_tools_sees_nothing_else_by_any_method(
    server: MCPServer, user: User, revision: str
) -> None:
    client = client_of(server, user, revision, tools=["find"])

    assert [each["name"] for each in client.list_tools()] == ["find"]
    assert client.list_resources() == []
    assert client.list_resource_templates() == []
    assert client.list_prompts() == []
    for uri in ("secret://plan", "secret://ann/notes", "order://1", "ui://board"):
        unknown = refusal(client.read, "nowhere://x")
        assert refusal(client.read, uri) == (unknown[0], unknown[1].replace("nowhere://x", uri))
    unknown = refusal(client.prompt, "no_prompt", city="x")
    found = refusal(client.prompt, "secret_prompt", city="x")
    assert found == (unknown[0], unknown[1].replace("no_prompt", "secret_prompt"))


@pytest.mark.parametrize("revision", EACH_REVISION[1:])
def test_a_key_for_some_tools_completes_nothing(
    server: MCPServer, user: User, revision: str
) -> None:
    client = client_of(server, user, revision, tools=["find"])

    for ref in (
        {"type": "ref/prompt", "name": "secret_prompt"},
        {"type": "ref/resource", "uri": "secret://{name}/notes"},
    ):
        argument = {"name": "city" if "name" in ref else "name", "value": ""}
        error = refusal(client.send, "completion/complete", {"ref": ref, "argument": argument})
        assert error[1].startswith("Unknown reference")


@pytest.mark.parametrize("revision", EACH_REVISION[:-1])
def test_a_key_for_some_tools_subscribes_to_nothing_else(
    server: MCPServer, user: User, revision: str
) -> None:
    client = client_of(server, user, revision, tools=["find"])

    error = refusal(client.send, "resources/subscribe", {"uri": "secret://plan"})

    assert error[1] == "Resource not found: secret://plan"


@pytest.mark.parametrize("is_guarded", [False, True])
def test_a_listening_key_hears_only_of_resources_that_its_tools_gave_it(
    server: MCPServer,
    user: User,
    is_guarded: bool,
    django_capture_on_commit_callbacks: Any,
) -> None:
    if is_guarded:
        # Then what a stream receives depends on permissions as well.
        server.register_tool(lambda: "", name="guarded", permission="shop.view_order")
    client = client_of(server, user, tools=["find"])

    with client.listen("secret://plan", "order://1", lists=()) as changes:
        client.call("find")
        with django_capture_on_commit_callbacks(execute=True):
            server.notify_resource_updated("secret://plan")
            server.notify_resource_updated("order://1")
        assert changes.next()["params"]["uri"] == "order://1"
        assert len(changes.heard) == 1


@pytest.mark.parametrize("revision", EACH_REVISION)
def test_a_key_for_some_tools_gets_no_text_about_the_whole_server(
    server: MCPServer, user: User, revision: str
) -> None:
    restricted = client_of(server, user, revision, tools=["find"])

    assert HIDDEN not in str(restricted.discover())
    assert HIDDEN in str(client_of(server, user, revision).discover())


def test_a_key_sees_the_resources_and_prompts_that_it_names(server: MCPServer, user: User) -> None:
    resources = ["secret://plan", "secret://{name}/notes"]
    client = client_of(server, user, resources=resources, prompts=["greet"])

    assert client.list_tools() == []
    assert [each["uri"] for each in client.list_resources()] == ["secret://plan"]
    assert [each["uriTemplate"] for each in client.list_resource_templates()] == resources[1:]
    assert [each["name"] for each in client.list_prompts()] == ["greet"]
    assert client.read("secret://ann/notes").text == "notes of ann"
    assert refusal(client.read, "order://1")


def test_a_key_may_name_one_resource_of_a_template(server: MCPServer, user: User) -> None:
    client = client_of(server, user, resources=["order://1"])

    assert client.list_resource_templates() == []
    assert client.read("order://1").text == "order 1"
    assert refusal(client.read, "order://2")


@pytest.mark.parametrize("revision", EACH_REVISION)
def test_a_key_reads_what_its_tools_link_to_and_no_other_key_does(
    server: MCPServer, user: User, revision: str
) -> None:
    client = client_of(server, user, revision, tools=["find"])
    other = client_of(server, user, revision, tools=["find"])

    client.call("find")

    assert client.read("order://1").text == "order 1"
    assert refusal(client.read, "order://2")
    assert refusal(other.read, "order://1")


class ByHost(TenantMiddleware):
    def enter(self, exchange: Any) -> AbstractContextManager[object]:
        return nullcontext()


@pytest.mark.parametrize("revision", EACH_REVISION)
@pytest.mark.parametrize("kind", ["url", "host", "task"])
def test_a_link_opens_nothing_at_another_tenant(
    server: MCPServer, user: User, revision: str, kind: str, settings: Any
) -> None:
    patterns = [path("of/<slug:tenant>/", include(server.urls[0]))]
    settings.ROOT_URLCONF = type("URLs", (), {"urlpatterns": patterns})
    settings.ALLOWED_HOSTS = ["a.example", "b.example"]
    if kind == "host":
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MIDDLEWARE": [f"{__name__}.ByHost"]}
    _key, text = APIKey.objects.issue(user=user, name="tests", tools=["find"])

    def client_at(tenant: str) -> MCPClient:
        place, host = ("a", tenant) if kind == "host" else (tenant, "a")
        headers = {"Authorization": f"Bearer {text}", "Host": f"{host}.example"}
        return MCPClient(path=f"/of/{place}/mcp", revision=revision, headers=headers)

    here, elsewhere = client_at("a"), client_at("b")
    if kind == "task" and revision in ("2025-11-25", "2026-07-28"):
        here.call_as_task("find")
    else:
        here.call("find")

    assert here.read("order://1").text == "order 1"
    assert refusal(elsewhere.read, "order://1")
    elsewhere.call("find")
    assert elsewhere.read("order://1").text == "order 1"


def test_a_link_does_not_open_what_its_user_may_not_see(server: MCPServer, user: User) -> None:
    @server.resource("guarded://1", permission="shop.view_order")
    def guarded() -> str:
        return "guarded"

    @server.tool
    def point() -> ResourceLink:
        return ResourceLink("guarded://1", name="1")

    client = client_of(server, user, tools=["point"])
    client.call("point")

    assert refusal(client.read, "guarded://1")


def test_a_key_reads_the_page_of_its_tools(server: MCPServer, user: User) -> None:
    client = client_of(server, user, tools=["board"])

    assert client.read("ui://board").text == "<p>board</p>"
    assert [each["uri"] for each in client.list_resources()] == ["ui://board"]


def test_a_key_reads_what_the_tool_of_its_task_links_to(server: MCPServer, user: User) -> None:
    client = client_of(server, user, tools=["find"])

    client.call_as_task("find")

    assert client.read("order://1").text == "order 1"


def test_a_task_is_unknown_once_its_key_does_not_name_its_tool(
    server: MCPServer, user: User
) -> None:
    client = client_of(server, user, "2025-11-25")
    client.call_as_task(HIDDEN)
    task_id = client.send("tasks/list", {})["tasks"][0]["taskId"]

    APIKey.objects.update(is_restricted=True, tools="find")

    assert client.send("tasks/list", {})["tasks"] == []
    assert refusal(client.send, "tasks/get", {"taskId": task_id})
    assert refusal(client.send, "tasks/result", {"taskId": task_id})


def test_a_link_is_not_read_once_the_key_does_not_name_its_tool(
    server: MCPServer, user: User
) -> None:
    client = client_of(server, user, tools=["find", "board"])
    client.call("find")
    assert client.read("order://1").text == "order 1"

    APIKey.objects.update(tools="board")

    assert refusal(client.read, "order://1")


def test_an_expired_link_is_not_read(server: MCPServer, user: User) -> None:
    from django_mcp.models import GivenLink

    client = client_of(server, user, tools=["find"])
    client.call("find")

    GivenLink.objects.update(expires_at=timezone.now())

    assert refusal(client.read, "order://1")


def test_the_oldest_links_of_a_key_make_room_for_new_ones(
    server: MCPServer, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.auth import given_links
    from django_mcp.models import GivenLink
    from django_mcp.server.exchange.quotas import Limits

    monkeypatch.setattr(given_links._usage, "limits", Limits(own_count=3, count=100))

    @server.tool
    def page(number: int) -> list[ResourceLink]:
        uris = [f"order://{number}{letter}" for letter in "ab"]
        return [ResourceLink(uri, name=uri) for uri in uris]

    client = client_of(server, user, tools=["page"])
    for number in range(4):
        client.call("page", number=number)

    assert GivenLink.objects.count() <= 4
    assert client.read("order://3b").text == "order 3b"
    assert refusal(client.read, "order://0a")


def test_links_of_a_key_that_several_calls_stored_at_once_come_back_to_its_limit(
    server: MCPServer, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.auth import given_links
    from django_mcp.models import GivenLink
    from django_mcp.server.exchange.quotas import Limits

    limits = Limits(own_count=3, count=100)
    monkeypatch.setattr(given_links._usage, "limits", limits)

    @server.tool
    def page(number: int) -> list[ResourceLink]:
        return [ResourceLink(f"order://{number}", name="an order")]

    client = client_of(server, user, tools=["page"])
    client.call("page", number=0)
    # Calls that run at once choose the same rows to make room, and each adds its own.
    stored = GivenLink.objects.get()
    GivenLink.objects.bulk_create(
        GivenLink(digest=f"{number}", quota_key=stored.quota_key, expires_at=stored.expires_at)
        for number in range(9)
    )
    for number in range(1, 5):
        client.call("page", number=number)

    assert GivenLink.objects.count() <= limits.own_count
    assert client.read("order://4").text == "order 4"


def test_an_unknown_resource_or_prompt_is_an_error(server: MCPServer, user: User) -> None:
    for kind, name in (("resources", "nowhere://1"), ("prompts", "gret")):
        named: Any = {kind: [name]}
        with pytest.raises(ValueError, match=f"No MCP server has the {kind} '{name}'"):
            client_of(server, user, **named)
