"""Tools that run when the user has agreed: on a page of the host, by an answer, or by a second call."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from typing_extensions import TypedDict

from django_mcp import Context, MCPServer, ToolError
from django_mcp.execution import states
from django_mcp.extensions.apps import App, Confirm
from django_mcp.inprocess import MCPError
from django_mcp.models import UsedState
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import AsyncMCPClient, MCPClient
from tests.support.library.models import Shelf
from tests.support.ports import use_ports

pytestmark = pytest.mark.django_db

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
ALL = sorted(each.name for each in REVISIONS)
WITH_APPS = ("2025-11-25", "2026-07-28")
REFUSED = "The confirmation is not for this call, was used already, or is too old."


class Cancelled(TypedDict):
    number: str
    on: str


def make_server(server_name: str = "orders", **options: Any) -> tuple[MCPServer, list[str]]:
    server, ran = MCPServer(server_name, public=True), []
    options = {"confirm": "app", "destructive": True, **options}

    @server.tool(**options)
    def cancel_order(number: str, reason: str = "", notify: bool = True) -> str:
        """Cancel an order."""
        ran.append(number)
        return f"Order {number} was cancelled."

    return server, ran


@pytest.fixture
def shop() -> tuple[MCPServer, list[str]]:
    return make_server()


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


def ask(client: MCPClient, **arguments: Any) -> Any:
    result = client.call("cancel_order", **{"number": "A-1", **arguments})
    assert not result.is_error, result.text
    return result


def refuse(client: MCPClient, **arguments: Any) -> str:
    result = client.call("cancel_order", **{"number": "A-1", **arguments})
    assert result.is_error, result.text
    return result.text


def confirmation_of(client: MCPClient, **arguments: Any) -> str:
    """Return what the button of the page sends."""
    html = ask(client, **arguments).meta["django_mcp/html"]
    given = html.split('data-mcp-args="')[1].split('"')[0].replace("&quot;", '"')
    token: str = decode(given.replace("&#x27;", "'").replace("&amp;", "&"))["confirmation"]
    return token


# -- a host that shows pages


@pytest.mark.parametrize("revision", WITH_APPS)
def test_a_host_shows_what_will_be_done_and_the_button_does_it(shop: Any, revision: str):
    server, ran = shop
    client = MCPClient(server, revision=revision, capabilities=HOST)

    asked = ask(client, reason="late", notify=False)

    assert ran == []
    told = "Nothing was done yet. The user has to confirm this on the page that is shown.\n"
    told += "Cancel order?\nNumber: A-1\nReason: late\nNotify: no"
    assert asked.text == asked.structured["message"] == told
    html = asked.meta["django_mcp/html"]
    for part in ("<bdi>Cancel order</bdi></h1>", "<bdi>Reason</bdi>", ">late</dd>", ">no</dd>"):
        assert part in html
    done = client.confirm(asked)
    assert (done.text, ran) == ("Order A-1 was cancelled.", ["A-1"])
    assert (
        '<p class="mcp-text" dir="auto">Order A-1 was cancelled.</p>'
        in done.meta["django_mcp/html"]
    )


@pytest.mark.parametrize("revision", WITH_APPS)
def test_the_model_does_not_see_the_value_of_the_button(shop: Any, revision: str):
    client = MCPClient(shop[0], revision=revision, capabilities=HOST)

    asked = ask(client)
    token = asked.meta["django_mcp/html"].split("confirmation&quot;:&quot;")[1].split("&quot;")[0]

    assert len(token) > 100
    assert token not in json.dumps({**asked.raw, "_meta": {}})
    assert set(asked.structured) == {"message"}


def test_the_tool_names_the_page(shop: Any):
    client = MCPClient(shop[0], capabilities=HOST)

    [tool] = client.list_tools()

    assert tool["_meta"]["ui"] == {"resourceUri": "ui://orders/django_mcp/apps/confirm.html"}
    assert tool["inputSchema"]["properties"]["confirmation"]["maxLength"] == 500
    assert tool["inputSchema"]["required"] == ["number"]
    assert "data-mcp-result" in client.app("cancel_order")
    client.assert_app("cancel_order", number="A-1")


def test_the_page_is_translated(shop: Any):
    client = MCPClient(shop[0], capabilities=HOST, headers={"accept-language": "de"})

    asked = ask(client, notify=True)

    assert "<title>Bestätigen</title>" in client.app("cancel_order")
    assert "Es wurde noch nichts getan" in asked.text
    assert ">Abbrechen</button>" in asked.meta["django_mcp/html"]
    assert ">ja</dd>" in asked.meta["django_mcp/html"]


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>x()</script>",
        "'\"><img src=x>",
        "{{ 7 }}{% now 'Y' %}",
        "\u202etxt",
        "a\nb",
    ],
)
def test_arguments_are_escaped(shop: Any, text: str):
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)

    asked = ask(client, number=text)

    html = asked.meta["django_mcp/html"]
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html.split("data-mcp-args")[0]
    client.confirm(asked)
    assert ran == [text]


def test_a_value_cannot_write_a_line_of_the_question(shop: Any):
    client = MCPClient(shop[0], capabilities=HOST)

    asked = ask(client, number="A-1\nReason: none", reason="fraud")

    assert asked.text.splitlines()[2:4] == ["Number: A-1 Reason: none", "Reason: fraud"]


@pytest.mark.parametrize("capabilities", [{}, HOST])
def test_a_value_in_the_text_of_a_question_cannot_write_a_line_of_it(capabilities: Any):
    server, _ = make_server(confirm=Confirm(question=lambda user, number: f"Cancel {number}?"))
    client = MCPClient(server, capabilities=capabilities)

    asked = ask(client, number="A-1?\nNumber: harmless\n\u202eevil")

    message = asked.structured["message"].partition("page that is shown.\n")
    question = (message[2] or message[0]).splitlines()
    assert question == [
        "Cancel A-1? Number: harmless \ufffdevil?",
        "Number: A-1? Number: harmless \ufffdevil",
    ]
    html = asked.meta.get("django_mcp/html", "").split("data-mcp-args")[0]
    assert "\u202e" not in html


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"to": "x; amount: 1", "amount": 1000}, 'to: "x; amount: 1"; amount: 1000'),
        ({"to: x; amount": 1}, '"to: x; amount": 1'),
        ({"to": 'x"; amount: 1; "'}, r'to: "x\"; amount: 1; \""'),
        (["a, b", "c"], '"a, b", c'),
        ({"to": ["a", "b; amount: 1"]}, 'to: a, "b; amount: 1"'),
        ({"to": {"name": "x", "amount": 1}}, '{"to":{"name":"x","amount":1}}'),
        ("", '""'),
        (None, "\u2013"),
        ([], "[]"),
        ({}, "{}"),
        ("\u2013", '"\u2013"'),
        ("[]", '"[]"'),
        ("a; b: c", "a; b: c"),
    ],
)
def test_no_value_of_a_question_passes_for_another(value: Any, shown: str):
    server = MCPServer("orders", public=True)

    @server.tool(confirm="app")
    def send(value: Any) -> str:
        """Send."""
        return "sent"

    asked = MCPClient(server, capabilities={}).call("send", value=value)

    assert asked.structured["message"] == f"Send?\nValue: {shown}"


def test_a_call_that_is_too_long_to_agree_to_is_refused(shop: Any):
    client = MCPClient(shop[0], capabilities=HOST)

    assert "too long" in refuse(client, reason="x" * 4_000)


# -- a value counts once, and for one call


def test_a_used_value_is_refused(shop: Any):
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)
    asked = ask(client)
    client.confirm(asked)

    again = client.confirm(asked)

    assert again.is_error
    assert again.text.startswith(REFUSED)
    assert ran == ["A-1"]
    assert UsedState.objects.count() == 1


def test_a_value_of_other_arguments_is_refused(shop: Any):
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)
    token = confirmation_of(client)

    assert refuse(client, number="A-2", confirmation=token).startswith(REFUSED)
    assert refuse(client, reason="", confirmation=token).startswith(REFUSED)
    assert ran == []
    assert not ask(client, confirmation=token).is_error


@pytest.mark.parametrize("token", ["", "x", "é", "a:b", "x" * 500])
def test_a_value_that_is_none_is_refused(shop: Any, token: str):
    server, ran = shop

    assert refuse(MCPClient(server, capabilities=HOST), confirmation=token).startswith(REFUSED)
    assert ran == []


def as_javascript(value: Any) -> Any:
    """Return what a page makes of a value of JSON, all numbers of which are floats of 64 bits."""
    if type(value) in (int, float):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    if isinstance(value, dict):
        return {name: as_javascript(each) for name, each in value.items()}
    return [as_javascript(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "arguments",
    [
        {"amount": 10.0},
        {"amount": -0.0},
        {"amount": 10.5},
        {"amount": 1e20},
        {"amount": 1e21},
        {"amount": 1.0, "ref": 9007199254740993},
        {"amount": 1.0, "ref": -9007199254740993},
        {"amount": 1.0, "more": {"refs": [9007199254740993, 2.0]}},
    ],
    ids=str,
)
def test_a_page_confirms_the_numbers_of_a_call(arguments: Any):
    server, paid = MCPServer("orders", public=True), []

    @server.tool(confirm="app")
    def pay(amount: float, ref: int = 0, more: dict[str, list[int]] | None = None) -> str:
        """Pay."""
        paid.append({"amount": amount, "ref": ref, "more": more})
        return "paid"

    client = MCPClient(server, capabilities=HOST)
    html = client.call("pay", arguments).meta["django_mcp/html"]
    given = unescape(html.split('data-mcp-args="')[1].split('"')[0])

    done = client.call("pay", as_javascript(decode(given)))

    assert done.text == "paid"
    assert paid == [{"amount": arguments["amount"], "ref": 0, "more": None, **arguments}]


@pytest.mark.parametrize(
    ("confirmed", "sent"), [(9007199254740993, 9007199254740992), (1, 2), (1.5, 1), (1, True)]
)
def test_another_number_is_not_confirmed(confirmed: Any, sent: Any):
    server = MCPServer("orders", public=True)

    @server.tool(confirm="app")
    def pay(amount: Any) -> str:
        """Pay."""
        return "paid"

    client = MCPClient(server, capabilities={})
    token = client.call("pay", amount=confirmed).structured["confirmation"]

    refused = client.call("pay", amount=sent, confirmation=token)

    assert refused.is_error
    assert refused.text.startswith(REFUSED)


def test_a_changed_value_is_refused(shop: Any):
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)
    token = confirmation_of(client)

    for changed in (token[:-2] + "xx", "x" + token[1:], token.partition(":")[0]):
        assert refuse(client, confirmation=changed).startswith(REFUSED)
    assert ran == []


def test_another_signed_state_of_the_site_is_no_confirmation(shop: Any):
    server, ran = shop
    signer = server.engine.ports.signer

    for value in (b"1", b"[]", b"{}", b"{", encode({"for": [], "until": 9e9, "salt": "x"})):
        client = MCPClient(server, capabilities=HOST)
        assert refuse(client, confirmation=signer.sign(value)).startswith(REFUSED)
    assert ran == []


def test_a_value_of_another_user_is_refused(shop: Any, ann: User):
    server, ran = shop
    token = confirmation_of(MCPClient(server, user=ann, capabilities=HOST))

    for user in (User.objects.create_user("ben"), None):
        client = MCPClient(server, user=user, capabilities=HOST)
        assert refuse(client, confirmation=token).startswith(REFUSED)
    assert ran == []
    ask(MCPClient(server, user=ann, capabilities=HOST), confirmation=token)
    assert ran == ["A-1"]


def test_a_value_of_another_server_or_tool_is_refused(shop: Any):
    token = confirmation_of(MCPClient(shop[0], capabilities=HOST))
    other, ran = make_server("others")
    second, ran_second = make_server(name="cancel_it")

    assert refuse(MCPClient(other, capabilities=HOST), confirmation=token).startswith(REFUSED)
    client = MCPClient(second, capabilities=HOST)
    refused = client.call("cancel_it", number="A-1", confirmation=token)
    assert refused.text.startswith(REFUSED)
    assert (second.name, ran, ran_second) == ("orders", [], [])


def test_a_value_is_good_once_in_all_processes(shop: Any):
    """Two servers of one name are what two processes have."""
    worker, other = shop, make_server()
    asked = ask(MCPClient(worker[0], capabilities=HOST))

    done = MCPClient(other[0], capabilities=HOST).confirm(asked)
    again = MCPClient(worker[0], capabilities=HOST).confirm(asked)

    assert not done.is_error
    assert again.text.startswith(REFUSED)
    assert (worker[1], other[1]) == ([], ["A-1"])


@pytest.mark.parametrize(("minutes", "is_refused"), [(9.9, False), (10.1, True)])
def test_a_value_is_good_for_ten_minutes(shop: Any, minutes: float, is_refused: bool):
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)
    token = confirmation_of(client)
    clock = server.engine.ports.clock

    use_ports(server, clock=lambda: clock() + minutes * 60)
    result = client.call("cancel_order", number="A-1", confirmation=token)

    assert (result.is_error, ran) == (is_refused, [] if is_refused else ["A-1"])


def test_a_tool_that_fails_has_used_the_value():
    server, ran = MCPServer("orders", public=True), []

    @server.tool(confirm="app")
    def cancel_order(number: str) -> str:
        """Cancel an order."""
        ran.append(number)
        raise ToolError("The bank did not answer.")

    client = MCPClient(server, capabilities=HOST)
    asked = ask(client)

    assert client.confirm(asked).text == "The bank did not answer."
    assert client.confirm(asked).text.startswith(REFUSED)
    assert ran == ["A-1"]


def test_used_values_are_limited_per_caller(shop: Any, monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    monkeypatch.setattr(states._used, "limits", replace(states._used.limits, own_count=0))
    server, ran = shop
    client = MCPClient(server, capabilities=HOST)

    assert "try again when they have expired" in client.confirm(ask(client)).text
    assert ran == []


# -- the state that a tool changes


def test_a_value_counts_for_the_state_that_the_site_names(ann: User):
    server, ran = MCPServer("orders", public=True), []
    shelf = Shelf.objects.create(name="old", owner=ann)

    def find(user: Any, number: str) -> Shelf:
        return Shelf.objects.get(pk=number)

    def say(user: Any, number: str) -> str:
        return f"{Shelf.objects.get(pk=number).name}?"

    @server.tool(confirm=Confirm(question=say, state=find))
    def cancel_order(number: str) -> str:
        """Cancel an order."""
        ran.append(number)
        return "done"

    client = MCPClient(server, capabilities=HOST)
    asked = ask(client, number=str(shelf.pk))
    assert '<p class="mcp-text" dir="auto">old?</p>' in asked.meta["django_mcp/html"]
    Shelf.objects.update(name="new")

    assert client.confirm(asked).text.startswith(REFUSED)
    assert ran == []
    assert not client.confirm(ask(client, number=str(shelf.pk))).is_error
    gone = client.call("cancel_order", number="99999")
    assert (gone.is_error, "confirm" in gone.text, ran) == (True, False, [str(shelf.pk)])


@pytest.mark.parametrize(
    "value",
    [None, 1.5, "x", date(2026, 5, 1), {"a": [1, {2}], 3: date(2026, 5, 1)}, {4, 5}, object],
)
def test_a_state_may_be_any_value(value: Any):
    server, ran = make_server(confirm=Confirm(state=lambda user: value))
    client = MCPClient(server, capabilities=HOST)

    assert not client.confirm(ask(client)).is_error
    assert ran == ["A-1"]


def test_the_functions_get_the_arguments_as_the_tool_does():
    server, seen = MCPServer("orders", public=True), []

    def look(ctx: Context, day: date, count: int = 2) -> str:
        seen.append((type(ctx).__name__, day, count))
        return "Sure?"

    @server.tool(confirm=Confirm(question=look))
    def close(ctx: Context, day: date, count: int = 3) -> str:
        """Close."""
        return f"{day} {count}"

    client = MCPClient(server, capabilities=HOST)
    done = client.confirm(client.call("close", day="2026-05-01"))

    assert done.text == "2026-05-01 3"
    assert seen[0] == ("Context", date(2026, 5, 1), 3)


def test_a_tool_that_takes_all_arguments_as_a_dict():
    server, seen = MCPServer("orders", public=True), []
    schema = {"type": "object", "properties": {"number": {"type": "string"}}}

    def look(user: Any, number: str) -> str:
        return f"Number {number}?"

    @server.tool(confirm=Confirm(question=look), input_schema=schema)
    def cancel_order(arguments: dict[str, Any]) -> str:
        """Cancel an order."""
        seen.append(arguments)
        return "done"

    client = MCPClient(server, capabilities=HOST)
    asked = ask(client)

    assert "Number A-1?" in asked.text
    assert client.confirm(asked).text == "done"
    assert seen == [{"number": "A-1"}]


def test_a_question_may_be_a_text(shop: Any):
    server, _ = make_server(confirm=Confirm(question="This cannot be undone."))
    client = MCPClient(server, capabilities=HOST)

    asked = ask(client)

    assert asked.text.splitlines()[1] == "This cannot be undone."
    assert (
        '<p class="mcp-text" dir="auto">This cannot be undone.</p>' in asked.meta["django_mcp/html"]
    )


# -- permissions and checks decide before, at both calls


def test_permissions_decide_about_both_calls(ann: User):
    server, ran = make_server(permission="auth.delete_user")
    root = User.objects.create_superuser("root")
    client = MCPClient(server, user=root, capabilities=HOST)
    token = confirmation_of(client)

    with pytest.raises(MCPError, match="Unknown tool"):
        MCPClient(server, user=ann, capabilities=HOST).call("cancel_order", number="A-1")
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    root = User.objects.get(pk=root.pk)
    with pytest.raises(MCPError, match="Unknown tool"):
        MCPClient(server, user=root, capabilities=HOST).call(
            "cancel_order", number="A-1", confirmation=token
        )
    with pytest.raises(MCPError, match="Resource not found"):
        MCPClient(server, user=ann, capabilities=HOST).app("cancel_order")
    assert ran == []


def test_a_check_decides_about_both_calls():
    allowed = {"A-1"}
    server, ran = make_server(check=lambda user, number: number in allowed)
    client = MCPClient(server, capabilities=HOST)

    assert "confirm" not in refuse(client, number="A-2")
    token = confirmation_of(client)
    allowed.clear()
    assert "confirm" not in refuse(client, confirmation=token)
    assert ran == []
    assert not UsedState.objects.exists()


# -- clients that can ask, and clients with neither


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("has_pages", [False, True])
def test_the_user_is_asked_if_the_client_can(shop: Any, revision: str, has_pages: bool):
    server, ran = shop
    capabilities = {"elicitation": {}, **(HOST if has_pages else {})}
    client = MCPClient(server, revision=revision, capabilities=capabilities)
    if revision < "2025-06-18":
        assert "confirmation" in json.loads(ask(client).text)
        return
    client.answer({"confirm": True})

    done = ask(client, reason="late")

    assert [each.message for each in client.questions] == [
        "Cancel order?\nNumber: A-1\nReason: late"
    ]
    assert (done.text, ran) == ("Order A-1 was cancelled.", ["A-1"])
    client.assert_conforms()


@pytest.mark.parametrize("answer", [False, None, {"confirm": False}])
def test_nothing_is_done_unless_the_user_agrees(shop: Any, answer: Any):
    server, ran = shop
    client = MCPClient(server, capabilities={"elicitation": {}, **HOST})
    client.answer(answer)

    told = ask(client)

    assert told.text == "The user did not agree, so nothing was done."
    assert "did not agree" in told.meta["django_mcp/html"]
    assert ran == []


@pytest.mark.parametrize("revision", ALL)
def test_another_client_calls_twice(shop: Any, revision: str):
    server, ran = shop
    client = MCPClient(server, revision=revision, capabilities={})

    told = json.loads(ask(client).text)
    assert (ran, told["message"]) == ([], "Cancel order?\nNumber: A-1")
    assert refuse(client, number="A-2", confirmation=told["confirmation"]).startswith(REFUSED)
    done = ask(client, confirmation=told["confirmation"])

    assert (done.text, ran) == ("Order A-1 was cancelled.", ["A-1"])
    assert refuse(client, confirmation=told["confirmation"]).startswith(REFUSED)
    client.assert_conforms()


# -- asynchronous tools, results, options


@pytest.mark.django_db(transaction=True)
async def test_an_asynchronous_tool_is_confirmed():
    server, ran = MCPServer("orders", public=True), []

    def count(user: Any, number: str) -> int:
        return Shelf.objects.count()

    @server.tool(confirm=Confirm(state=count))
    async def cancel_order(ctx: Context, number: str) -> str:
        """Cancel an order."""
        await asyncio.sleep(0)
        ran.append(number)
        return "done"

    client = AsyncMCPClient(server, capabilities=HOST)
    asked = await client.call("cancel_order", number="A-1")
    assert ran == []

    assert (await client.confirm(asked)).text == "done"
    assert (await client.confirm(asked)).text.startswith(REFUSED)
    asking = AsyncMCPClient(server, capabilities={"elicitation": {}})
    asking.answer({"confirm": True})
    assert (await asking.call("cancel_order", number="A-2")).text == "done"
    assert ran == ["A-1", "A-2"]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("capabilities", [{}, HOST])
def test_a_tool_with_structured_output_keeps_its_schema(revision: str, capabilities: Any):
    server = MCPServer("orders", public=True)

    @server.tool(confirm="app", validate_output=True)
    def cancel_order(number: str) -> Cancelled:
        """Cancel an order."""
        return {"number": number, "on": "2026-05-01"}

    client = MCPClient(server, revision=revision, capabilities=capabilities)
    asked = ask(client)

    assert "Cancel order?" in asked.text
    if "django_mcp/html" in asked.meta:
        done = client.confirm(asked)
        assert ">2026-05-01</dd>" in done.meta["django_mcp/html"]
        assert done.structured == {"number": "A-1", "on": "2026-05-01"}
    client.assert_conforms()


def tell_list(number: str) -> list[int]:
    """Tell a list."""
    return [1, 2]


def tell_message(number: str) -> dict[str, str]:
    """Tell a message."""
    return {"message": "told"}


def tell_nothing(number: str) -> None:
    """Tell nothing."""


@pytest.mark.parametrize("revision", WITH_APPS)
@pytest.mark.parametrize(
    ("function", "shown"),
    [(tell_list, ">1, 2</"), (tell_message, ">told</p>"), (tell_nothing, ">Done.</p>")],
)
def test_any_result_is_shown(revision: str, function: Any, shown: str):
    server = MCPServer("orders", public=True)
    server.register_tool(function, confirm="app")
    client = MCPClient(server, revision=revision, capabilities=HOST)

    done = client.confirm(client.call(function.__name__, number="A-1"))

    assert shown in done.meta["django_mcp/html"]
    client.assert_conforms()


def test_a_tool_may_have_a_page_and_a_part_of_its_own():
    server, _ = make_server(app=App(template="shop/sales.html", fragment="shop/rows.html"))
    client = MCPClient(server, capabilities=HOST)

    asked = ask(client)

    assert "<title>Cancel</title>" in client.app("cancel_order")
    assert "data-mcp-question" in asked.meta["django_mcp/html"]
    assert client.confirm(asked).meta["django_mcp/html"] == ""


def test_a_question_that_cannot_be_rendered_is_an_error(templates: Any):
    server, ran = make_server()
    folder = templates.parent / "django_mcp" / "apps"
    folder.mkdir(parents=True)
    (folder / "_question.html").write_text("{% include 'nothing.html' %}")
    client = MCPClient(server, capabilities=HOST)

    assert refuse(client) == "The page that asks the user cannot be shown."
    assert ran == []


def test_a_client_without_the_page_has_nothing_to_confirm(shop: Any):
    client = MCPClient(shop[0], capabilities={})

    with pytest.raises(MCPError, match="no question to confirm"):
        client.confirm(ask(client))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"confirm": "page"}, "write 'app', or Confirm"),
        ({"confirm": True}, "write 'app', or Confirm"),
        ({"confirm": "app", "read_only": True, "destructive": None}, "does not go with read_only"),
        ({"confirm": "app", "task": "allowed"}, "does not go with task="),
        ({"confirm": "app", "ask_by_argument": True}, "does not go with ask_by_argument"),
        ({"confirm": "app", "visible_to": "model"}, "hides it from pages"),
        ({"confirm": Confirm(state=lambda: 1)}, "has no parameter"),
        ({"confirm": Confirm(state=lambda user, colour: 1)}, "takes colour"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(options: Any, told: str):
    with pytest.raises(RegistrationError, match=told):
        make_server(**options)


def test_an_argument_of_the_same_name_is_refused():
    server = MCPServer("orders", public=True)

    def act(confirmation: str) -> str:
        """Act."""
        return confirmation

    with pytest.raises(RegistrationError, match="which it has already"):
        server.register_tool(act, confirm="app")


def test_a_state_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match="write a function"):
        Confirm(state="x")  # type: ignore[arg-type]
