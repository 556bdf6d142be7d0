"""A server used in process: the same checks as for a client, and typed results."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.test import RequestFactory, override_settings
from typing_extensions import TypedDict

from django_mcp import (
    Context,
    InputRequired,
    MCPServer,
    ProtocolError,
    ToolError,
    ask_form,
    signed_in,
)
from django_mcp.inprocess import (
    MCPError,
    MissingCapability,
    Unanswered,
    UnknownPrompt,
    UnknownReference,
    UnknownResource,
    UnknownTool,
)
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import (
    ALL_VISIBLE,
    NONE_VISIBLE,
    Requirements,
    VisibleEntries,
)
from django_mcp.server.memory import OpenAccess
from example_project.shop.models import Product
from tests.support.databases import make_product
from tests.support.ports import use_ports

SEEN: list[str] = []


@dataclass
class Wish:
    colour: str
    count: int = 1


class Sizes(TypedDict):
    size: int


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("in-process")
    add_plain_tools(server)
    add_asking_tools(server)
    add_the_rest(server)
    return server


def add_plain_tools(server: MCPServer) -> None:
    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    async def name(ctx: Context) -> str:
        """Tell who calls."""
        return f"{ctx.user.get_username() or 'nobody'} {ctx.url_kwargs.get('tenant', '-')}"

    @server.tool
    def page(request: HttpRequest) -> str:
        """Tell the path of the request."""
        return request.path

    @server.tool
    def thread() -> str:
        """Tell where it runs."""
        return threading.current_thread().name

    @server.tool
    def fail(how: str) -> str:
        """Fail."""
        raise ToolError(how) if how != "hard" else ProtocolError("No.", code=7, data=[1])

    @server.tool
    def work(ctx: Context) -> str:
        """Tell how far it is."""
        ctx.progress(1, 2, "half")
        ctx.debug({"at": 1}, logger="work")
        ctx.progress(2)
        return "done"

    @server.tool
    def add_product(sku: str) -> int:
        """Write to the database."""
        make_product(sku, "default")
        return Product.objects.count()


def add_asking_tools(server: MCPServer) -> None:
    @server.tool
    def wish(ctx: Context) -> str:
        """Ask for two things."""
        first = ctx.elicit("Which?", Wish)
        if not first.is_accepted:
            return first.action
        second = ctx.elicit("How big?", Sizes, key="size")
        return f"{first.data.colour} {first.data.count} {(second.content or {}).get('size')}"

    @server.tool
    async def think(ctx: Context) -> str:
        """Have a model and the roots asked."""
        roots = await ctx.alist_roots()
        written = await ctx.asample("Say hi", max_tokens=10)
        return f"{roots[0]['uri']} {written.text}"

    @server.tool
    def insist(ctx: Context) -> Any:
        """Never have enough."""
        return InputRequired({"more": ask_form("More?", {"type": "object"})})


def add_the_rest(server: MCPServer) -> None:
    @server.resource("in://file", mime_type="application/json")
    def file() -> dict[str, int]:
        return {"size": 3}

    @server.resource("in://blob/{n}")
    def blob(n: int) -> bytes:
        return bytes(range(n))

    @server.prompt
    def letter(to: str, tone: str = "warm") -> str:
        """Write a letter."""
        return f"Write a {tone} letter to {to}"

    @server.completion(letter, "tone")
    def complete_tone(value: str, arguments: dict[str, str]) -> list[str]:
        return [tone for tone in ("warm", arguments.get("to", "cold")) if tone.startswith(value)]


def test_a_result_exposes_its_parts(server: MCPServer):
    result = server.call_tool("add", {"a": 1, "b": 2})

    assert not result.is_error
    assert result.text == "3"
    assert result.content == [{"type": "text", "text": "3"}]
    assert result.structured == {"result": 3} or result.structured == 3


def test_invalid_arguments_are_reported_in_band(server: MCPServer):
    result = server.call_tool("add", {"a": "x"})

    assert result.is_error
    # So that `assert client.call(...)` fails for a tool that has failed.
    assert not result
    assert server.call_tool("add", {"a": 1, "b": 2})
    assert "/a" in result.text
    with pytest.raises(ToolError, match="/a"):
        _ = result.structured


def test_a_tool_error_is_reported_in_band(server: MCPServer):
    result = server.call_tool("fail", {"how": "softly"})

    assert (result.is_error, result.text) == (True, "softly")


def test_a_protocol_error_is_raised_with_its_code_and_data(server: MCPServer):
    with pytest.raises(MCPError, match="No") as raised:
        server.call_tool("fail", {"how": "hard"})

    assert (raised.value.code, raised.value.data, raised.value.status) == (7, [1], None)


def test_an_unknown_name_raises_lookup_error(server: MCPServer):
    with pytest.raises(UnknownTool, match="nothing"):
        server.call_tool("nothing")
    with pytest.raises(UnknownPrompt):
        server.get_prompt("nothing")
    with pytest.raises(UnknownResource):
        server.read_resource("in://nothing")
    with pytest.raises(UnknownReference):
        server.complete("nothing", "tone")
    with pytest.raises(LookupError):
        MCPServer("empty in-process").call_tool("nothing")


@pytest.mark.parametrize("revisions", [None, ["2025-03-26"], ["2026-07-28"]], ids=str)
def test_results_have_the_newest_format_for_any_server_revisions(revisions: list[str] | None):
    server = MCPServer("narrow", revisions=revisions)

    @server.tool
    def ask(ctx: Context) -> dict[str, Any]:
        """Ask."""
        ctx.progress(1, 2, "half")
        return {"answer": ctx.elicit("Which?", Wish).action}

    heard: list[Any] = []
    result = server.call_tool("ask", answers=["decline"], on_progress=lambda *a: heard.append(a))

    assert result.structured == {"answer": "decline"}
    assert heard == [(1, 2, "half"), (1, 2, "half")]


def test_a_list_has_the_format_of_the_requested_revision(server: MCPServer):
    newest = {tool["name"]: tool for tool in server.list_tools()}
    oldest = {tool["name"]: tool for tool in server.list_tools(revision="2024-11-05")}

    assert newest.keys() == oldest.keys()
    assert "outputSchema" in newest["add"]
    assert "outputSchema" not in oldest["add"]
    with pytest.raises(ValueError, match="choose from"):
        server.list_tools(revision="1999-01-01")


def test_lists_contain_every_page():
    server = MCPServer("paged", page_size=2)
    for number in range(5):
        server.register_tool(lambda: "", name=f"t{number}", description="A tool.")

    assert [tool["name"] for tool in server.list_tools()] == ["t0", "t1", "t2", "t3", "t4"]
    assert server.list_prompts() == []
    assert server.list_resources() == []
    assert server.list_resource_templates() == []


def test_resources_prompts_and_completions(server: MCPServer):
    assert server.read_resource("in://file").parsed == {"size": 3}
    assert server.read_resource("in://file").mime_type == "application/json"
    assert server.read_resource("in://blob/3").data == b"\0\1\2"
    assert server.get_prompt("letter", {"to": "Ann"}).text == "Write a warm letter to Ann"
    assert server.get_prompt("letter", {"to": "Ann"}).messages[0]["role"] == "user"
    assert server.complete("letter", "tone", "c").values == ["cold"]
    assert server.complete("letter", "tone", "", {"to": "wry"}).values == ["warm", "wry"]
    assert [found["name"] for found in server.list_prompts()] == ["letter"]
    assert [found["uri"] for found in server.list_resources()] == ["in://file"]
    assert [found["name"] for found in server.list_resource_templates()] == ["blob"]


def test_the_user_and_request_context_reach_the_handler(server: MCPServer):
    user = get_user_model()(username="ann")

    assert server.call_tool("name").text == "nobody -"
    assert server.call_tool("name", user=user, url_kwargs={"tenant": "t1"}).text == "ann t1"
    request = RequestFactory().get("/somewhere")
    assert server.call_tool("page", request=request).text == "/somewhere"
    assert server.call_tool("page").is_error


@pytest.mark.parametrize("user", ["ann", 5, {}], ids=repr)
def test_an_invalid_user_is_not_treated_as_anonymous(server: MCPServer, user: Any):
    with pytest.raises(TypeError, match="user must be a user of the site, a principal or None"):
        server.call_tool("name", user=user)


def test_an_inactive_user_is_rejected(server: MCPServer):
    with pytest.raises(ValueError, match="'ann' is not active"):
        server.call_tool("name", user=get_user_model()(username="ann", is_active=False))


def test_entries_hidden_by_a_policy_are_unknown(server: MCPServer):
    class OnlyForUsers(OpenAccess):
        def find_visible(
            self, exchange: Exchange, requirements: Requirements
        ) -> VisibleEntries | None:
            return ALL_VISIBLE if exchange.caller.principal.is_authenticated else NONE_VISIBLE

    use_ports(server, access=OnlyForUsers())
    ann = get_user_model()(username="ann")

    with pytest.raises(UnknownTool):
        server.call_tool("add", {"a": 1, "b": 2})
    assert server.list_tools() == []
    assert server.call_tool("add", {"a": 1, "b": 2}, user=ann).text == "3"


def test_the_exception_of_an_unknown_entry_has_a_note_for_the_developer(server: MCPServer):
    server.tool(name="secret", permission=signed_in)(lambda: "")
    server.resource("in://secret", name="secret", permission=lambda user: user.is_superuser)(
        lambda: ""
    )
    server.prompt(name="hidden", permission=signed_in)(lambda: "")
    ann = get_user_model()(username="ann", is_superuser=False)
    ways: list[Any] = [
        (lambda user: server.call_tool("secret", user=user), None),
        (lambda user: server.get_prompt("hidden", user=user), None),
        (lambda user: server.read_resource("in://secret", user=user), ann),
    ]
    for ask, user in ways:
        with pytest.raises(LookupError) as raised:
            ask(user)
        (note,) = raised.value.__notes__
        who = "a client that is not signed in" if user is None else "this user"
        assert f"is registered, but hidden from {who}: it needs" in note
        assert note.endswith(" Pass user=user beside the arguments.") is (user is None)
        assert "registered" not in str(raised.value)

    with pytest.raises(UnknownTool) as raised:
        server.call_tool("ad", {"a": 1, "b": 2})
    assert raised.value.__notes__ == ["Did you mean 'add'?"]


def test_progress_and_log_messages_are_received(server: MCPServer):
    progress: list[Any] = []
    logs: list[Any] = []

    def on_log(*what: Any) -> None:
        logs.append(what)

    async def on_progress(*what: Any) -> None:
        progress.append(what)

    assert server.call_tool("work", on_progress=on_progress, on_log=on_log).text == "done"
    assert progress == [(1, 2, "half"), (2, None, None)]
    assert logs == [("debug", {"at": 1}, "work")]

    logs.clear()
    server.call_tool("work", on_log=on_log, log_level="info")
    assert logs == []


@pytest.mark.parametrize(
    "answers",
    [
        {"question-1": {"colour": "red", "count": 2}, "size": {"size": 7}},
        [Wish("red", 2), {"size": 7}],
        lambda key, question: {"size": 7} if key == "size" else Wish("red", 2),
    ],
    ids=["by key", "in order", "by a function"],
)
def test_questions_are_answered(server: MCPServer, answers: Any):
    assert server.call_tool("wish", answers=answers).text == "red 2 7"


async def test_a_coroutine_function_can_answer(server: MCPServer):
    async def answer(key: str, question: dict[str, Any]) -> Any:
        SEEN.append(question["params"]["message"])
        return {"size": 7} if key == "size" else {"colour": "red"}

    SEEN.clear()
    assert (await server.acall_tool("wish", answers=answer)).text == "red 1 7"
    assert SEEN == ["Which?", "How big?"]


@pytest.mark.parametrize(
    ("answer", "action"),
    [(False, "decline"), (None, "cancel"), ("decline", "decline"), ("cancel", "cancel")],
)
def test_a_question_may_be_declined_or_cancelled(server: MCPServer, answer: Any, action: str):
    assert server.call_tool("wish", answers=[answer]).text == action


def test_sampling_and_roots_requests_are_answered(server: MCPServer):
    answers = {"question-1": ["file:///home"], "question-2": "hi"}

    assert server.call_tool("think", answers=answers).text == "file:///home hi"


def test_without_an_answer_function_missing_capability_is_raised(server: MCPServer):
    with pytest.raises(MissingCapability) as raised:
        server.call_tool("wish")

    assert raised.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}


def test_an_unanswered_question_raises_with_the_question(server: MCPServer):
    with pytest.raises(Unanswered, match=r"'question-1': Which\?.*answers to 'other'") as raised:
        server.call_tool("wish", answers={"other": {}})

    assert list(raised.value.questions) == ["question-1"]


def test_an_invalid_answer_is_not_repeated_forever(server: MCPServer):
    with pytest.raises(Unanswered, match=r"asked again, because the answer .* does not fit: Which"):
        server.call_tool("wish", answers={"question-1": {"colour": ["red"]}})
    with pytest.raises(TypeError, match="not an answer"):
        server.call_tool("wish", answers=["red"])
    with pytest.raises(MCPError, match="100 rounds"):
        server.call_tool("insist", answers=lambda key, question: {})


def test_sync_handlers_run_in_the_callers_thread(server: MCPServer):
    own = threading.current_thread().name

    assert server.call_tool("thread").text == own


async def test_async_callers_use_the_thread_pool(server: MCPServer):
    assert (await server.acall_tool("thread")).text.startswith("django-mcp")


@pytest.mark.django_db
def test_writes_are_in_the_callers_transaction(server: MCPServer):
    make_product("mine", "default")

    assert server.call_tool("add_product", {"sku": "theirs"}).text == "2"
    assert Product.objects.count() == 2


@pytest.mark.django_db
def test_a_handler_may_call_another(server: MCPServer):
    @server.tool
    def both(a: int) -> str:
        """Call another."""
        return server.call_tool("add", {"a": a, "b": 1}).text

    assert server.call_tool("both", {"a": 1}).text == "2"
    assert async_to_sync(server.acall_tool)("both", {"a": 1}).text == "2"


class Stamp:
    """Middleware that records its exchanges."""

    def __init__(self, get_reply: Any) -> None:
        self.get_reply = get_reply

    async def __call__(self, exchange: Any) -> Any:
        SEEN.append(repr(exchange.caller.principal))
        return await self.get_reply(exchange)


def test_mcp_middleware_runs_around_the_call(server: MCPServer):
    SEEN.clear()
    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{__name__}.Stamp"]}):
        server.call_tool("add", {"a": 1, "b": 2})

    assert SEEN == ["<anonymous>"]


async def test_the_sync_api_raises_on_an_event_loop(server: MCPServer):
    with pytest.raises(RuntimeError, match="await"):
        server.call_tool("add", {"a": 1, "b": 2})


def test_a_timeout_applies_in_process():
    server = MCPServer("slow in-process", call_timeout_s=0.01)

    @server.tool
    async def wait() -> str:
        """Wait for ever."""
        import asyncio

        await asyncio.Event().wait()
        return "late"

    result = server.call_tool("wait")

    assert result.is_error
    assert "0.01 s" in result.text


def test_an_argument_that_json_does_not_have_is_named():
    server = MCPServer("arguments", public=True)

    @server.tool(read_only=True)
    def take_part(number: int, user: str = "") -> str:
        return f"{number} {user}"

    user = get_user_model()(pk=1, username="ann")
    with pytest.raises(TypeError, match="The argument 'user' is a User") as error:
        server.call_tool("take_part", {"number": 1, "user": user})

    assert "user=user beside the arguments" in str(error.value)
    assert "take_part" in server.list_tools()
    assert "leave" not in server.list_tools()
