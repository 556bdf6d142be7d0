"""The shop's models, admin and APIs as tools: each customer sees only their own orders."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks

from django_mcp.inprocess.results import UnknownTool
from example_project.shop import sample
from example_project.shop.models import Order, Product
from example_project.storefront.mcp import storefront
from tests.support.site.shop_sources.mcp import server

pytestmark = pytest.mark.django_db

LISTS = {"search_orders": "results", "rest_orders_list": "results"}
GETS = ("get_order", "rest_orders_retrieve", "ninja_get_order")


@pytest.fixture(autouse=True)
def _filled_shop(settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREADS": 0}
    sample.load()
    ada, grace = (User.objects.get(username=name) for name in ("ada", "grace"))
    Order.objects.update(customer=ada)
    for number in ("of-grace-1", "of-grace-2"):
        Order.objects.create(
            number=number, customer=grace, placed_at=Order.objects.earliest("pk").placed_at
        )


@pytest.fixture
def ada() -> User:
    return User.objects.get(username="ada")


@pytest.fixture
def grace() -> User:
    return User.objects.get(username="grace")


def call(user: Any, name: str, **arguments: Any) -> Any:
    return server.call_tool(name, arguments, user=user)


def numbers_of(user: Any) -> set[str]:
    return set(Order.objects.filter(customer=user).values_list("number", flat=True))


def test_the_storefront_passes_the_checks() -> None:
    assert [
        each for each in run_checks(tags=["django_mcp"]) if "storefront" in f"{each.obj} {each.msg}"
    ] == []


@pytest.mark.parametrize("name", LISTS)
def test_a_list_contains_only_the_users_orders(name: str, ada: User, grace: User) -> None:
    for user in (ada, grace):
        rows = call(user, name).structured[LISTS[name]]

        assert {row["number"] for row in rows} == numbers_of(user)


@pytest.mark.parametrize("name", GETS)
def test_another_users_order_is_unknown(name: str, ada: User, grace: User) -> None:
    own = call(grace, name, number="of-grace-1")
    foreign = call(ada, name, number="of-grace-1")
    unknown = call(ada, name, number="of-nobody")

    assert own.structured["number"] == "of-grace-1"
    assert foreign.is_error
    assert foreign.text.replace("of-grace-1", "of-nobody") == unknown.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("update_order", {"note": "mine now"}),
        ("rest_orders_partial_update", {"note": "mine now"}),
        ("rest_orders_cancel", {}),
        ("ninja_set_note", {"note": "mine now"}),
    ],
)
def test_only_the_users_own_order_can_be_changed(
    name: str, arguments: dict[str, Any], ada: User, grace: User
) -> None:
    before = Order.objects.values().get(number="of-grace-1")

    assert call(ada, name, number="of-grace-1", **arguments).is_error
    assert Order.objects.values().get(number="of-grace-1") == before
    changed = call(grace, name, number="of-grace-1", **arguments)
    assert not changed.is_error, changed.text
    assert Order.objects.values().get(number="of-grace-1") != before


def test_anonymous_visitors_see_public_entries() -> None:
    names = {tool["name"] for tool in server.list_tools(user=AnonymousUser())}

    assert {"search_products", "get_product", "ninja_list_products"} <= names
    assert not {name for name in names if name.startswith("rest_")}
    found = call(AnonymousUser(), "search_products", category="kitchen").structured["results"]
    assert {product["sku"] for product in found} == {"kettle", "mug"}


def test_the_admin_tools_require_staff(ada: User) -> None:
    sam = User.objects.get(username="sam")
    of_ada, of_sam = (
        {tool["name"] for tool in server.list_tools(user=user)} for user in (ada, sam)
    )

    assert not {name for name in of_ada if name.startswith("admin_")}
    assert {"admin_search_orders", "admin_update_product", "admin_delete_order"} <= of_sam
    with pytest.raises(UnknownTool):
        call(ada, "admin_search_orders")
    changed = call(sam, "admin_update_product", id=Product.objects.get(sku="mug").pk, stock=7)
    assert not changed.is_error, changed.text
    assert Product.objects.get(sku="mug").stock == 7


def test_the_storefront_has_one_tool_for_each_job(ada: User) -> None:
    for_customers = {tool["name"] for tool in storefront.list_tools(user=ada)}
    for_visitors = {tool["name"] for tool in storefront.list_tools(user=AnonymousUser())}

    assert for_visitors == {"search_products", "get_product", "price_basket"}
    assert for_customers - for_visitors == {
        "search_orders",
        "get_order",
        "update_order",
        "cancel_order",
    }


def test_staff_who_may_only_see_orders_do_not_change_those_of_others(grace: User) -> None:
    grace.is_staff = True
    grace.save()

    assert not {"update_order"} & {tool["name"] for tool in storefront.list_tools(user=grace)}
    assert storefront.call_tool("get_order", {"number": "2026-0002"}, user=grace).text
    refused = storefront.call_tool("cancel_order", {"number": "2026-0002"}, user=grace)
    assert refused.is_error
    assert Order.objects.get(number="2026-0002").status == Order.Status.PLACED


def test_a_basket_is_priced_without_an_order(ada: User) -> None:
    lines = [{"sku": "mug", "quantity": 2}, {"sku": "hose", "quantity": 1}]

    priced = storefront.call_tool("price_basket", {"lines": lines}, user=AnonymousUser())

    assert priced.structured == {"total": "46.00", "missing": ["hose"]}
    assert Product.objects.get(sku="mug").stock == 140
