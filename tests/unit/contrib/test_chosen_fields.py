"""The argument `fields` chooses among the fields that the caller sees, and reads no others."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine
from tests.support.calls import read, refuse
from tests.support.queries import captured_queries
from tests.unit.contrib.modeladmin.conftest import orders  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders")]

_numbers = count()


class Orders(ModelTools):
    model = Order
    fields = [
        "number",
        "status",
        "note",
        "placed_at",
        "customer__username",
        "lines__quantity",
        "total",
    ]
    filters = ["status"]
    ordering = ["number"]
    sortable_by = ["customer__username", "placed_at"]
    prefetch_related = ["lines"]
    everyone = True


class LineInline(admin.TabularInline):
    model = OrderLine


class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "status", "count_lines"]
    list_filter = ["status"]
    fields = ["number", "customer", "status", "note", "placed_at"]
    ordering = ["number"]
    inlines = [LineInline]

    def get_list_display(self, request: Any) -> Any:
        names = super().get_list_display(request)
        return names if request.user.is_superuser else [n for n in names if n != "status"]

    @admin.display(description="Number of lines")
    def count_lines(self, order: Order) -> int:
        return order.lines.count()


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="secret-of-root")


def serve(style: str = "single") -> MCPServer:
    server = MCPServer(
        f"fields-{next(_numbers)}", public=True, output_schemas="full", validate_output=True
    )
    Orders.register(server=server, style=style)
    return server


def serve_admin(style: str = "single") -> MCPServer:
    site = admin.AdminSite(f"fields-{next(_numbers)}")
    site.register(Order, OrderAdmin)
    server = MCPServer(
        f"fields-{next(_numbers)}", public=True, output_schemas="full", validate_output=True
    )
    admin_tools(server=server, site=site, models=[Order], style=style)
    return server


def test_rows_have_the_chosen_fields_and_their_key():
    client = MCPClient(serve())

    found = read(client, "search_orders", fields=["lines", "status"], limit=1)

    assert found["results"] == [
        {"number": "A-0", "status": "shipped", "lines": [{"quantity": 1}, {"quantity": 2}]}
    ]
    assert read(client, "get_order", number="A-1", fields=["note"]) == {"number": "A-1", "note": ""}
    client.assert_conforms()


def test_fields_that_are_not_chosen_are_not_read():
    client = MCPClient(serve())
    read(client, "search_orders")

    with captured_queries() as queries:
        read(client, "search_orders", fields=["status"], ordering="-customer__username", limit=2)
    assert len(queries) == 1
    assert '"note"' not in queries[0]
    assert '"placed_at"' not in queries[0]

    with captured_queries() as queries:
        read(client, "get_order", number="A-0", fields=["status"])
    assert len(queries) == 1
    assert "shop_orderline" not in queries[0]

    with captured_queries() as queries:
        read(client, "search_orders", fields=["total"])
    assert len(queries) == 2


def test_pages_go_on_in_the_order_of_a_field_that_is_not_chosen():
    client = MCPClient(serve())
    numbers, arguments = [], {"ordering": "-customer__username", "limit": 2}

    while True:
        page = read(client, "search_orders", fields=["status"], **arguments)
        numbers += [each["number"] for each in page["results"]]
        if page["next_cursor"] is None:
            break
        arguments["cursor"] = page["next_cursor"]

    assert numbers == ["B-4", "B-3", "A-2", "A-1", "A-0"]


@pytest.mark.parametrize("name", ["password", "customer__password", "customer__username", "lots"])
def test_what_is_hidden_or_unknown_is_told_alike(name: str):
    client = MCPClient(serve())

    for arguments in ({"tool": "search_orders"}, {"tool": "get_order", "number": "A-0"}):
        assert refuse(client, **arguments, fields=["status", name]) == (
            "/fields/1: There is no such field. Choose from: number, status, note, placed_at, "
            "customer, lines, total."
        )


@pytest.mark.parametrize("fields", [[], "status", ["status"] * 501, ["x" * 201], [None]])
def test_lists_that_are_none_are_refused(fields: Any):
    client = MCPClient(serve())

    assert "fields" in refuse(client, "search_orders", fields=fields)


def test_columns_of_the_admin_are_chosen_by_their_names(root: User):
    client = MCPClient(serve_admin(), user=root)

    found = read(client, "search_orders", fields=["status", "count_lines"], limit=2)
    assert [sorted(each) for each in found["results"]] == [["count_lines", "id", "status"]] * 2
    order = Order.objects.get(number="A-0")
    shown = read(client, "get_order", id=order.pk, fields=["lines", "note"])
    assert shown["note"] == "ring"
    assert sorted(shown) == ["id", "lines", "note"]
    assert [each["quantity"] for each in shown["lines"]] == [1, 2]
    assert read(client, "get_order", id=order.pk, fields=["number"]) == {
        "id": order.pk,
        "number": "A-0",
    }
    client.assert_conforms()


def test_columns_of_the_admin_that_are_not_chosen_are_not_read(root: User):
    client = MCPClient(serve_admin(), user=root)
    order = Order.objects.get(number="A-0")
    read(client, "search_orders")

    with captured_queries() as queries:
        read(client, "search_orders", fields=["number"], limit=2)
    assert not [sql for sql in queries if "shop_orderline" in sql]
    assert not [sql for sql in queries if "auth_user" in sql and "JOIN" in sql]

    with captured_queries() as queries:
        read(client, "get_order", id=order.pk, fields=["number"])
    assert not [sql for sql in queries if "shop_orderline" in sql]


def test_a_column_that_the_user_does_not_have_is_unknown(root: User):
    server = serve_admin()
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.add(*_permissions("view_order"))
    client = MCPClient(server, user=staff)

    assert refuse(client, "search_orders", fields=["status"]) == (
        "/fields/0: There is no such field. Choose from: id, number, customer, count_lines."
    )
    order = Order.objects.get(number="A-0")
    assert refuse(client, "get_order", id=order.pk, fields=["lines"]) == (
        "/fields/0: There is no such field. Choose from: "
        "id, number, customer, status, note, placed_at."
    )
    assert "lines" in read(MCPClient(server, user=root), "get_order", id=order.pk, fields=["lines"])


def _permissions(*names: str) -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.filter(codename__in=names)


def test_compact_tools_take_fields_as_well(root: User):
    for server in (serve("compact"), serve_admin("compact")):
        client = MCPClient(server, user=root)

        (row,) = read(client, "search_objects", model="shop.order", fields=["status"], limit=1)[
            "results"
        ]
        assert row["status"] == "shipped"
        assert len(row) == 2
        key = row.get("number") or row["id"]
        one = read(client, "get_object", model="shop.order", id=key, fields=["note"])
        assert (len(one), one["note"]) == (2, "ring")
        assert "There is no such field" in refuse(
            client, "search_objects", model="shop.order", fields=["password"]
        )
        described = read(client, "describe_model", model="shop.order", action="search")
        assert "fields" in described["actions"]["search"]["arguments"]["properties"]


class FieldsFilter(admin.SimpleListFilter):
    title = "fields"
    parameter_name = "fields"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("placed", "Placed")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset.filter(status="placed") if self.value() else queryset


def test_a_filter_of_that_name_keeps_it(root: User):
    site = admin.AdminSite(f"fields-{next(_numbers)}")
    site.register(Order, type("Filtered", (OrderAdmin,), {"list_filter": [FieldsFilter]}))
    server = MCPServer(f"fields-{next(_numbers)}", public=True)
    admin_tools(server=server, site=site, models=[Order])

    found = read(
        MCPClient(server, user=root), "search_orders", fields="placed", row_fields=["number"]
    )

    assert [each["number"] for each in found["results"]] == ["A-1", "B-3"]
    assert [len(each) for each in found["results"]] == [2, 2]
