"""Questions by retry: the handler runs again with the answers so far."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from django_mcp.protocol.asks import FormError, InputRequired, ask_form, ask_roots, ask_url
from django_mcp.protocol.json import encode
from django_mcp.server.asking.round_trips import Elicited
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory import ProcessStates
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.server import BaseServer
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28, WireClient

ALL: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }
}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Choice:
    colour: Colour
    count: int = 1
    note: str | None = None


@pytest.fixture(autouse=True)
def tools(server: BaseServer) -> list[str]:
    runs: list[str] = []

    def note_once() -> int:
        runs.append("once")
        return 7

    @server.tool
    def order(ctx: Context, item: str) -> str:
        """Ask twice, and work once in between."""
        runs.append("start")
        choice = ctx.elicit("Which one?", Choice)
        if not choice.is_accepted:
            return choice.action
        number = ctx.once("number", note_once)
        confirmed = ctx.elicit(
            "Sure?", {"type": "object", "properties": {"yes": {"type": "boolean"}}}
        )
        return f"{item} {choice.data.colour.value} {choice.data.count} {number} {confirmed.content}"

    @server.tool
    async def aorder(ctx: Context) -> str:
        """Ask for everything."""
        text = await ctx.asample("Write.", max_tokens=5)
        roots = await ctx.alist_roots()
        page = await ctx.aelicit_url("Pay", "https://pay.example/1")
        number = await ctx.aonce("n", count)
        return f"{text.text} {roots} {page.action} {number}"

    async def count() -> int:
        runs.append("acount")
        return len(runs)

    @server.tool
    def explicit(ctx: Context) -> Any:
        """Steer the rounds."""
        if not ctx.is_resubmit:
            asks = {"roots": ask_roots(), "name": ask_form("Name?", {"type": "object"})}
            return InputRequired(asks, state={"round": 1})
        return f"{sorted(ctx.input_responses)} {ctx.request_state}"

    @server.prompt
    def letter(ctx: Context) -> str:
        """Ask in a prompt."""
        return str(ctx.elicit("Tone?", {"type": "object"}).action)

    @server.resource("ask://me")
    def me(ctx: Context) -> str:
        """Ask in a resource."""
        return str(ctx.elicit("Who?", {"type": "object"}).action)

    return runs


def call(name: str = "order", **more: Any) -> dict[str, Any]:
    arguments = {"item": "mug"} if name == "order" else {}
    return {"name": name, "arguments": arguments, "_meta": ALL, **more}


async def again(
    client: WireClient, interim: dict[str, Any], answers: dict[str, Any], name: str = "order"
) -> dict[str, Any]:
    return await client.result(
        "tools/call", call(name, inputResponses=answers, requestState=interim["requestState"])
    )


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def test_a_handler_asks_one_question_per_round(
    newest: WireClient, server: BaseServer, tools: list[str]
) -> None:
    first = await newest.result("tools/call", call())

    assert first["resultType"] == "input_required"
    assert newest.sink.messages == []
    assert first["inputRequests"]["question-1"] == {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Which one?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "colour": {"type": "string", "enum": ["red", "blue"]},
                    "count": {"type": "integer", "default": 1},
                    "note": {"type": "string"},
                },
                "required": ["colour"],
            },
        },
    }
    other_worker = WireClient(server, V2026_07_28)
    second = await again(other_worker, first, {"question-1": accept(colour="red", count=2)})
    assert list(second["inputRequests"]) == ["question-2"]
    assert second["requestState"] != first["requestState"]
    last = await again(newest, second, {"question-2": accept(yes=True)})
    assert last["content"][0]["text"] == "mug red 2 7 {'yes': True}"
    assert tools == ["start", "start", "once", "start", "start"]


async def test_declining_is_an_answer(newest: WireClient) -> None:
    for action in ("decline", "cancel"):
        first = await newest.result("tools/call", call())
        last = await again(newest, first, {"question-1": {"action": action}})
        assert last["content"][0]["text"] == action


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"other": accept(colour="red")},
        {"other": 12345},
        {"question-1": {"action": "maybe"}},
        {"question-1": accept()},
        {"question-1": accept(colour="green")},
        {"question-1": {"action": "accept", "content": []}},
    ],
)
async def test_an_unusable_answer_is_asked_again(
    newest: WireClient, answers: dict[str, Any]
) -> None:
    first = await newest.result("tools/call", call())

    second = await again(newest, first, answers)

    assert second["resultType"] == "input_required"
    assert list(second["inputRequests"]) == ["question-1"]
    message = second["inputRequests"]["question-1"]["params"]["message"]
    assert ("\n\n- " in message) is ("question-1" in answers)
    third = await again(newest, second, {"question-1": accept(colour="blue"), "extra": 1})
    assert list(third["inputRequests"]) == ["question-2"]


@pytest.mark.parametrize("answer", [None, [], "a", 12345])
async def test_an_invalid_answer_is_rejected(newest: WireClient, answer: Any) -> None:
    first = await newest.result("tools/call", call())
    params = call(requestState=first["requestState"], inputResponses={"question-1": answer})

    _, error = await newest.error("tools/call", params)

    assert error == {
        "code": -32602,
        "message": "inputResponses must hold an object for 'question-1'",
    }


async def test_an_input_required_result_must_not_be_empty() -> None:
    with pytest.raises(ValueError, match="questions, a state, or both"):
        InputRequired({})


@pytest.mark.parametrize("responses", [[], None, "x", 5])
async def test_malformed_answers_are_rejected(newest: WireClient, responses: Any) -> None:
    status, error = await newest.error("tools/call", call(inputResponses=responses))

    assert (status, error["code"]) == (200, -32602)


async def test_every_tampered_state_gets_the_same_error(
    newest: WireClient, server: BaseServer
) -> None:
    state = (await newest.result("tools/call", call()))["requestState"]
    refusals = []

    async def refuse(params: dict[str, Any], client: WireClient = newest) -> None:
        refusals.append((await client.error("tools/call", params))[1])

    for position in range(0, len(state), 7):
        flipped = "A" if state[position] != "A" else "B"
        await refuse(call(requestState=state[:position] + flipped + state[position + 1 :]))
    broken: Any
    for broken in (state + "x", state[:-1], "", "é", "x" * 300_000, None, 5, {}):
        await refuse(call(requestState=broken))
    await refuse(call("explicit", requestState=state))
    await refuse({**call(requestState=state), "arguments": {"item": "cup"}})
    stranger = WireClient(server, V2026_07_28, principal=type("P", (), {"key": "user:2"})())
    await refuse(call(requestState=state), stranger)
    use_ports(server, clock=lambda: 10**12)
    await refuse(call(requestState=state))

    assert {repr(error) for error in refusals} == {
        repr({"code": -32602, "message": "Invalid requestState"})
    }


@pytest.mark.http_only("a pipe has no URL")
async def test_a_state_counts_only_at_the_url_that_it_was_made_at(server: BaseServer) -> None:
    """The URL may name a tenant."""
    here, there = (
        WireClient(server, V2026_07_28, url_kwargs={"tenant": name}) for name in ("home", "other")
    )
    state = (await here.result("tools/call", call()))["requestState"]

    assert (await there.error("tools/call", call(requestState=state)))[1] == {
        "code": -32602,
        "message": "Invalid requestState",
    }
    assert "inputRequests" in await here.result("tools/call", call(requestState=state))


async def test_every_kind_of_client_request_is_supported(
    newest: WireClient, tools: list[str]
) -> None:
    first = await newest.result("tools/call", call("aorder"))
    assert first["inputRequests"]["question-1"]["params"] == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Write."}}],
        "maxTokens": 5,
    }
    reply = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    second = await again(newest, first, {"question-1": reply}, "aorder")
    assert second["inputRequests"] == {"question-2": {"method": "roots/list"}}
    third = await again(newest, second, {"question-2": {"roots": []}}, "aorder")
    assert third["inputRequests"]["question-3"]["params"]["mode"] == "url"
    last = await again(newest, third, {"question-3": {"action": "accept"}}, "aorder")
    assert last["content"][0]["text"].endswith("[] accept 1")
    assert tools == ["acount"]


async def test_a_handler_can_control_the_rounds_itself(newest: WireClient) -> None:
    first = await newest.result("tools/call", call("explicit"))
    assert set(first["inputRequests"]) == {"roots", "name"}

    last = await again(newest, first, {"roots": {"roots": []}, "unasked": 1}, "explicit")

    assert last["content"][0]["text"] == "['roots'] {'round': 1}"


async def test_prompts_and_resources_can_ask_like_tools(newest: WireClient) -> None:
    for method, params in (
        ("prompts/get", {"name": "letter"}),
        ("resources/read", {"uri": "ask://me"}),
    ):
        first = await newest.result(method, {**params, "_meta": ALL})
        assert first["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope"} & set(first)
        retry = {
            **params,
            "_meta": ALL,
            "requestState": first["requestState"],
            "inputResponses": {"question-1": {"action": "decline"}},
        }
        assert "decline" in repr(await newest.result(method, retry))


async def test_a_client_is_asked_only_for_declared_capabilities(newest: WireClient) -> None:
    for name, wanted in (("order", {"elicitation": {"form": {}}}), ("aorder", {"sampling": {}})):
        status, error = await newest.error("tools/call", {**call(name), "_meta": {}})
        assert (status, error["code"]) == (400, -32021)
        assert error["data"] == {"requiredCapabilities": wanted}
    plain: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    assert "inputRequests" in await newest.result("tools/call", {**call(), "_meta": plain})


@pytest.mark.http_only("a pipe has a session")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_without_a_session_older_clients_cannot_be_asked(
    server: BaseServer, revision: Any
) -> None:
    result = await WireClient(server, revision).call("order", {"item": "mug"})

    assert result["isError"] is True
    assert "session" in result["content"][0]["text"]


async def test_other_methods_ignore_input_responses(newest: WireClient) -> None:
    assert "tools" in await newest.result("tools/list", {"inputResponses": [], "requestState": 5})


async def test_older_revisions_ignore_input_responses(server: BaseServer) -> None:
    result = await WireClient(server, V2025_11_25).result(
        "tools/call", {"name": "explicit", "requestState": 5}
    )

    assert result["isError"] is True


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_an_answer_is_true_only_if_the_user_accepted(
    newest: WireClient, server: BaseServer, action: str
):
    @server.tool
    def ask_form_and_page(ctx: Context) -> str:
        form = ctx.elicit("Delete all?", {"type": "object", "properties": {}})
        page = ctx.elicit_url("Pay", "https://pay.example/1")
        return f"{bool(form)} {bool(page)}"

    first = await newest.result("tools/call", call("ask_form_and_page"))
    second = await again(
        newest, first, {"question-1": {"action": action, "content": {}}}, "ask_form_and_page"
    )
    last = await again(newest, second, {"question-2": {"action": action}}, "ask_form_and_page")

    is_accepted = action == "accept"
    assert last["content"][0]["text"] == f"{is_accepted} {is_accepted}"


@pytest.mark.parametrize("wrong", ["accepted", "declined", "Accept", ""])
def test_comparing_an_action_with_a_text_that_is_none_raises(wrong: str):
    answer = Elicited(action="accept")

    for compare in (
        lambda: answer.action == wrong,
        lambda: wrong == answer.action,
        lambda: answer.action != wrong,
        lambda: answer.action in ("cancel", wrong),
    ):
        with pytest.raises(ValueError, match=r"'accept', 'decline' or 'cancel'.*is_accepted"):
            compare()


def test_comparing_an_action_with_actions_and_other_values_tells_whether_they_are_equal():
    answer = Elicited(action="decline")

    assert answer.action == "decline"
    assert answer.action != "accept"
    assert answer.action != None  # noqa: E711
    assert {"decline": 1}[answer.action] == 1
    assert answer == Elicited(action="decline") != Elicited(action="accept")
    assert encode({"action": answer.action}) == b'{"action":"decline"}'


def test_only_flat_form_schemas_are_accepted() -> None:
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    for schema in (nested, {"type": "array"}, {}, {"type": "object", "properties": []}):
        with pytest.raises(FormError):
            ask_form("?", schema)
    for url in ("http://evil.example/", "javascript:x", "https://user:pw@host/"):
        with pytest.raises(ValueError, match="URL"):
            ask_url("?", url)


@pytest.mark.parametrize(
    ("name", "field", "is_secret"),
    [
        ("password", {}, True),
        ("newPassword2", {}, True),
        ("api_key", {}, True),
        ("github_access_token", {}, True),
        ("code", {"format": "password"}, True),
        ("password_policy", {}, False),
        ("password", {"type": "boolean"}, False),
        ("api_key", {"enum": ["first", "second"]}, False),
        ("key", {}, False),
        ("token_count", {}, False),
        ("card_number", {}, False),
    ],
)
def test_a_form_does_not_ask_for_secrets(name: str, field: dict[str, Any], is_secret: bool) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string", **field}}}
    if is_secret:
        with pytest.raises(FormError, match=rf"{name}.* is secret: have the user visit a page"):
            ask_form("?", schema)
    else:
        ask_form("?", schema)


@pytest.mark.parametrize("name", ["swallow", "aswallow"])
async def test_a_question_whose_exception_the_handler_caught_is_logged(
    newest: WireClient, server: BaseServer, caplog: pytest.LogCaptureFixture, name: str
):
    @server.tool
    def swallow(ctx: Context) -> str:
        try:
            return str(ctx.elicit("Which one?", Choice).action)
        except:  # noqa: E722 - a mistake that handlers make
            return "nobody was asked"

    @server.tool
    async def aswallow(ctx: Context) -> str:
        try:
            return str((await ctx.aelicit("Which one?", Choice)).action)
        except BaseException:  # noqa: BLE001 - a mistake that handlers make
            return "nobody was asked"

    result = await newest.result("tools/call", call(name))

    assert result["content"][0]["text"] == "nobody was asked"
    assert f"tools/call {name}: the handler caught the exception by which a question" in caplog.text
    assert "Catch Exception, not BaseException" in caplog.text


async def test_a_question_that_a_handler_asks_after_all_is_not_logged(
    newest: WireClient, server: BaseServer, caplog: pytest.LogCaptureFixture
):
    @server.tool
    def careful(ctx: Context) -> str:
        try:
            return str(ctx.elicit("Which one?", Choice).action)
        except Exception:  # noqa: BLE001 - it lets a question pass
            return "nobody was asked"

    first = await newest.result("tools/call", call("careful"))
    last = await again(newest, first, {"question-1": accept(colour="red")}, "careful")

    assert last["content"][0]["text"] == "accept"
    assert "the handler caught" not in caplog.text


async def test_once_inside_once_is_an_error_that_names_both(
    server: BaseServer, caplog: pytest.LogCaptureFixture
):
    @server.tool
    def nested(ctx: Context) -> int:
        return ctx.once("outer", lambda: ctx.once("inner", lambda: 1))

    result = await WireClient(server, V2026_07_28).call("nested")

    assert result["isError"] is True
    assert "once('inner') runs inside once('outer')" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_two_questions_of_a_run_cannot_have_the_same_key(
    server: BaseServer, caplog: pytest.LogCaptureFixture, is_async: bool
):
    """A yes to the deletion of one object would count for the next one."""
    sure = {"type": "object", "properties": {}}

    @server.tool("delete")
    def delete(ctx: Context) -> list[str]:
        return [ctx.elicit(f"Delete {name}?", sure, key="sure").action for name in ("a", "b")]

    @server.tool("adelete")
    async def adelete(ctx: Context) -> list[str]:
        answers = [await ctx.aelicit(f"Delete {name}?", sure, key="sure") for name in ("a", "b")]
        return [answer.action for answer in answers]

    client, name = WireClient(server, V2026_07_28), "adelete" if is_async else "delete"
    first = await client.result("tools/call", call(name))
    last = await again(client, first, {"sure": accept()}, name)

    assert last["isError"] is True
    assert "Two questions of a call have the key 'sure'" in caplog.text


async def test_the_same_question_may_be_asked_twice(server: BaseServer):
    @server.tool
    def choose(ctx: Context) -> list[str]:
        return [ctx.elicit("Which one?", Choice, key="which").action for _ in range(2)]

    client = WireClient(server, V2026_07_28)
    first = await client.result("tools/call", call("choose"))
    last = await again(client, first, {"which": accept(colour="red")}, "choose")

    assert last["structuredContent"] == ["accept", "accept"]


async def test_questions_asked_together_are_a_dict(
    server: BaseServer, caplog: pytest.LogCaptureFixture
):
    @server.tool
    def both(ctx: Context) -> None:
        ctx.ask([ask_roots()])  # type: ignore[arg-type]

    result = await WireClient(server, V2026_07_28).call("both")

    assert result["isError"] is True
    assert "takes a dict of questions by their keys" in caplog.text


async def test_functions_of_once_with_the_same_key_are_reported(
    server: BaseServer, caplog: pytest.LogCaptureFixture
):
    """Only the first of three mails would be sent."""
    sent: list[int] = []

    @server.tool
    def remind(ctx: Context) -> None:
        for number in (1, 2, 3):
            ctx.once("send", lambda: sent.append(number))  # noqa: B023 - what the test is about

    @server.tool
    async def aremind(ctx: Context) -> None:
        async def send(number: int) -> None:
            sent.append(number)

        for number in (1, 2, 3):
            await ctx.aonce("send", partial(send, number))

    client = WireClient(server, V2026_07_28)
    for name in ("remind", "aremind"):
        caplog.clear()
        await client.call(name)
        assert f"{name} calls once('send') with different functions" in caplog.text
    assert sent == [1, 1]


async def test_a_helper_that_runs_once_may_be_called_twice(
    server: BaseServer, caplog: pytest.LogCaptureFixture
):
    def reserve(ctx: Context, number: int) -> Any:
        return ctx.once(f"reserve-{number}", lambda: number)

    @server.tool
    def plan(ctx: Context) -> list[int]:
        return [reserve(ctx, 1), reserve(ctx, 2), reserve(ctx, 1)]

    result = await WireClient(server, V2026_07_28).call("plan")

    assert result["structuredContent"] == [1, 2, 1]
    assert "different functions" not in caplog.text


async def test_a_question_whose_state_cannot_be_stored_now_says_to_try_again() -> None:
    class Locked(ProcessStates):
        async def keep(
            self, owner: str | None, value: bytes, until_s: float, quota_key: str
        ) -> str:
            raise StoreUnavailable

    server = MCPServer("locked", state_inline_bytes=0)

    @server.tool
    def order(ctx: Context) -> str:
        return ctx.elicit("Which one?", Choice).action

    use_ports(server, states=Locked())
    client = WireClient(server, V2026_07_28)

    result = await client.result("tools/call", {"name": "order", "arguments": {}, "_meta": ALL})

    assert result["isError"] is True
    assert result["content"][0]["text"] == "The server cannot look this up now: try again"
