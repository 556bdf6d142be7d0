"""The clients of the test kit: a real exchange, without a server, inside of a transaction."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Annotated, Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path

from django_mcp import Context, McpHeader, MCPServer, ToolError
from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import Principal
from django_mcp.calls import flush_calls
from django_mcp.execution import outages
from django_mcp.inprocess import (
    MCPError,
    Unanswered,
    UnknownPrompt,
    UnknownReference,
    UnknownResource,
    UnknownTool,
)
from django_mcp.models import CallRecord
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.visibility import ALL_VISIBLE, Allowed, Requirements, VisibleEntries
from django_mcp.server.memory import OpenAccess
from django_mcp.test import (
    AsyncMCPClient,
    MCPClient,
    MCPTestCase,
    MCPTransactionTestCase,
)
from example_project.shop.models import Product
from tests.support.databases import make_product
from tests.support.kit import RUNS, Wish, make_server
from tests.support.ports import use_ports

REVISION_NAMES = [revision.name for revision in REVISIONS]
OLDEST, NEWEST = REVISION_NAMES[0], REVISION_NAMES[-1]
SERVER = make_server()
MOUNTED = make_server()

urlpatterns = [
    path("t/<slug:tenant>/", MOUNTED.urls),
    path("x/", SERVER.urls),
    path("page", HttpResponse),
]


@pytest.fixture(params=REVISION_NAMES)
def client(request: pytest.FixtureRequest) -> MCPClient:
    return MCPClient(SERVER, revision=request.param)


@pytest.fixture
def newest() -> MCPClient:
    return MCPClient(SERVER)


@pytest.fixture
def staff() -> Any:
    return get_user_model()(pk=1, username="ann", is_staff=True)


def test_the_client_supports_every_revision(client: MCPClient):
    assert client.call("add", a=1, b=2).text == "3"
    assert client.call("add", a="x").is_error
    assert client.read("kit://3/page").text == "page 3"
    assert client.prompt("letter", to="Ann").text == "Write a warm letter to Ann"
    assert client.complete("letter", "tone", "c").values == ["cold"]
    assert client.complete("letter", "tone", "", to="wry").values == ["warm", "wry"]
    assert "Be kind." in client.discover()["instructions"]
    assert client.response is not None
    assert client.response.status == 200


def test_lists_contain_every_page_in_the_revisions_format(client: MCPClient):
    tools = {tool["name"]: tool for tool in client.list_tools()}

    assert {"add", "who", "where", "thread", "count", "work", "wish"} <= tools.keys()
    # 2025-06-18 is the first revision with output schemas.
    assert ("outputSchema" in tools["add"]) is (client.revision >= "2025-06-18")
    assert client.list_resources() == []
    assert [found["uriTemplate"] for found in client.list_resource_templates()] == [
        "kit://{n}/page"
    ]
    assert [found["name"] for found in client.list_prompts()] == ["letter"]


def test_the_client_uses_the_newest_revision_by_default(newest: MCPClient):
    assert newest.revision == NEWEST
    assert newest.call("count").raw["resultType"] == "complete"
    with pytest.raises(ValueError, match="choose from"):
        MCPClient(SERVER, revision="1999-01-01")


def test_a_disabled_revision_raises():
    server = MCPServer("one revision", public=True, revisions=["2025-11-25"])

    with pytest.raises(MCPError, match="does not speak 2025-03-26, but 2025-11-25"):
        MCPClient(server, revision="2025-03-26").list_tools()
    with pytest.raises(MCPError):
        MCPClient(server).list_tools()


def test_an_unknown_name_raises_lookup_error(client: MCPClient):
    with pytest.raises(UnknownTool) as raised:
        client.call("nothing")
    with pytest.raises(UnknownPrompt):
        client.prompt("nothing")
    with pytest.raises(UnknownResource):
        client.read("kit://nothing")
    with pytest.raises(UnknownReference):
        client.complete("nothing", "tone")

    assert raised.value.code == -32602


def test_an_unknown_tool_is_reported_with_the_nearest_one(client: MCPClient):
    with pytest.raises(UnknownTool) as raised:
        client.call("cuont")

    assert raised.value.__notes__ == ["Did you mean 'count'?"]


def test_a_hidden_entry_is_reported_with_what_it_needs(client: MCPClient, staff: Any):
    uses: list[tuple[Any, str, str]] = [
        (client.call, "staff_report", "tool staff_report"),
        (client.read, "kit://staff-list", "resource kit://staff-list"),
    ]
    for use, name, what in uses:
        with pytest.raises(LookupError) as raised:
            use(name)
        (note,) = raised.value.__notes__
        assert (
            f"The {what} is registered, but hidden from a client that is not signed in: it needs"
            in note
        )
        assert "tests.support.kit.is_staff (" in note
        assert note.endswith("Bearer ...'}.")
        assert "registered" not in str(raised.value)

        client.force_login(get_user_model()(pk=2, username="bob"))
        with pytest.raises(LookupError) as raised:
            use(name)
        (note,) = raised.value.__notes__
        assert f"The {what} is registered, but hidden from this user: it needs" in note
        client.logout()


def test_an_entry_that_the_credentials_do_not_name_is_reported():
    client = MCPClient(SERVER, headers={"X-MCP-Readonly": "true"})

    with pytest.raises(UnknownTool) as raised:
        client.call("add", a=1)

    assert raised.value.__notes__[0].endswith("or for tools that only read.")


def test_a_disabled_tool_is_reported():
    server = MCPServer("disabling", public=True)

    @server.tool
    def refund() -> None:
        """Refund."""

    server.registry.set_disabled(frozenset({("tools", "refund")}))

    with pytest.raises(UnknownTool) as raised:
        MCPClient(server).call("refund")

    assert raised.value.__notes__ == ["'refund' is registered, but disabled in the admin."]


@pytest.mark.parametrize(
    ("is_debug", "level", "told"),
    [(True, "WARNING", ["WARNING"]), (False, "DEBUG", ["DEBUG"]), (False, "INFO", [])],
)
def test_the_log_says_why_an_entry_is_hidden(
    is_debug: bool, level: str, told: list[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(level, logger="django_mcp")
    with override_settings(DEBUG=is_debug), pytest.raises(UnknownTool) as raised:
        MCPClient(SERVER).call("staff_report")

    records = [each for each in caplog.records if "staff_report is registered" in each.message]
    assert [each.levelname for each in records] == told
    assert str(raised.value) == "Unknown tool: staff_report"


def test_an_argument_without_its_name_is_reported(client: MCPClient):
    for call in (client.call, client.call_as_task, client.prompt):
        with pytest.raises(TypeError, match="Pass 5 by the name of its argument, or all in one"):
            call("add", 5)  # type: ignore[arg-type]


def test_any_method_can_be_sent(newest: MCPClient):
    assert "tools" in newest.send("server/discover")["capabilities"]
    with pytest.raises(MCPError) as raised:
        newest.send("no/such")
    assert (raised.value.code, raised.value.status) == (-32601, 404)


def test_a_user_is_logged_in_and_out(client: MCPClient, staff: Any):
    assert client.call("who").text == "nobody -"
    client.force_login(staff)
    assert client.call("who").text == "ann -"
    client.logout()
    assert client.call("who").text == "nobody -"
    assert MCPClient(SERVER, user=staff).call("who").text == "ann -"


def test_an_inactive_user_cannot_be_logged_in(client: MCPClient, staff: Any):
    client.force_login(staff)
    staff.is_active = False
    client.force_login(staff)

    assert client.call("who").text == "nobody -"
    with pytest.raises(MCPError, match="not configured to accept requests"):
        MCPClient(make_server(public=False), user=staff).call("who")


def test_only_a_user_can_be_logged_in(client: MCPClient):
    with pytest.raises(TypeError, match="user must be a user of the site"):
        client.force_login("ann")


class ByWord(Authenticator):
    """Accepts a fixed credential."""

    def __init__(self, user: Any) -> None:
        self.user = user

    def authenticate(self, exchange: Any) -> Principal | None:
        is_right = exchange.headers.get("authorization") == "Bearer right"
        return Principal(key="ann", user=self.user) if is_right else None


def test_without_a_login_the_servers_own_authentication_decides(staff: Any):
    server = make_server(public=False, authenticators=[ByWord(staff)])

    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with pytest.raises(MCPError) as raised:
            MCPClient(server, headers=headers).call("who")
        assert raised.value.status == 401
        assert "force_login(user)" in raised.value.__notes__[0]
    assert MCPClient(server, headers={"Authorization": "Bearer right"}).call("who").text == "ann -"
    assert MCPClient(server, user=staff).call("who").text == "ann -"


def test_a_closed_server_rejects_the_test_client(staff: Any):
    server = make_server(public=False)

    with pytest.raises(MCPError, match="not configured to accept requests") as raised:
        MCPClient(server).call("who")
    assert raised.value.status == 403
    assert MCPClient(server, user=staff).call("who").text == "ann -"


def test_the_guard_checks_hosts_and_origins_as_in_production():
    with pytest.raises(MCPError, match="may not call this server") as raised:
        MCPClient(SERVER, headers={"Origin": "https://evil.example"}).list_tools()
    assert raised.value.status == 403
    with pytest.raises(MCPError, match=r"This site is not evil\.example"):
        MCPClient(SERVER, headers={"host": "evil.example"}).list_tools()
    assert MCPClient(SERVER, headers={"Origin": "http://testserver"}).list_tools()


class Shout:
    """Middleware that changes the reply."""

    def __init__(self, get_reply: Any) -> None:
        self.get_reply = get_reply

    async def __call__(self, exchange: Any) -> Reply:
        reply = await self.get_reply(exchange)
        return Reply(reply.status, reply.body, (*reply.headers, (b"x-shout", b"HEY")))


def test_mcp_middleware_runs(newest: MCPClient):
    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{__name__}.Shout"]}):
        newest.call("count")

    assert newest.response is not None
    assert newest.response.headers["x-shout"] == "HEY"


@override_settings(ROOT_URLCONF=__name__)
def test_a_path_is_resolved_by_the_urlconf():
    client = MCPClient(path="/t/acme/mcp")

    assert client.server is MOUNTED
    assert client.call("who").text == "nobody acme"
    assert client.call("where").text == "http://testserver/t/acme/mcp"
    assert MCPClient(SERVER).call("where").text == "http://testserver/x/mcp"
    with pytest.raises(ValueError, match="has nothing"):
        MCPClient(path="/nothing")
    with pytest.raises(ValueError, match="no MCP endpoint"):
        MCPClient(path="/page")


def test_header_arguments_are_mirrored():
    server = MCPServer("headers", public=True)

    @server.tool
    def route(region: Annotated[str, McpHeader("Region")], deep: int = 0) -> str:
        """Route."""
        return region

    assert MCPClient(server).call("route", region="Zürich").text == "Zürich"


def test_arguments_can_be_passed_as_a_mapping(newest: MCPClient):
    assert newest.call("add", {"a": 1, "b": 2}).text == "3"
    assert newest.call("add", {"a": 1}, b=2).text == "3"


def test_structured_content_of_an_error_raises_its_text(newest: MCPClient):
    result = newest.call("add", a="x")

    with pytest.raises(ToolError, match="/a"):
        _ = result.structured


def test_progress_and_log_messages_of_the_last_request_are_stored(newest: MCPClient):
    newest.call("work")

    assert [(each.progress, each.total, each.message) for each in newest.progress] == [
        (1, 2, "half")
    ]
    assert [(each.level, each.data, each.logger) for each in newest.logs] == [
        ("info", {"at": 1}, "work")
    ]
    assert len(newest.notifications) == 2

    newest.call("count")
    assert (newest.progress, newest.logs, newest.notifications) == ([], [], [])


def test_progress_of_the_oldest_revision_has_no_message():
    client = MCPClient(SERVER, revision=OLDEST)

    client.call("work")

    assert client.progress[0].message is None


def test_questions_can_be_answered_in_order_by_key_or_by_function(newest: MCPClient):
    newest.answer(Wish("red", 2), True)
    assert newest.call("wish").text == "red 2 accept"
    assert [question.message for question in newest.questions] == ["Which?", "Sure?"]

    newest.answer(**{"question-1": {"colour": "blue"}}, sure=False)
    assert newest.call("wish").text == "blue 1 decline"
    assert newest.call("wish").text == "blue 1 decline"

    other = MCPClient(SERVER)
    other.answer(lambda key, question: None)
    assert other.call("wish").text == "cancel"


@pytest.mark.parametrize("revision", REVISION_NAMES[2:])
def test_an_unanswered_question_raises(revision: str):
    client = MCPClient(SERVER, revision=revision)

    with pytest.raises(Unanswered, match=r"Which\?"):
        client.call("wish")
    assert [question.key for question in client.questions] == ["question-1"]

    client.answer("red")
    with pytest.raises(TypeError, match="not an answer"):
        client.call("wish")
    client.answer(other=True)
    with pytest.raises(Unanswered, match="answers to 'other'") as raised:
        client.call("wish")
    notes = getattr(raised.value, "__notes__", [""])
    assert ("question-1, question-2" in notes[0]) is (revision != NEWEST)
    client.answer({"colour": "red"}, True)
    assert client.call("wish").text == "red 1 accept"


@pytest.mark.parametrize("revision", REVISION_NAMES[2:])
@pytest.mark.parametrize("answers", [([True], {}), ([], {"question-1": True})], ids=str)
def test_an_answer_that_does_not_fit_a_form_is_explained(revision: str, answers: Any):
    client = MCPClient(SERVER, revision=revision)
    client.answer(*answers[0], **answers[1])

    with pytest.raises(Unanswered) as raised:
        client.call("wish")

    message = str(raised.value)
    assert "was asked again, because the answer True does not fit: Which?" in message
    fields = "colour (required), count (optional), False to decline, or None to cancel."
    assert message.endswith(f"A form is asked: answer with a dict of its fields {fields}")


@pytest.mark.parametrize("revision", REVISION_NAMES[3:])
def test_a_question_without_an_answer_says_what_it_takes(revision: str):
    server = MCPServer("asking", public=True)

    @server.tool
    def ask(ctx: Context, what: str) -> str:
        match what:
            case "url":
                ctx.elicit_url("Look.", "https://example.com/")
            case "model":
                ctx.sample("Hello", max_tokens=10)
            case "roots":
                ctx.list_roots()
            case _:
                ctx.elicit("Sure?", {"type": "object", "properties": {}})
        return "done"

    for what, expected in (
        ("url", "The user is sent to a page: answer with True to accept"),
        ("model", "The client's model is asked: answer with a text"),
        ("roots", "The client is asked for its roots: answer with a list of URIs"),
        ("", "A form without fields is asked: answer with True to accept"),
    ):
        with pytest.raises(Unanswered, match=expected):
            MCPClient(server, revision=revision).call("ask", what=what)


@pytest.mark.parametrize("revision", REVISION_NAMES[2:])
def test_session_and_retry_questions_work_alike(revision: str):
    client = MCPClient(SERVER, revision=revision)
    client.answer({"colour": ["red"]}, Wish("red", 2), False)

    assert client.call("wish").text == "red 2 decline"
    messages = [question.message or "" for question in client.questions]
    assert [message.splitlines()[0] for message in messages] == ["Which?", "Which?", "Sure?"]


@pytest.mark.parametrize("revision", REVISION_NAMES[:2])
def test_a_question_unsupported_by_the_revision_raises(revision: str):
    assert "Use a newer client" in MCPClient(SERVER, revision=revision).call("wish").text


def test_client_capabilities_can_be_reduced(staff: Any):
    client = MCPClient(SERVER, capabilities={})

    with pytest.raises(MCPError) as raised:
        client.call("wish")

    assert raised.value.code == -32021


def test_a_tool_that_asks_can_be_rerun_on_request():
    client = MCPClient(SERVER, reruns=True)
    client.answer({"colour": "red"}, True)
    RUNS.clear()

    assert client.call("wish").text == "red 1 accept"
    assert len(RUNS) == 5


def test_a_rerun_detects_non_idempotent_code():
    client = MCPClient(SERVER, reruns=True)

    with pytest.raises(AssertionError, match="come out the same"):
        client.call("fickle")
    with pytest.raises(AssertionError, match="without an answer"):
        client.call("hasty")


def test_assert_hidden_requires_an_unlisted_entry(client: MCPClient, staff: Any):
    client.assert_hidden("staff_report", "kit://staff-list", "kit-staff://1")
    client.assert_visible("add", "letter", "kit://{n}/page")

    with pytest.raises(AssertionError, match="is in tools/list"):
        client.assert_hidden("add")
    with pytest.raises(AssertionError, match="nothing to hide"):
        client.assert_hidden("typo")
    with pytest.raises(AssertionError, match="name a URI"):
        client.assert_hidden("kit-staff://{n}")
    with pytest.raises(AssertionError, match="Not in the lists"):
        client.assert_visible("staff_report")
    with pytest.raises(AssertionError, match=r"URI of the template 'kit://\{n\}/page'"):
        client.assert_visible("kit://1/page")

    client.force_login(staff)
    client.assert_visible("staff_report", "kit://staff-list")


def test_assert_hidden_fails_for_an_unlisted_but_callable_entry():
    server = MCPServer("leaky", public=True)

    class Leaky(OpenAccess):
        lists = True

        def find_visible(
            self, exchange: Exchange, requirements: Requirements
        ) -> VisibleEntries | None:
            # The lists are read first.
            hidden, self.lists = self.lists, False
            return VisibleEntries(requirements, allowed=Allowed()) if hidden else ALL_VISIBLE

    use_ports(server, access=Leaky())

    @server.tool
    def leak() -> str:
        """Leak."""
        return "secret"

    with pytest.raises(AssertionError, match="tools/call works"):
        MCPClient(server).assert_hidden("leak")


def test_responses_conform_to_the_official_types(client: MCPClient):
    client.answer({"colour": "red"}, True)
    client.call("add", a=1)
    if client.revision == NEWEST:
        client.call("wish")

    client.assert_conforms()


class Break:
    """Middleware that makes responses invalid."""

    def __init__(self, get_reply: Any) -> None:
        self.get_reply = get_reply

    async def __call__(self, exchange: Any) -> Reply:
        reply = await self.get_reply(exchange)
        return Reply(reply.status, reply.body.replace(b'"inputSchema"', b'"schema"'))


def test_a_nonconforming_response_raises():
    with (
        override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{__name__}.Break"]}),
        pytest.raises(AssertionError, match="answer to tools/list is not what"),
    ):
        MCPClient(make_server()).assert_conforms()


def test_missing_official_types_are_explained(newest: MCPClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp_types.methods", None)

    with pytest.raises(ImproperlyConfigured, match="pip install 'mcp-types"):
        newest.assert_conforms()


async def test_the_asynchronous_client_has_the_same_methods(staff: Any):
    client = AsyncMCPClient(SERVER)
    client.answer({"colour": "red"}, True)

    assert (await client.call("add", a=1)).text == "2"
    assert (await client.call("wish")).text == "red 1 accept"
    assert (await client.read("kit://3/page")).text == "page 3"
    assert (await client.prompt("letter", to="Ann")).messages[0]["role"] == "user"
    assert (await client.complete("letter", "tone", "c")).values == ["cold"]
    assert await client.list_tools()
    assert await client.list_prompts()
    assert await client.list_resources() == []
    assert await client.list_resource_templates()
    assert (await client.discover())["instructions"] == "Be kind."
    assert await client.send("server/discover")
    await client.assert_hidden("staff_report")
    await client.assert_visible("add")
    await client.assert_conforms()
    results = await asyncio.gather(*[client.call("add", a=n, b=0) for n in range(5)])
    assert [result.text for result in results] == ["0", "1", "2", "3", "4"]


def public_methods(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_sync_and_async_clients_differ_only_in_listening():
    only_asynchronous = {"listen", "subscribe"}
    assert public_methods(MCPClient) | only_asynchronous == public_methods(AsyncMCPClient)


@override_settings(DJANGO_MCP={"RECORD_CALLS": True, "SYNC_THREADS": 0})
class Recorded(MCPTestCase):
    """Whichever test is the second finds nothing of the first."""

    mcp_server = SERVER

    def test_calls_of_another_test_are_not_recorded(self) -> None:
        self.record_one()

    def test_calls_of_another_test_are_not_recorded_in_either_order(self) -> None:
        self.record_one()

    def record_one(self) -> None:
        self.mcp.call("count")
        flush_calls()
        self.mcp.call("count")

        assert CallRecord.objects.count() == 1


class InATransaction(MCPTestCase):
    mcp_server = SERVER

    @classmethod
    def setUpTestData(cls) -> None:
        make_product("a", "default")

    def test_a_handler_sees_what_the_test_wrote(self) -> None:
        assert self.mcp.call("count").text == "1"
        assert self.mcp.call("thread").text == threading.current_thread().name

    def test_the_test_sees_what_a_handler_wrote(self) -> None:
        self.mcp.call("count", add_one=True)

        assert set(Product.objects.values_list("sku", flat=True)) == {"a", "one"}

    def test_writes_of_a_failed_handler_are_rolled_back(self) -> None:
        assert self.mcp.call("count", add_one=True, fails=True).is_error

        assert Product.objects.count() == 1

    async def test_the_sync_client_in_an_async_test_names_the_async_one(self) -> None:
        with pytest.raises(RuntimeError, match=r"self\.async_mcp"):
            self.mcp.call("count")

    async def test_writes_are_visible_both_ways_in_an_async_test(self) -> None:
        await self.async_mcp.call("count", add_one=True)

        assert await Product.objects.acount() == 2


class WithoutATransaction(MCPTransactionTestCase):
    mcp_server = SERVER
    mcp_revision = OLDEST

    def test_a_handler_commits_its_writes(self) -> None:
        assert self.mcp.revision == OLDEST
        self.mcp.call("count", add_one=True)

        assert Product.objects.count() == 1


def test_numbers_as_arguments_of_a_prompt_arrive_as_they_are_annotated():
    server = MCPServer("numbers", public=True)

    @server.prompt
    def reply(pk: int, share: float, is_urgent: bool) -> str:
        """Reply to a ticket."""
        return f"{pk + 1} {share / 2} {is_urgent is True}"

    given: dict[str, Any] = {"pk": 1, "share": 0.5, "is_urgent": True}

    assert MCPClient(server).prompt("reply", **given).text == "2 0.25 True"
    assert server.get_prompt("reply", given).text == "2 0.25 True"
    assert server.get_prompt("reply", {name: str(value) for name, value in given.items()}).text


LISTS_OF = {
    "list_tools": ("add", "kit://{n}/page"),
    "list_prompts": ("letter", "add"),
    "list_resources": ("kit://staff-list", "add"),
    "list_resource_templates": ("kit://{n}/page", "kit://{word}/page"),
}


@pytest.mark.parametrize("method", LISTS_OF)
def test_lists_know_what_is_in_them_by_name(client: MCPClient, staff: Any, method: str):
    there, elsewhere = LISTS_OF[method]
    client.force_login(staff)
    listed = getattr(client, method)()

    assert there in listed
    assert elsewhere not in listed
    assert all(entry in listed and entry["name"] in listed for entry in listed)
    assert {"name": there} not in listed
    assert isinstance(listed, list)
    assert listed == list(listed)


def test_a_template_is_in_its_list_by_a_uri_that_it_matches(newest: MCPClient):
    assert "kit://3/page" in newest.list_resource_templates()
    assert "kit://3/page" not in newest.list_resources()


async def test_lists_of_the_asynchronous_client_know_names():
    listed = await AsyncMCPClient(SERVER).list_tools()

    assert "add" in listed
    assert "subtract" not in listed


def test_an_argument_that_json_does_not_have_is_named(newest: MCPClient, staff: Any):
    with pytest.raises(TypeError) as user:
        newest.call("add", a=1, user=staff)
    with pytest.raises(TypeError) as product:
        newest.call("add", {"a": Product(pk=3), "b": 1})
    with pytest.raises(TypeError) as nested:
        newest.prompt("letter", to=[object()])

    assert "The argument 'user' is a User, which JSON does not have" in str(user.value)
    assert "force_login(user)" in str(user.value)
    assert "The argument 'a' is a Product" in str(product.value)
    assert "Pass its key: a=product.pk" in str(product.value)
    assert "force_login" not in str(product.value)
    assert "The argument 'to'" in str(nested.value)
    assert "object cannot be written as JSON" in str(nested.value)


@pytest.mark.django_db
def test_a_slow_machine_fails_no_look_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outages, "TIMEOUT_S", 0)
    server = MCPServer("slow-machine", permission=lambda user: True)
    user = get_user_model().objects.create_user("ada")

    @server.tool(read_only=True)
    def hello() -> str:
        return "hello"

    assert MCPClient(server, user=user).call("hello").text == "hello"
    assert server.call_tool("hello", user=user).text == "hello"
