"""The example shop, with clients of the oldest and the newest revision."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.utils import translation

from django_mcp import default_server
from django_mcp.test import AsyncMCPClient
from example_project.backoffice.mcp import staff_server
from example_project.shop import sample
from example_project.shop.models import Order, Product
from tests.support.server.tasks import Modern
from tests.support.wire import V2024_11_05, V2026_07_28, WireClient

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _filled_shop(settings: Any):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREADS": 0}
    sample.load()


@pytest.fixture(params=[V2024_11_05, V2026_07_28])
def visitor(request: pytest.FixtureRequest) -> WireClient:
    return WireClient(default_server, request.param)


def call(client: WireClient, name: str, **arguments: Any) -> dict[str, Any]:
    return async_to_sync(client.call)(name, arguments)


def ask(client: WireClient, method: str, **params: Any) -> dict[str, Any]:
    return async_to_sync(client.result)(method, params)


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_loading_the_sample_again_changes_nothing():
    Product.objects.filter(sku="mug").update(stock=1)

    sample.load()

    assert Product.objects.get(sku="mug").stock == 1
    assert Order.objects.count() == len(sample.ORDERS)
    assert get_user_model().objects.count() == len(sample.USERS)


def test_the_demo_prepares_the_database(capsys: pytest.CaptureFixture[str]):
    Order.objects.all().delete()

    call_command("demo", "--prepare")

    assert Order.objects.count() == len(sample.ORDERS)


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "{}"])
def test_the_demo_says_that_its_port_is_busy(form: str, capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = form.format(busy.getsockname()[1])

        with pytest.raises(
            CommandError, match=r"already in use.*manage\.py demo 127\.0\.0\.1:8137"
        ):
            call_command("demo", address)

    assert "answers at" not in capsys.readouterr().out


def test_the_shop_lists_its_registered_entries(visitor: WireClient):
    tools = {tool["name"] for tool in ask(visitor, "tools/list")["tools"]}
    resources = {found["uri"] for found in ask(visitor, "resources/list")["resources"]}
    templates = ask(visitor, "resources/templates/list")["resourceTemplates"]
    prompts = {found["name"] for found in ask(visitor, "prompts/list")["prompts"]}

    assert tools == {
        "find_products",
        "find_orders",
        "get_order",
        "place_order",
        "reorder",
        "cancel_order",
        "gift_wrap",
        "write_card",
        "open_write_card",
        "redeem_voucher",
        "convert_price",
        "export_orders",
        "get_product_link",
        "get_product_photo",
        "quote_shipping",
    }
    assert resources == {"shop://terms", "shop://categories", "skill://refund-order/SKILL.md"}
    assert [found["uriTemplate"] for found in templates] == [
        "product://{sku}/stock",
        "product://{sku}/photo",
        "order://{number}",
    ]
    assert prompts == {"apology", "restock_review"}


def test_products_are_found_by_name_category_and_price(visitor: WireClient):
    found = call(visitor, "find_products", category="garden", max_price="30")

    assert [product["sku"] for product in json.loads(text_of(found))] == ["hose"]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [("", []), ("2026", []), ("mug", []), ("2026-0002", []), ("2026-0003", ["2026-0003"])],
)
def test_a_visitor_finds_a_guests_order_by_its_full_number_only(
    visitor: WireClient, query: str, numbers: list[str]
):
    found = json.loads(text_of(call(visitor, "find_orders", query=query)))

    assert [order["number"] for order in found] == numbers


def test_orders_are_listed_with_readable_lines_and_the_newest_first():
    sam = get_user_model().objects.get(username="sam")
    found = default_server.call_tool("find_orders", {}, user=sam).structured

    assert [order["number"] for order in found] == [f"2026-000{n}" for n in (4, 3, 2, 1)]
    assert found[3]["total"] == "97.00"
    assert found[3]["lines"] == [
        {"product": "Copper kettle", "sku": "kettle", "quantity": 1, "unit_price": "59.00"},
        {"product": "Enamel mug", "sku": "mug", "quantity": 4, "unit_price": "9.50"},
    ]


def test_a_customer_finds_only_their_own_orders():
    ada = get_user_model().objects.get(username="ada")
    found = default_server.call_tool("find_orders", {}, user=ada).structured

    assert [order["number"] for order in found] == ["2026-0001"]


def test_every_invalid_argument_is_reported_at_once(visitor: WireClient):
    refused = call(visitor, "find_orders", status="lost", limit=0)

    assert refused["isError"]
    assert "/status" in text_of(refused)
    assert "/limit" in text_of(refused)


def test_an_order_is_placed(visitor: WireClient):
    placed = json.loads(
        text_of(call(visitor, "place_order", lines=[{"sku": "mug", "quantity": 2}]))
    )

    order = Order.objects.get(number=placed["number"])
    assert order.customer is None
    assert order.total == 19
    assert Product.objects.get(sku="mug").stock == 138


def test_an_order_that_cannot_be_filled_leaves_nothing(visitor: WireClient):
    lines = [{"sku": "mug", "quantity": 2}, {"sku": "hose", "quantity": 1}]

    refused = call(visitor, "place_order", lines=lines)

    assert refused["isError"]
    assert text_of(refused) == "Only 0 of hose left, 1 were ordered."
    assert Order.objects.count() == len(sample.ORDERS)
    assert Product.objects.get(sku="mug").stock == 140


def test_a_cancelled_order_restocks_its_goods_once(visitor: WireClient):
    call(visitor, "cancel_order", number="2026-0003")
    call(visitor, "cancel_order", number="2026-0003")

    assert Order.objects.get(number="2026-0003").status == Order.Status.CANCELLED
    assert Product.objects.get(sku="notebook").stock == 320


@pytest.mark.parametrize("name", ["cancel_order", "gift_wrap", "redeem_voucher"])
@pytest.mark.parametrize("who", [None, "ada", "clerk"])
def test_another_users_order_cannot_be_changed(name: str, who: str | None):
    """The clerk is staff and sees all orders, without the permission to change them."""
    users = get_user_model().objects
    users.create_user("clerk", is_staff=True)
    user = users.get(username=who) if who else None
    client = WireClient(default_server, V2024_11_05, principal=user)
    before = Order.objects.values().get(number="2026-0002")

    refused = call(client, name, number="2026-0002")
    unknown = call(client, name, number="2026-9999")

    assert refused["isError"]
    assert text_of(refused).replace("2026-0002", "2026-9999") == text_of(unknown)
    assert Order.objects.values().get(number="2026-0002") == before


def test_a_shipped_order_is_refused_in_the_callers_language(visitor: WireClient):
    with translation.override("de"):
        refused = call(visitor, "cancel_order", number="2026-0004")

    assert text_of(refused) == "Bestellung 2026-0004 ist schon verschickt."


def test_a_photo_is_a_png(visitor: WireClient):
    photo = call(visitor, "get_product_photo", sku="kettle")["content"][0]

    assert photo["mimeType"] == "image/png"


def test_shipping_is_quoted(visitor: WireClient):
    params = {"name": "quote_shipping", "arguments": {"region": "eu", "weight_kg": 2}}

    _, answer = async_to_sync(visitor.send)("tools/call", params, mcp_param_region="eu")

    assert json.loads(text_of(answer["result"])) == {"price": "6.90", "days": 4}


def test_resources_are_read(visitor: WireClient):
    stock = ask(visitor, "resources/read", uri="product://lamp/stock")["contents"][0]
    order = ask(visitor, "resources/read", uri="order://2026-0003")["contents"][0]
    photo = ask(visitor, "resources/read", uri="product://lamp/photo")["contents"][0]

    assert json.loads(stock["text"]) == {"sku": "lamp", "stock": 23}
    assert json.loads(order["text"])["total"] == "51.50"
    assert photo["mimeType"] == "image/png"
    assert photo["blob"]


def test_prompts_are_written_and_their_arguments_completed(visitor: WireClient):
    letter = ask(visitor, "prompts/get", name="apology", arguments={"order_number": "2026-0003"})
    ref = {"type": "ref/prompt", "name": "apology"}

    def complete(value: str) -> list[str]:
        argument = {"name": "order_number", "value": value}
        found = ask(visitor, "completion/complete", ref=ref, argument=argument)
        values: list[str] = found["completion"]["values"]
        return values

    assert letter["messages"][0]["content"]["text"].startswith("Write a warm apology to our guest")
    assert complete("2026-000") == []
    assert complete("2026-0003") == ["2026-0003"]


def test_the_categories_are_in_the_callers_language(visitor: WireClient):
    with translation.override("de"):
        categories = ask(visitor, "resources/read", uri="shop://categories")["contents"][0]

    assert json.loads(categories["text"])["office"] == "Büro"


def test_the_back_office_is_a_server_of_its_own():
    sam = get_user_model().objects.get(username="sam")
    staff = WireClient(staff_server, V2026_07_28, principal=sam)

    sold = call(staff, "best_sellers", limit=1)["structuredContent"]
    left = call(staff, "restock", sku="hose", quantity=5)
    low = ask(staff, "resources/read", uri="staff://low-stock")["contents"][0]

    assert sold == [{"sku": "lamp", "product": "Desk lamp", "sold": 2, "euros": "90.00"}]
    assert text_of(left) == "5"
    assert json.loads(low["text"]) == ["hose", "spade"]


@pytest.mark.parametrize("who", [None, "ada"])
def test_the_back_office_is_unknown_to_customers_and_visitors(who: str | None):
    user = get_user_model().objects.get(username=who) if who else None
    client = WireClient(staff_server, V2026_07_28, principal=user)

    assert ask(client, "tools/list")["tools"] == []
    assert ask(client, "resources/list")["resources"] == []
    params = {"name": "restock", "arguments": {"sku": "hose", "quantity": 5}}
    _, error = async_to_sync(client.error)("tools/call", params)
    assert error["message"] == "Unknown tool: restock"
    assert Product.objects.get(sku="hose").stock == 0


@pytest.mark.parametrize("revision", [V2024_11_05, V2026_07_28])
def test_staff_tools_require_permission(revision: Any):
    clerk = get_user_model().objects.create_user("clerk")
    for codename in ("view_order", "change_order"):
        clerk.user_permissions.add(Permission.objects.get(codename=codename))
    visitor = WireClient(default_server, revision)
    allowed = WireClient(default_server, revision, principal=clerk)

    def names(client: WireClient) -> set[str]:
        return {tool["name"] for tool in ask(client, "tools/list")["tools"]}

    assert names(allowed) - names(visitor) == {"ship_order", "sales_by_month"}
    assert text_of(call(allowed, "ship_order", number="2026-0002")).count("shipped")
    assert call(allowed, "ship_order", number="2026-0002")["isError"]
    for name in ("ship_order", "change_price"):
        _, error = async_to_sync(visitor.error)("tools/call", {"name": name, "arguments": {}})
        assert error["message"] == f"Unknown tool: {name}"


def test_a_gift_is_wrapped_as_the_user_answers():
    client = WireClient(default_server, V2026_07_28)
    capabilities: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
    }
    params = {"name": "gift_wrap", "arguments": {"number": "2026-0003"}, "_meta": capabilities}

    def answer(interim: dict[str, Any], **content: str) -> dict[str, Any]:
        responses = {"question-1": {"action": "accept", "content": content}}
        state = interim["requestState"]
        return ask(client, "tools/call", **params, requestState=state, inputResponses=responses)

    first = ask(client, "tools/call", **params)
    second = answer(first, paper="stars", note="x" * 60)
    last = answer(second, paper="stars", note="For you")

    fields = first["inputRequests"]["question-1"]["params"]["requestedSchema"]["properties"]
    assert fields["note"]["title"] == "Card"
    question = second["inputRequests"]["question-1"]["params"]["message"]
    assert question.endswith("The cards with stars hold 40 letters.")
    assert text_of(last) == "Order 2026-0003 is wrapped. stars: For you"
    assert Order.objects.get(number="2026-0003").note == "stars: For you"


@pytest.mark.django_db(transaction=True)
async def test_the_export_continues_as_a_task():
    await sync_to_async(sample.load)()
    client = Modern(default_server)
    task = await client.until(await client.create("export_orders"), "completed")

    (resource,) = [each for each in task["result"]["content"] if each["type"] == "resource"]
    assert resource["resource"]["mimeType"] == "text/csv"


ASKED: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


@pytest.mark.parametrize(("content", "orders"), [({"order": True}, 1), ({"order": False}, 0)])
def test_an_order_is_repeated_when_the_customer_agrees(content: Any, orders: int):
    client = WireClient(default_server, V2026_07_28)
    params = {"name": "reorder", "arguments": {"number": "2026-0003"}, "_meta": ASKED}

    asked = ask(client, "tools/call", **params)
    answer = {"question-1": {"action": "accept", "content": content}}
    state = asked["requestState"]
    done = ask(client, "tools/call", **params, requestState=state, inputResponses=answer)

    question = asked["inputRequests"]["question-1"]["params"]["message"]
    assert question == "Order 10 × notebook, 1 × mug for 51.50 euros?"
    assert ("is placed" in text_of(done)) is bool(orders)
    assert Order.objects.count() == len(sample.ORDERS) + orders


def test_without_elicitation_the_agreed_total_is_an_argument(visitor: WireClient):
    told = text_of(call(visitor, "reorder", number="2026-0003"))
    wrong = text_of(call(visitor, "reorder", number="2026-0003", agreed_total="1"))
    placed = text_of(call(visitor, "reorder", number="2026-0003", agreed_total="51.50"))

    assert told == wrong == "Nothing was ordered. It costs 51.50 euros today."
    assert placed.endswith("is placed: 51.50 euros.")
    assert Order.objects.count() == len(sample.ORDERS) + 1


@pytest.mark.django_db(transaction=True)
async def test_a_stock_subscriber_is_notified_of_changes() -> None:
    """An order that was rejected after its first line changes nothing and sends no notification."""
    sam = await get_user_model().objects.aget(username="sam")
    client, staff = AsyncMCPClient(default_server), AsyncMCPClient(staff_server, user=sam)
    lines = [{"sku": "mug", "quantity": 2}, {"sku": "hose", "quantity": 1}]
    async with client.subscribe("product://mug/stock", "product://hose/stock") as changes:
        assert (await client.call("place_order", lines=lines)).is_error
        await staff.call("restock", sku="hose", quantity=1)
        first = await changes.next()
        assert not (await client.call("place_order", lines=lines)).is_error
        others = [await changes.next(), await changes.next()]

    assert first["params"]["uri"] == "product://hose/stock"
    assert [each["params"]["uri"] for each in others] == [
        "product://mug/stock",
        "product://hose/stock",
    ]


@pytest.mark.django_db(transaction=True)
async def test_a_subscriber_is_notified_of_admin_changes() -> None:
    client = AsyncMCPClient(default_server)
    async with client.subscribe("product://mug/stock") as changes:
        mug = await Product.objects.aget(sku="mug")
        await mug.asave()
        heard = await changes.next()

    assert heard["params"]["uri"] == "product://mug/stock"
