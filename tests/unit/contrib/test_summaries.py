"""The tools that count and add up in groups: over what the caller sees, in one query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps
from django.utils import timezone
from pydantic import TypeAdapter

from django_mcp import MCPServer
from django_mcp.calls import flush_calls
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.inprocess.results import UnknownTool
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.calls import read, refuse
from tests.support.library.models import Sample
from tests.support.queries import captured_queries
from tests.unit.contrib.modeladmin.conftest import orders  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders")]

_numbers = count()


class Orders(ModelTools):
    model = Order
    fields = ["number", "status", "placed_at", "customer__username", "total", "lines__quantity"]
    filters = ["status", "lines__product__sku", "customer__username"]
    search = ["number", "lines__product__name"]
    aggregates = True

    def get_queryset(self, user: Any) -> Any:
        return Order.objects.visible_to(user)


class Lines(ModelTools):
    model = OrderLine
    fields = ["id", "product", "quantity", "unit_price", "order__placed_at"]
    everyone = True
    aggregates = True


class Products(ModelTools):
    model = Product
    fields = ["sku", "category", "price", "stock"]
    filters = ["category"]
    everyone = True
    aggregates = True


class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "status", "count_lines"]
    list_filter = ["status", "customer"]
    search_fields = ["number", "lines__product__name"]
    fields = ["number", "placed_at"]

    def get_list_display(self, request: Any) -> Any:
        names = super().get_list_display(request)
        return names if request.user.is_superuser else [n for n in names if n != "status"]

    @admin.display(description="Number of lines")
    def count_lines(self, order: Order) -> int:
        return order.lines.count()


class OwnOrders(OrderAdmin):
    def get_queryset(self, request: Any) -> Any:
        rows = super().get_queryset(request)
        return rows if request.user.is_superuser else rows.filter(number__startswith="A")


class JudgedOrders(OrderAdmin):
    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.number != "A-0"


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="secret-of-root")


@pytest.fixture
def staff() -> User:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_order"))
    return user


def make_server() -> MCPServer:
    return MCPServer(
        f"summaries-{next(_numbers)}", public=True, output_schemas="full", validate_output=True
    )


def serve(*classes: type[ModelTools], **options: Any) -> MCPServer:
    server = make_server()
    for cls in classes:
        cls.register(server=server, **options)
    return server


def serve_admin(cls: Any = OrderAdmin, **options: Any) -> MCPServer:
    site = admin.AdminSite(f"summaries-{next(_numbers)}")
    site.register(Order, cls)
    server = make_server()
    admin_tools(server=server, site=site, models=[Order], aggregates=True, **options)
    return server


def groups(client: MCPClient, tool: str, **arguments: Any) -> list[Any]:
    return [
        (*each["group"].values(), each["count"])
        for each in read(client, tool, **arguments)["groups"]
    ]


# -- what is computed


def test_rows_are_counted_in_groups_in_one_query(root: User):
    client = MCPClient(serve(Orders), user=root)
    read(client, "summarize_orders")

    with captured_queries() as queries:
        found = read(client, "summarize_orders", group_by=["status"])

    assert found == {
        "groups": [
            {"group": {"status": "placed"}, "count": 2},
            {"group": {"status": "shipped"}, "count": 3},
        ],
        "total": 2,
    }
    assert len(queries) == 1
    assert read(client, "summarize_orders") == {"groups": [{"count": 5}], "total": 1}
    client.assert_conforms()


def test_numbers_are_added_exactly_and_averaged_with_few_digits():
    Product.objects.all().update(stock=0)
    for number, price in enumerate(("0.10", "0.20", "999999.99")):
        Product.objects.create(
            sku=f"x-{number}", name="X", category="garden", price=Decimal(price), stock=number * 7
        )
    client = MCPClient(serve(Products))

    found = read(
        client,
        "summarize_products",
        sum=["price", "stock"],
        avg=["price", "stock"],
        min=["price"],
        max=["price", "stock"],
        category="garden",
    )

    assert found["groups"] == [
        {
            "count": 3,
            "sum": {"price": "1000000.29", "stock": 21},
            "avg": {"price": "333333.4300", "stock": 7.0},
            "min": {"price": "0.10"},
            "max": {"price": "999999.99", "stock": 14},
        }
    ]
    none = read(client, "summarize_products", sum=["price"], avg=["stock"], category="office")
    assert none["groups"] == [{"count": 0, "sum": {"price": None}, "avg": {"stock": None}}]


def test_many_decimals_have_no_rounding_errors():
    Product.objects.bulk_create(
        Product(sku=f"m-{n}", name="M", category="garden", price=Decimal("999999.99"))
        for n in range(1000)
    )
    client = MCPClient(serve(Products))

    (group,) = read(client, "summarize_products", sum=["price"], category="garden")["groups"]

    assert group["sum"] == {"price": "999999990.00"}


def test_dates_are_grouped_by_their_units_in_the_current_time_zone(root: User):
    moments = ["2026-01-31T23:30:00", "2026-02-01T00:30:00", "2026-03-01T12:00:00"]
    for order, moment in zip(Order.objects.order_by("number"), moments, strict=False):
        Order.objects.filter(pk=order.pk).update(
            placed_at=datetime.fromisoformat(moment).replace(tzinfo=UTC)
        )
    Order.objects.filter(number__startswith="B").delete()
    client = MCPClient(serve(Orders), user=root)

    months = groups(client, "summarize_orders", group_by=["placed_at__month"])
    assert months == [("2026-01-01", 1), ("2026-02-01", 1), ("2026-03-01", 1)]
    with timezone.override("Europe/Berlin"):
        months = groups(client, "summarize_orders", group_by=["placed_at__month"])
    assert months == [("2026-02-01", 2), ("2026-03-01", 1)]
    days = groups(
        client, "summarize_orders", group_by=["placed_at__day"], ordering="-placed_at__day"
    )
    assert days[0] == ("2026-03-01", 1)
    weeks = groups(client, "summarize_orders", group_by=["placed_at__week"])
    assert weeks == [("2026-01-26", 2), ("2026-02-23", 1)]
    assert groups(client, "summarize_orders", group_by=["placed_at__year"]) == [("2026-01-01", 3)]


def test_relations_in_filters_and_searches_count_each_row_once(root: User):
    client = MCPClient(serve(Orders), user=root)

    assert read(client, "summarize_orders", search="Pot")["groups"] == [{"count": 5}]
    assert read(client, "summarize_orders", lines__product__sku="p-1")["groups"] == [{"count": 5}]
    admins = MCPClient(serve_admin(), user=root)
    assert read(admins, "summarize_orders", search="Pot")["groups"] == [{"count": 5}]


def test_groups_can_be_those_of_a_single_related_object(root: User):
    client = MCPClient(serve(Orders), user=root)

    found = groups(client, "summarize_orders", group_by=["customer__username", "status"])

    assert found == [
        ("ann", "placed", 1),
        ("ann", "shipped", 2),
        ("bob", "placed", 1),
        ("bob", "shipped", 1),
    ]


def test_the_first_groups_are_those_of_the_order():
    client = MCPClient(serve(Lines))

    found = read(
        client,
        "summarize_order_lines",
        group_by=["product"],
        sum=["quantity"],
        ordering="-sum__quantity",
        limit=1,
    )

    product = Product.objects.get(sku="p-1")
    assert found["groups"] == [
        {"group": {"product": product.pk}, "count": 5, "sum": {"quantity": 10}}
    ]
    assert found["total"] == 2
    assert found["note"].startswith("The first 1 of 2 groups.")


def test_ten_thousand_groups_are_cut_and_counted():
    Product.objects.bulk_create(
        Product(sku=f"many-{n}", name="Many", category="garden", price=1) for n in range(10_000)
    )
    client = MCPClient(serve(Products))

    with captured_queries() as queries:
        found = read(client, "summarize_products", group_by=["sku"])

    assert len(found["groups"]) == 200
    assert found["total"] == 10_002
    assert found["note"].startswith("The first 200 of 10002 groups.")
    assert len(queries) == 1


def test_the_note_of_a_summary_says_once_how_many_groups_there_are():
    Product.objects.bulk_create(
        Product(sku=f"many-{n}", name="Many", category="garden", price=1) for n in range(1000)
    )
    server = MCPServer("few-tokens", public=True, max_result_tokens=500)
    Products.register(server=server)

    found = read(MCPClient(server), "summarize_products", group_by=["sku"])

    assert 1 < len(found["groups"]) < 100
    assert found["note"].startswith(f"The first {len(found['groups'])} of 1002 groups.")
    assert found["note"].count("The first") == 1


def test_a_search_that_finds_nothing_says_where_it_looked(root: User):
    client = MCPClient(serve(Orders), user=root)

    found = read(client, "summarize_orders", search="zzz", group_by=["status"])

    assert (found["groups"], found["total"]) == ([], 0)
    assert found["note"].startswith("Nothing found.")


# -- values at the ends of what is stored


class Samples(ModelTools):
    model = Sample
    fields = ["code", "kind", "size", "weight", "ratio", "price", "moment", "day", "took"]
    everyone = True
    aggregates = True


@pytest.fixture
def samples() -> MCPClient:
    return MCPClient(serve(Samples))


def test_integers_of_all_sizes_are_added(samples: MCPClient):
    least, most = -(2**63), 2**63 - 1
    sizes = {"a": [most, most, 1], "b": [least, least, 5], "c": [most, 2], "d": [-3, 1]}
    for kind, weights in sizes.items():
        for number, weight in enumerate(weights):
            Sample.objects.create(code=f"{kind}{number}", kind=kind, weight=weight, size=weight % 3)

    found = read(
        samples,
        "summarize_samples",
        group_by=["kind"],
        sum=["weight", "size"],
        avg=["weight"],
        ordering="-sum__weight",
    )["groups"]

    sums = [(each["group"]["kind"], int(each["sum"]["weight"])) for each in found]
    assert sums == [
        ("a", 2 * most + 1),
        ("c", most + 2),
        ("d", -2),
        ("b", 2 * least + 5),
    ]
    ascending = groups(
        samples, "summarize_samples", group_by=["kind"], sum=["weight"], ordering="sum__weight"
    )
    assert [kind for kind, _count in ascending] == ["b", "d", "c", "a"]
    assert found[2]["avg"] == {"weight": -1.0}


def test_durations_of_all_lengths_are_added(samples: MCPClient):
    longest = timedelta(microseconds=2**63 - 1)
    for kind, durations in {
        "a": [longest, longest],
        "b": [timedelta(hours=2, microseconds=1), timedelta(days=-1)],
        "c": [longest] * 12,
    }.items():
        for number, took in enumerate(durations):
            Sample.objects.create(code=f"{kind}{number}", kind=kind, took=took)

    found = read(
        samples, "summarize_samples", group_by=["kind"], sum=["took"], avg=["took"], max=["took"]
    )["groups"]

    read_duration = TypeAdapter(timedelta).validate_python
    assert read_duration(found[0]["sum"]["took"]) == longest * 2
    assert read_duration(found[1]["sum"]["took"]) == timedelta(hours=-22, microseconds=1)
    assert read_duration(found[1]["avg"]["took"]) == timedelta(hours=-11)
    assert found[2]["sum"]["took"] == "P1281023894DT657.309684S"
    assert read_duration(found[2]["max"]["took"]) == longest


def test_floats_and_decimals_of_all_sizes_are_added(samples: MCPClient):
    for number, ratio in enumerate((1e308, 1e308, 1e308)):
        Sample.objects.create(code=f"a{number}", ratio=ratio, price=Decimal("999999.99"))
    for number, ratio in enumerate((0.25, -1.5, 1e-310)):
        Sample.objects.create(code=f"b{number}", kind="b", ratio=ratio)

    found = read(
        samples,
        "summarize_samples",
        group_by=["kind"],
        sum=["ratio", "price"],
        avg=["ratio"],
        max=["ratio"],
    )["groups"]

    assert found[0]["sum"] == {"ratio": None, "price": "2999999.97"}
    assert found[0]["max"] == {"ratio": 1e308}
    assert found[1]["sum"]["ratio"] == -1.25


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
def test_moments_at_the_edges_are_grouped(samples: MCPClient, zone: str):
    moments = {
        "first": datetime(1, 1, 1, 0, 30, tzinfo=UTC),
        "usual": datetime(2026, 2, 3, 12, tzinfo=UTC),
        "last": datetime(9999, 12, 31, 23, 30, tzinfo=UTC),
    }
    for code, moment in moments.items():
        Sample.objects.create(code=code, moment=moment, day=moment.date())
    Sample.objects.create(code="none")

    with timezone.override(zone):
        for unit in ("day", "week", "month", "year"):
            for column in ("moment", "day"):
                name = f"{column}__{unit}"
                found = groups(samples, "summarize_samples", group_by=[name])
                assert [number for _day, number in found] == [1, 1, 1, 1]
                days = [day and day[:4] for day, _number in found]
                assert days == ["0001", "2026", "9999", None]
        found = read(samples, "summarize_samples", min=["moment"], max=["moment", "day"])
    assert found["groups"][0]["max"]["day"] == "9999-12-31"


class MoneyField(models.DecimalField):
    """Has the path and the currency column of that of django-money."""

    __module__ = "djmoney.models.fields"


def test_amounts_of_several_currencies_are_not_added():
    with isolate_apps("example_project.shop"):

        class Priced(models.Model):
            sku = models.SlugField(unique=True)
            price = MoneyField(max_digits=8, decimal_places=2)
            price_currency = models.CharField(max_length=3, db_column="category")

            class Meta:
                app_label = "shop"
                managed = False
                db_table = "shop_product"

            def __str__(self) -> str:
                return self.sku

    class Prices(ModelTools):
        model = Priced
        fields = ["sku", "price"]
        everyone = True
        aggregates = True

    Product.objects.filter(sku="p-0").update(category="EUR", price="1.50")
    Product.objects.filter(sku="p-1").update(category="USD", price="2.25")
    client = MCPClient(serve(Prices))

    assert read(client, "summarize_priceds", sum=["price"], max=["price"])["groups"] == [
        {
            "group": {"price_currency": currency},
            "count": 1,
            "sum": {"price": amount},
            "max": {"price": amount},
        }
        for currency, amount in (("EUR", "1.50"), ("USD", "2.25"))
    ]
    assert read(client, "summarize_priceds")["groups"] == [{"count": 2}]
    assert "Choose from: sku." in refuse(client, "summarize_priceds", group_by=["price"])


# -- what is not told


@pytest.mark.parametrize(
    "name",
    [
        "total",
        "lines",
        "lines__quantity",
        "note",
        "customer",
        "customer__password",
        "password",
        "status__month",
        "number__regex",
        "customer__username__day",
    ],
)
def test_what_is_no_shown_column_is_unknown(root: User, name: str):
    client = MCPClient(serve(Orders), user=root)

    assert refuse(client, "summarize_orders", group_by=["status", name]) == (
        "/group_by/1: There is no such field. Choose from: number, status, placed_at, "
        "placed_at__day, placed_at__week, placed_at__month, placed_at__year, customer__username."
    )
    told = refuse(client, "summarize_orders", max=[name])
    assert told == "/max/0: There is no such field. Choose from: placed_at."
    assert "/ordering: There is no such field" in refuse(client, "summarize_orders", ordering=name)


def test_rows_are_not_grouped_by_long_texts(root: User):
    class Described(Products):
        fields = ["sku", "description"]

    client = MCPClient(serve(Described), user=root)

    told = refuse(client, "summarize_products", group_by=["description"])
    assert told == "/group_by/0: There is no such field. Choose from: sku."


def test_users_count_what_they_see():
    server = serve(Orders)
    ann, bob = User.objects.get(username="ann"), User.objects.get(username="bob")

    assert read(MCPClient(server, user=ann), "summarize_orders")["groups"] == [{"count": 3}]
    assert read(MCPClient(server, user=bob), "summarize_orders")["groups"] == [{"count": 2}]
    assert read(MCPClient(server), "summarize_orders")["groups"] == [{"count": 0}]


def test_hidden_related_objects_are_in_no_group(root: User):
    class Users(ModelTools):
        model = User
        fields = ["id", "username"]

        def get_queryset(self, user: Any) -> Any:
            return User.objects.filter(username="ann")

    class Customers(ModelTools):
        model = Order
        fields = ["number", "customer"]
        everyone = True
        aggregates = True

    server = serve(Orders, Users)
    Customers.register(server=server, prefix="all_")
    client = MCPClient(server, user=root)
    ann = User.objects.get(username="ann")

    found = groups(client, "summarize_orders", group_by=["customer__username"])
    assert found == [("ann", 3), (None, 2)]
    assert groups(client, "all_summarize_orders", group_by=["customer"]) == [(ann.pk, 3), (None, 2)]


def test_what_is_hidden_of_related_objects_is_not_added_up(root: User):
    class Parents(Orders):
        fields = ["number", "placed_at"]
        filters = []
        search = []

        def get_queryset(self, user: Any) -> Any:
            return Order.objects.filter(number="A-0")

    class Goods(Products):
        def get_queryset(self, user: Any) -> Any:
            return Product.objects.filter(sku="p-1")

    class Sold(Lines):
        fields = ["id", "quantity", "order__placed_at", "product__price"]

    client = MCPClient(serve(Parents, Goods, Sold), user=root)
    months = ["order__placed_at__month"]

    found = read(
        client,
        "summarize_order_lines",
        group_by=months,
        sum=["product__price", "quantity"],
        max=["order__placed_at"],
    )

    assert found["groups"] == [
        {
            "group": {"order__placed_at__month": "2026-01-01"},
            "count": 2,
            "sum": {"product__price": "1.00", "quantity": 3},
            "max": {"order__placed_at": "2026-01-01T12:00:00Z"},
        },
        {
            "group": {"order__placed_at__month": None},
            "count": 8,
            "sum": {"product__price": "4.00", "quantity": 12},
            "max": {"order__placed_at": None},
        },
    ]


def test_a_hidden_field_of_related_objects_is_unknown(root: User):
    class Users(ModelTools):
        model = User
        fields = ["id"]
        everyone = True

    client = MCPClient(serve(Orders, Users), user=root)

    told = refuse(client, "summarize_orders", group_by=["customer__username"])
    assert "customer" not in told.partition("Choose from")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"group_by": ["status"] * 501},
        {"sum": ["number"]},
        {"limit": 201},
        {"limit": -1},
        {"group_by": ["x" * 201]},
        {"cursor": "x"},
    ],
)
def test_wrong_arguments_are_refused(root: User, arguments: Any):
    client = MCPClient(serve(Orders), user=root)

    refuse(client, "summarize_orders", **arguments)


# -- whose tool it is


def test_there_is_no_tool_without_the_option(root: User):
    class Plain(Orders):
        aggregates = False

    assert "summarize_orders" not in names(MCPClient(serve(Plain), user=root))
    server = make_server()
    site = admin.AdminSite(f"summaries-{next(_numbers)}")
    site.register(Order, OrderAdmin)
    admin_tools(server=server, site=site, models=[Order])
    assert "summarize_orders" not in names(MCPClient(server, user=root))
    with pytest.raises(ImproperlyConfigured, match="summarize"):
        admin_tools(server=make_server(), site=site, models=[Order], exclude=["summarize"])


def names(client: MCPClient) -> list[str]:
    return sorted(tool["name"] for tool in client.list_tools())


def test_who_may_not_search_does_not_summarize(root: User):
    class Closed(Orders):
        def has_permission(self, user: Any, action: str) -> bool:
            return {"search": user.is_superuser, "get": True}[action]

    server = serve(Closed)
    ann = User.objects.get(username="ann")

    assert names(MCPClient(server, user=ann)) == ["get_order"]
    with pytest.raises(UnknownTool):
        MCPClient(server, user=ann).call("summarize_orders")
    assert read(MCPClient(server, user=root), "summarize_orders")["groups"] == [{"count": 5}]


def test_the_admin_decides_which_rows_and_columns_are_summarized(root: User, staff: User):
    server = serve_admin(OwnOrders)

    assert groups(MCPClient(server, user=root), "summarize_orders", group_by=["status"]) == [
        ("placed", 2),
        ("shipped", 3),
    ]
    client = MCPClient(server, user=staff)
    assert read(client, "summarize_orders")["groups"] == [{"count": 3}]
    assert refuse(client, "summarize_orders", group_by=["status"]) == (
        "/group_by/0: There is no such field. Choose from: id, number, customer, placed_at, "
        "placed_at__day, placed_at__week, placed_at__month, placed_at__year."
    )
    ann = User.objects.get(username="ann")
    assert groups(client, "summarize_orders", group_by=["customer"]) == [(ann.pk, 3)]
    assert names(MCPClient(server, user=ann)) == []
    client.assert_conforms()


def test_an_admin_that_decides_about_each_object_has_no_such_tool(root: User):
    server = serve_admin(JudgedOrders)

    assert "summarize_orders" not in names(MCPClient(server, user=root))
    assert "search_orders" in names(MCPClient(server, user=root))


def test_one_compact_tool_summarizes_all_models(root: User, calls: list[Any]):
    for server in (serve(Orders, style="compact"), serve_admin(style="compact")):
        client = MCPClient(server, user=root)
        assert "summarize_orders" not in names(client)

        found = read(
            client,
            "summarize_objects",
            model="shop.order",
            group_by=["status"],
            filters={"status": "placed"},
            ordering="-count",
        )

        assert found["groups"] == [{"group": {"status": "placed"}, "count": 2}]
        described = read(client, "describe_model", model="shop.order", action="summarize")
        told = described["actions"]["summarize"]
        assert told["tool"] == "summarize_objects"
        assert "status" in told["arguments"]["properties"]["group_by"]["description"]
        assert "status" in told["arguments"]["properties"]["filters"]["properties"]
        flush_calls()
        assert ("summarize_orders", "done") in calls
        calls.clear()


def test_an_action_of_the_admin_may_have_the_name(root: User):
    class Summarized(OrderAdmin):
        actions = ["summarize"]

        @admin.action(description="Summarize")
        def summarize(self, request: Any, queryset: Any) -> None:
            self.message_user(request, f"{len(queryset)} orders")

    site = admin.AdminSite(f"summaries-{next(_numbers)}")
    site.register(Order, Summarized)
    server = make_server()
    admin_tools(server=server, site=site, models=[Order], style="compact")
    client = MCPClient(server, user=root)
    order = Order.objects.get(number="A-0")

    done = read(client, "run_action", model="shop.order", action="summarize", ids=[order.pk])

    assert done["messages"] == [{"level": "info", "text": "1 orders"}]
    assert "summarize_objects" not in names(client)
