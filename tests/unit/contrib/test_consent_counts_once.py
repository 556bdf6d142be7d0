"""What a user has agreed to is done once, whoever sends the agreement again, and to whichever process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import override_settings

from django_mcp import Context, MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.inprocess.call import principal_of
from django_mcp.models import UsedState
from example_project.shop.models import Order
from tests.support.wire import V2026_07_28, WireClient

pytestmark = pytest.mark.django_db(transaction=True)

FORMS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
NEITHER: dict[str, Any] = {"roots": {}, "elicitation": {"url": {}}}
REFUSED = {"code": -32602, "message": "Invalid requestState"}

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> Iterator[None]:
    """Begin with nothing done, and with one thread: tables in memory are locked without a wait."""
    done.clear()
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        yield


def make_server() -> MCPServer:
    """Return a server as each process of a site has one."""
    server = MCPServer("bank", public=True)

    @server.tool(destructive=True, confirm="app")
    def pay(to: str) -> str:
        """Pay."""
        done.append(to)
        return "paid"

    @server.tool(destructive=True, confirm="app")
    async def apay(to: str) -> str:
        """Pay."""
        done.append(to)
        return "paid"

    @server.tool(destructive=True, confirm="app")
    def pay_in_folder(ctx: Context, to: str) -> str:
        """Pay, after another question."""
        roots = ctx.list_roots()
        done.append(f"{to} {len(roots)}")
        return "paid"

    @server.tool(destructive=True, confirm="app")
    def pay_on_page(ctx: Context, to: str) -> str:
        """Pay, after two further questions."""
        first = ctx.elicit_url("Visit", "https://pay.example/1")
        ctx.elicit_url("And visit", "https://pay.example/2")
        done.append(f"{to} {first.action}")
        return "paid"

    @server.tool
    def wonder(ctx: Context) -> str:
        """Ask, and do nothing."""
        return str(len(ctx.list_roots()))

    return server


def client_of(server: MCPServer, user: Any = None) -> WireClient:
    return WireClient(server, V2026_07_28, principal=principal_of(user))


async def send(
    client: WireClient, name: str, arguments: Any, capabilities: Any, **more: Any
) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    params = {"name": name, "arguments": arguments, "_meta": meta, **more}
    body: dict[str, Any] = (await client.send("tools/call", params))[1]
    return body.get("result", body)


def answer(asked: dict[str, Any], **content: Any) -> dict[str, Any]:
    """Return what answers the questions of a result, with its state."""
    answers: dict[str, Any] = {}
    for key, question in asked["inputRequests"].items():
        is_form = "requestedSchema" in question.get("params", {})
        accepted = {"action": "accept", **({"content": content} if is_form else {})}
        answers[key] = accepted if question["method"] == "elicitation/create" else {"roots": []}
    return {"requestState": asked["requestState"], "inputResponses": answers}


def texts(results: list[dict[str, Any]]) -> list[Any]:
    """Return what results say, or the errors in place of them."""
    return sorted(
        (each["error"] if "error" in each else each["content"][0]["text"] for each in results),
        key=str,
    )


@pytest.mark.parametrize("name", ["pay", "apay"])
async def test_an_answer_counts_once_in_all_processes_at_the_same_time(name: str):
    asked = await send(client_of(make_server()), name, {"to": "ann"}, FORMS)
    given = answer(asked, confirm=True)
    workers = [make_server() for _ in range(2)]

    results = await asyncio.gather(
        *(
            send(client_of(workers[number % 2]), name, {"to": "ann"}, FORMS, **given)
            for number in range(8)
        )
    )

    assert done == ["ann"]
    assert texts(results) == ["paid", *[REFUSED] * 7]


async def test_a_refusal_of_the_user_counts_once_too():
    server = make_server()
    asked = await send(client_of(server), "pay", {"to": "ann"}, FORMS)

    refused = await send(
        client_of(server), "pay", {"to": "ann"}, FORMS, **answer(asked, confirm=False)
    )
    agreed = await send(
        client_of(server), "pay", {"to": "ann"}, FORMS, **answer(asked, confirm=True)
    )

    assert refused["content"][0]["text"] == "The user did not agree, so nothing was done."
    assert agreed["error"] == REFUSED
    assert done == []


@pytest.mark.parametrize(
    ("name", "rounds", "effect"),
    [("pay_in_folder", 1, "ann 0"), ("pay_on_page", 2, "ann accept")],
)
@pytest.mark.parametrize("capabilities", [FORMS, NEITHER], ids=["answer", "confirmation"])
async def test_a_tool_that_asks_further_questions_acts_once(
    name: str, rounds: int, effect: str, capabilities: Any
):
    """An honest client gets through all rounds, and whoever repeats one of them gets nothing done."""
    capabilities = {**capabilities, "roots": {}}
    workers = [make_server() for _ in range(2)]
    arguments = {"to": "ann"}
    told = await send(client_of(workers[0]), name, arguments, capabilities)
    sent: list[dict[str, Any]] = []
    if "inputRequests" in told:
        given = answer(told, confirm=True)
        sent.append(given)
    else:
        arguments = {**arguments, "confirmation": told["structuredContent"]["confirmation"]}
        given = {}

    for _ in range(rounds):
        told = await send(client_of(workers[1]), name, arguments, capabilities, **given)
        given = answer(told)
        sent.append(given)
    assert done == []
    last = await asyncio.gather(
        *(
            send(client_of(workers[number % 2]), name, arguments, capabilities, **given)
            for number in range(6)
        )
    )
    again = [
        await send(client_of(workers[0]), name, arguments, capabilities, **each) for each in sent
    ]

    assert done == [effect]
    assert texts([*last, *again]) == ["paid", *[REFUSED] * (5 + len(sent))]


async def test_other_questions_are_not_counted():
    """A state costs a row of the database only where a user's consent hangs on it."""
    client = client_of(make_server())
    asked = await send(client, "wonder", {}, {"roots": {}})

    results = [await send(client, "wonder", {}, {"roots": {}}, **answer(asked)) for _ in range(2)]

    assert texts(results) == ["0", "0"]
    assert not await UsedState.objects.aexists()


# -- generated tools


class Orders(ModelTools):
    model = Order
    fields = ["number", "note", "customer"]
    lookup_field = "number"
    writable = ["note"]
    everyone = True
    writes = ["update", "delete"]
    update_many = True

    def delete_model(self, user: Any, instance: Any) -> None:
        # What was confirmed is as it was, so nothing but its use speaks against another time.
        done.append(instance.number)

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        done.append(instance.number)


class OrderAdmin(admin.ModelAdmin):
    fields = ["number", "note"]
    actions = ["delete_selected"]

    def delete_model(self, request: Any, obj: Any) -> None:
        done.append(obj.number)

    def delete_queryset(self, request: Any, queryset: Any) -> None:
        done.append("A-1")

    def log_deletions(self, request: Any, queryset: Any) -> Any:
        """Write no history, which would be another state."""

    def save_model(self, request: Any, obj: Any, form: Any, change: Any) -> None:
        done.append(obj.number)


def make_shop(*, by_admin: bool) -> MCPServer:
    server = MCPServer("shop", public=True)
    if by_admin:
        site = admin.AdminSite()
        site.register(Order, OrderAdmin)
        admin_tools(models=["shop.order"], site=site, server=server, update_many=True)
    else:
        Orders.register(server=server)
    return server


CALLS: list[tuple[bool, str, Any, str]] = [
    (False, "delete_order", lambda order: {"number": order.number}, "delete"),
    (
        False,
        "update_many_orders",
        lambda order: {"ids": [order.number], "values": {"note": "x"}},
        "change",
    ),
    (True, "delete_order", lambda order: {"id": order.pk}, "delete"),
    (True, "delete_order", lambda order: {"id": [order.pk]}, "delete"),
    (
        True,
        "update_many_orders",
        lambda order: {"ids": [order.pk], "values": {"note": "x"}},
        "change",
    ),
]


@pytest.mark.parametrize(
    ("by_admin", "name", "make", "word"),
    CALLS,
    ids=["delete", "update_many", "admin", "action", "admin_many"],
)
async def test_an_answer_to_a_generated_tool_counts_once(
    by_admin: bool, name: str, make: Any, word: str
):
    root = await sync_to_async(User.objects.create_superuser)("root")
    order = await Order.objects.acreate(
        number="A-1", customer=root, note="old", placed_at=datetime.now(UTC)
    )
    workers = [make_shop(by_admin=by_admin) for _ in range(2)]
    arguments = make(order)
    asked = await send(client_of(workers[0], root), name, arguments, FORMS)
    given = answer(asked, **{word: True})

    results = await asyncio.gather(
        *(
            send(client_of(workers[number % 2], root), name, arguments, FORMS, **given)
            for number in range(4)
        )
    )

    assert done == ["A-1"]
    assert [each["error"] for each in results if "error" in each] == [REFUSED] * 3
