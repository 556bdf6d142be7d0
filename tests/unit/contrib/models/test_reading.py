"""The search and get tools: their results, permissions and number of queries."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import ArgumentErrors, MCPServer
from django_mcp.contrib.cursors import MAX_CURSOR_CHARS, Position
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.models.paging import Pages, complete
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Shelf
from tests.support.queries import captured_queries
from tests.unit.contrib.models.conftest import START, Orders

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(server: MCPServer, orders: list[Order], ann: User) -> MCPClient:
    Orders.register(server=server)
    return MCPClient(server, user=ann)


def numbers(client: MCPClient, **arguments: Any) -> list[str]:
    found = client.call("search_orders", **arguments)
    assert not found.is_error, found.text
    return [each["number"] for each in found.structured["results"]]


def error(client: MCPClient, tool: str = "search_orders", **arguments: Any) -> str:
    found = client.call(tool, **arguments)
    assert found.is_error
    return found.text


# -- results


def test_fields_may_be_named_like_options_and_keywords_of_schemas(server: MCPServer, ann: User):
    class ContentTypes(ModelTools):
        model = ContentType
        fields = ["app_label", "model"]
        filters = ["app_label", "model"]
        sortable_by = ["model"]
        everyone = True

    with isolate_apps("tests.support.library"):

        class Parcel(models.Model):
            type = models.IntegerField()
            properties = models.CharField(max_length=20)
            items = models.CharField(max_length=20)
            required = models.BooleanField()

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.items

    class Parcels(ModelTools):
        model = Parcel
        fields = ["id", "type", "properties", "items", "required"]
        filters = ["type", "properties", "items", "required"]
        everyone = True
        writes = ["create", "update"]

    tools = ContentTypes.register(server=server)
    assert Parcels.register(server=server).find_faults() == tools.find_faults() == []
    client = MCPClient(server, user=ann)
    found = client.call("search_content_types", app_label="shop", ordering="-model")

    assert [row["model"] for row in found.structured["results"]] == [
        "product",
        "orderline",
        "order",
    ]
    client.assert_visible("search_parcels", "create_parcel", "update_parcel")


def test_the_named_fields_are_shown_and_no_others(client: MCPClient):
    assert client.call("get_order", number="A-0").structured == {
        "number": "A-0",
        "status": "shipped",
        "placed_at": "2026-01-01T12:00:00Z",
        "customer": {"username": "ann"},
        "lines": [
            {"quantity": 1, "product": {"sku": "p-0"}},
            {"quantity": 2, "product": {"sku": "p-1"}},
        ],
    }


def test_schemas_are_those_of_the_fields(client: MCPClient):
    tools = {tool["name"]: tool for tool in client.list_tools()}

    arguments = tools["search_orders"]["inputSchema"]["properties"]
    assert arguments["status"]["enum"] == ["placed", "shipped", "cancelled"]
    assert arguments["placed_at__gte"]["format"] == "date-time"
    assert tools["get_order"]["inputSchema"]["properties"]["number"]["maxLength"] == 20
    shown = tools["get_order"]["outputSchema"]["properties"]
    assert [each["type"] for each in shown["customer"]["anyOf"]] == ["object", "null"]
    assert tools["get_order"]["annotations"] == {
        "title": "Get order",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert (
        tools["search_orders"]["description"] == "Search orders.\n\nOrders are placed in the shop."
    )


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_the_tools_conform_in_every_revision(
    server: MCPServer, orders: list[Order], ann: User, revision: str
):
    Orders.register(server=server)
    client = MCPClient(server, user=ann, revision=revision)

    client.call("search_orders", limit=1)
    client.call("get_order", number="A-0")

    client.assert_conforms()


class Bare(ModelTools):
    model = Order
    fields = ["id", "customer", "lines", "total", "summary"]
    prefetch_related = ["lines"]
    everyone = True

    def summary(self, order: Order) -> str:
        return f"{order.number}: {order.total}"


def test_relations_are_keys_and_properties_and_functions_are_computed(
    server: MCPServer, orders: list[Order], ann: User
):
    Bare.register(server=server)
    order = orders[1]

    shown = MCPClient(server).call("get_order", id=order.pk).structured

    assert shown == {
        "id": order.pk,
        "customer": ann.pk,
        "lines": list(order.lines.values_list("pk", flat=True)),
        "total": str(order.total),
        "summary": f"{order.number}: {order.total}",
    }


# -- permissions


def test_only_the_users_objects_are_found(client: MCPClient, bob: User, staff: User):
    assert numbers(client) == ["A-0", "A-1", "A-2"]
    assert numbers(MCPClient(client.server, user=bob)) == ["B-3", "B-4"]
    assert len(numbers(MCPClient(client.server, user=staff))) == 5
    assert numbers(MCPClient(client.server)) == []


def test_another_users_object_looks_like_a_missing_one(client: MCPClient):
    foreign, missing = (error(client, "get_order", number=number) for number in ("B-3", "X-1"))

    assert foreign == missing == "Order not found."


def test_an_option_adds_a_check_and_a_permission(server: MCPServer, orders: Any, ann: User):
    Orders.register(
        server=server, prefix="c_", check=lambda user, number: number != "A-1", include=["get"]
    )
    Orders.register(server=server, prefix="p_", permission="shop.view_order")
    client = MCPClient(server, user=ann)

    assert client.call("c_get_order", number="A-0").structured["number"] == "A-0"
    assert error(client, "c_get_order", number="A-1") == "Not found."
    client.assert_hidden("p_get_order", "p_search_orders")


# -- filters, search, order


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"status": "shipped"}, ["A-0", "A-2"]),
        ({"status__in": ["placed", "shipped"]}, ["A-0", "A-1", "A-2"]),
        ({"placed_at__gte": "2026-01-02T12:00:00Z"}, ["A-1", "A-2"]),
        ({"placed_at__gte": "2026-01-02T14:00:00+02:00", "status": "shipped"}, ["A-2"]),
        ({"customer__username": "bob"}, []),
        ({"lines__product__sku": "p-1"}, ["A-0", "A-1", "A-2"]),
        ({"search": "pot"}, ["A-0", "A-1", "A-2"]),
        ({"search": 'A-1 "Pot 1"'}, ["A-1"]),
        ({"search": "A-1 nothing"}, []),
        ({"ordering": "-placed_at"}, ["A-2", "A-1", "A-0"]),
        ({"ordering": "customer__username", "limit": 2}, ["A-0", "A-1"]),
    ],
)
def test_filters_search_and_order(client: MCPClient, arguments: Any, expected: list[str]):
    assert numbers(client, **arguments) == expected


# -- bad input


@pytest.mark.parametrize(
    "arguments",
    [
        {"customer__password__startswith": "p"},
        {"customer__password": "p"},
        {"number__startswith": "A"},
        {"pk": 1},
        {"ordering": "customer__password"},
        {"ordering": "note"},
        {"ordering": "?"},
        {"limit": 0},
        {"limit": -1},
        {"limit": 101},
        {"limit": 10**30},
        {"page": -1},
        {"status": "lost"},
        {"status__in": []},
        {"status__in": ["placed"] * 101},
        {"placed_at__gte": "yesterday"},
        {"placed_at__gte": "2026-02-31T00:00:00Z"},
        {"placed_at__gte": "0001-01-01T00:00:00+14:00"},
        {"placed_at__gte": "9999-12-31T23:59:59-14:00"},
        {"placed_at__year": 0},
        {"placed_at__year": 10000},
        {"customer__date_joined__year__gte": -1},
        {"customer__username": "a\0"},
        {"search": "a\0"},
        {"search": "x" * 201},
        {"search": " ".join("abcdefghijk")},
        {"cursor": "x" * 5000},
    ],
)
def test_an_argument_that_is_not_offered_or_not_valid_is_a_clear_error(
    client: MCPClient, arguments: Any
):
    text = error(client, **arguments)

    assert text.startswith("Invalid arguments:\n- /" + next(iter(arguments)))


@pytest.mark.parametrize("number", ["", "A\0", "x" * 21, "%", "A-0 OR 1=1"])
def test_a_strange_key_is_refused_or_not_found(client: MCPClient, number: str):
    assert error(client, "get_order", number=number).startswith(("Invalid arg", "Order not found"))


def test_a_huge_primary_key_is_not_found(server: MCPServer, orders: Any):
    Bare.register(server=server)

    assert "id" in error(MCPClient(server), "get_order", id=10**30)
    assert error(MCPClient(server), "get_order", id=2**62) == "Order not found."


# -- pages


def walk(client: MCPClient, **arguments: Any) -> list[str]:
    found: list[str] = []
    while True:
        page = client.call("search_orders", **arguments).structured
        found += [each["number"] for each in page["results"]]
        if page["next_cursor"] is None:
            return found
        arguments["cursor"] = page["next_cursor"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
@pytest.mark.parametrize("ordering", [None, "placed_at", "-placed_at", "-customer__username"])
def test_pages_show_each_row_once_in_order(
    client: MCPClient, staff: User, limit: int, ordering: str | None
):
    # A guest's order has no customer: rows without a value come last.
    Order.objects.filter(number="A-1").update(customer=None)
    client.force_login(staff)
    order = {} if ordering is None else {"ordering": ordering}

    found = walk(client, limit=limit, **order)

    assert found == numbers(client, **order)
    assert sorted(found) == ["A-0", "A-1", "A-2", "B-3", "B-4"]


def test_pagination_is_stable_under_inserts_and_deletes(client: MCPClient, ann: User):
    page = client.call("search_orders", limit=2).structured
    Order.objects.filter(number="A-1").delete()
    Order.objects.create(number="A-00", customer=ann, placed_at="2026-01-01T00:00:00Z")

    assert numbers(client, limit=2, cursor=page["next_cursor"]) == ["A-2"]


def test_a_cursor_is_bound_to_its_user_and_search(client: MCPClient, staff: User):
    cursor = client.call("search_orders", limit=1).structured["next_cursor"]
    wrong = "- /cursor: is not a cursor of this search. Leave it out to start again."

    assert wrong in error(client, cursor=cursor, status="shipped")
    assert wrong in error(client, cursor=cursor, ordering="placed_at")
    assert wrong in error(client, cursor=cursor[:-1] + "x")
    assert wrong in error(client, cursor="WyJhIixbIkEiXV0:forged")
    client.force_login(staff)
    assert wrong in error(client, cursor=cursor)


def test_security_a_cursor_contains_only_values_its_user_was_shown(
    server: MCPServer, orders: list[Order], ann: User
):
    class Dated(Orders):
        fields = ["number", "placed_at"]
        ordering = ["placed_at"]
        sortable_by = ["number"]

    Dated.register(server=server)
    client = MCPClient(server, user=ann)

    for ordering, expected in (
        ({}, ["2026-01-01T12:00:00+00:00", "A-0"]),
        ({"ordering": "-number"}, ["A-2"]),
    ):
        page = client.call("search_orders", limit=1, **ordering).structured
        payload = page["next_cursor"].partition(":")[0]
        held = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        assert json.loads(held)[1:] == [expected, 0]


def test_a_cursor_of_a_fallback_secret_key_works(client: MCPClient, settings: Any):
    cursor = client.call("search_orders", limit=2).structured["next_cursor"]
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new" * 20, [settings.SECRET_KEY]
    assert numbers(client, cursor=cursor) == ["A-2"]

    settings.SECRET_KEY_FALLBACKS = []
    assert "not a cursor of this search" in error(client, cursor=cursor)


@pytest.mark.parametrize("name", ["email", "first_name", "pk", "id"])
def test_security_rows_cannot_be_ordered_by_computed_or_hidden_fields(name: str, server: MCPServer):
    class Masked(ModelTools):
        model = User
        fields = ["username", "email"]
        sortable_by = [name]
        ordering = [f"-{name}"]
        everyone = True

        def email(self, user: User) -> str:
            return "***"

    told = [fault.text for fault in Masked.register(server=server).find_faults()]

    assert told == [
        f"{option}: {name!r} is not among fields, so its order must not be seen either"
        for option in ("ordering", "sortable_by")
    ]


@isolate_apps("tests.support.library")
def test_a_key_unfit_for_ordering_requires_the_primary_key_field(server: MCPServer):
    class Post(models.Model):  # noqa: DJ008
        slug = models.TextField(unique=True)

        class Meta:
            app_label = "library"

    class Posts(ModelTools):
        model = Post
        fields = ["slug"]
        everyone = True

    class Ordered(Posts):
        fields = ["id", "slug"]
        lookup_field = "slug"

    (fault,) = Posts.register(server=server).find_faults()
    assert (fault.id, fault.hint) == ("django_mcp.M004", "Add 'id' to fields.")
    assert Ordered.register(server=server).find_faults() == []


@isolate_apps("tests.support.library")
def test_a_composite_primary_key_requires_another_lookup_field(server: MCPServer):
    class Seat(models.Model):  # noqa: DJ008
        pk = models.CompositePrimaryKey("row", "place")
        row = models.IntegerField()
        place = models.IntegerField()
        code = models.CharField(max_length=5, unique=True)

        class Meta:
            app_label = "library"

    class Seats(ModelTools):
        model = Seat
        fields = ["row", "place"]
        everyone = True

    class Coded(Seats):
        lookup_field = "code"

    (fault,) = Seats.register(server=server).find_faults()
    assert (fault.id, "several columns" in fault.text) == ("django_mcp.M004", True)
    assert Coded.register(server=server).find_faults() == []


def test_a_value_that_is_too_long_for_a_cursor_is_an_error():
    with pytest.raises(ArgumentErrors, match="too long for a cursor"):
        Position(values=["x" * 5000]).write("search")
    assert len(Position(values=["\U0001f600" * 500]).write("search")) < MAX_CURSOR_CHARS


def test_results_are_counted_when_asked_and_up_to_a_limit(
    server: MCPServer, orders: Any, staff: User
):
    class Counted(Orders):
        max_count = 4

    Counted.register(server=server)
    client = MCPClient(server, user=staff)

    assert "count" not in client.call("search_orders").structured
    found = client.call("search_orders", count=True, limit=1).structured
    assert (found["count"], found["is_count_capped"]) == (4, True)
    found = client.call("search_orders", count=True, status="placed").structured
    assert (found["count"], found["is_count_capped"]) == (2, False)


# -- queries


class Customers(ModelTools):
    model = User
    fields = [
        "username",
        "orders__number",
        "orders__lines__quantity",
        "orders__lines__product__sku",
        "groups__name",
    ]
    everyone = True


def count_queries(client: MCPClient, tool: str, **arguments: Any) -> list[str]:
    with captured_queries() as queries:
        found = client.call(tool, **arguments)
    assert not found.is_error, found.text
    return queries


@pytest.mark.parametrize("rows", [1, 5])
def test_a_search_needs_one_query_plus_one_per_to_many_relation(
    client: MCPClient, staff: User, rows: int
):
    client.force_login(staff)

    assert len(count_queries(client, "search_orders", limit=rows)) == 2
    assert len(count_queries(client, "search_orders", limit=rows, count=True)) == 3
    assert len(count_queries(client, "search_orders", limit=rows, search="pot")) == 2
    assert len(count_queries(client, "get_order", number="A-0")) == 2


def test_three_levels_need_three_queries_for_any_number_of_rows(
    server: MCPServer, orders: Any, ann: User
):
    Customers.register(server=server)
    client = MCPClient(server)

    assert len(count_queries(client, "search_users")) == 4  # with the groups
    for n in range(20):
        order = Order.objects.create(number=f"N-{n}", customer=ann, placed_at=START)
        order.lines.create(product=Product.objects.all()[0], quantity=1, unit_price=1)
    assert len(count_queries(client, "search_users")) == 4
    Order.objects.filter(number__startswith="N-").delete()
    shown = client.call("get_user", username="ann").structured
    assert [each["number"] for each in shown["orders"]] == ["A-2", "A-1", "A-0"]
    assert shown["orders"][0]["lines"][1] == {"quantity": 2, "product": {"sku": "p-1"}}


def test_only_shown_columns_are_loaded(server: MCPServer, orders: Any):
    Customers.register(server=server)
    Orders.register(server=server)

    queries = count_queries(MCPClient(server), "search_users")
    queries += count_queries(MCPClient(server), "search_orders")

    assert not [sql for sql in queries if "password" in sql or "note" in sql or "unit_price" in sql]


def test_a_property_is_computed_without_a_query_for_each_row(server: MCPServer, orders: Any):
    Bare.register(server=server)

    assert len(count_queries(MCPClient(server), "search_orders")) == 2


def test_a_row_that_is_not_json_serializable_is_not_shown(server: MCPServer):
    class Products(ModelTools):
        model = Product
        fields = ["sku", "photo"]
        everyone = True

    assert "bytes" in Products.register(server=server).find_faults()[0].text
    assert OrderLine.objects.count() == 0


def test_no_row_is_lost_when_hidden_rows_before_it_are_deleted(ann: User):
    shelves = [Shelf.objects.create(name=f"s{number}", owner=ann) for number in range(8)]
    hidden = {shelves[2].pk, shelves[3].pk}
    pages = Pages("shelves", max_results=2, max_count=None)

    def read(**arguments: Any) -> Any:
        return pages.read(
            Shelf.objects.all(),
            complete(Shelf, []),
            user=ann,
            arguments=arguments,
            load=lambda rows: rows,
            show=lambda rows: [row.name for row in rows],
            explain=lambda is_empty: "",
            keep=lambda rows: [row for row in rows if row.pk not in hidden],
        )

    first = read()
    second = read(cursor=first["next_cursor"])
    Shelf.objects.filter(pk__in=hidden).delete()
    found, cursor = [*first["results"], *second["results"]], second["next_cursor"]
    while cursor is not None:
        page = read(cursor=cursor)
        assert len(page["results"]) <= 2
        found, cursor = [*found, *page["results"]], page["next_cursor"]

    assert found == ["s0", "s1", "s4", "s5", "s6", "s7"]


def test_now_is_no_date_and_the_error_says_what_is(client: MCPClient):
    assert "It must be in YYYY-MM-DD HH:MM" in error(client, placed_at__gte="now")
