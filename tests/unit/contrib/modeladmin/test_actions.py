"""Actions that ask before they act, and forms that cannot be described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.http import HttpResponse
from django.urls import path

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from example_project.shop.models import Order, OrderLine
from tests.unit.contrib.modeladmin.conftest import Orders

pytestmark = pytest.mark.django_db

REFUSED = "The action answers with a page or a file"


def replace(site: admin.AdminSite, model: Any, cls: Any) -> None:
    site.unregister(model)
    site.register(model, cls)


def test_an_action_with_a_confirmation_page_does_not_run(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Asking(Orders):
        actions = ["cancel"]

        def cancel(self, request: Any, queryset: Any) -> Any:
            if request.POST.get("post"):
                queryset.update(status="cancelled")
                return None
            return HttpResponse("Are you sure?")

    replace(site, Order, Asking)

    found = make_client(root, Order).call("cancel_orders", ids=[orders[0].pk])

    assert found.is_error
    assert found.text.startswith(REFUSED)
    assert not Order.objects.filter(status="cancelled").exists()


def test_a_custom_delete_action_requires_confirmation(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order], settings: Any
):
    class Urls:
        urlpatterns = [path("admin/", site.urls)]

    class Wrapping(Orders):
        actions = ["delete_selected"]

        @admin.action(permissions=["delete"])
        def delete_selected(self, request: Any, queryset: Any) -> Any:
            return delete_selected(self, request, queryset)

    settings.ROOT_URLCONF = Urls
    replace(site, Order, Wrapping)
    client = make_client(root, Order, capabilities={})

    found = client.call("delete_selected_orders", ids=[orders[0].pk])

    assert found.is_error
    assert found.text.startswith(REFUSED)
    assert Order.objects.count() == 5
    assert not LogEntry.objects.exists()


def test_changes_before_an_actions_page_are_rolled_back(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Hasty(Orders):
        actions = ["cancel"]

        def cancel(self, request: Any, queryset: Any) -> Any:
            queryset.update(status="cancelled")
            return HttpResponse("<p>Done</p>")

    replace(site, Order, Hasty)

    assert make_client(root, Order).call("cancel_orders", ids=[orders[0].pk]).is_error
    assert not Order.objects.filter(status="cancelled").exists()


def test_an_action_accepts_only_objects_the_user_may_view(
    make_client: Any, make_staff: Callable[..., User], site: admin.AdminSite, orders: list[Order]
):
    class Closed(Orders):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number != "B-3"

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number != "B-3"

    replace(site, Order, Closed)
    client = make_client(make_staff("staff", "shop.view_order", "shop.change_order"), Order)

    found = client.call("ship_orders", ids=[orders[1].pk, orders[3].pk])

    assert found.is_error
    assert "/ids/1" in found.text
    for key in (-1, 10**40):
        assert "/ids/0: Not found." in client.call("ship_orders", ids=[key, orders[1].pk]).text
    assert Order.objects.filter(status="placed").count() == 2


def test_a_form_without_a_schema_has_no_tool(server: MCPServer, site: admin.AdminSite):
    class Remembering(Orders):
        def get_form(
            self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any
        ) -> Any:
            if obj is None:
                request.session["last"]
            return super().get_form(request, obj, change, **kwargs)

    replace(site, Order, Remembering)

    found = admin_tools(server=server, site=site, models=[Order], actions=False)

    assert [entry.name for entry in found] == [
        "search_orders",
        "get_order",
        "update_order",
        "delete_order",
    ]
    messages = [each.msg for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert any("'create' of" in each and "KeyError" in each for each in messages)


def test_concurrently_saved_objects_are_not_overwritten(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Lines(admin.ModelAdmin):
        fields = ["order", "product", "quantity", "unit_price"]
        readonly_fields = ["unit_price"]

    site.register(OrderLine, Lines)
    client = make_client(root, OrderLine)
    line = orders[0].lines.all()[0]

    changed = client.call("update_order_line", id=line.pk, quantity=7)

    assert changed.structured["quantity"] == 7
    line.refresh_from_db()
    assert (line.quantity, line.order_id) == (7, orders[0].pk)
    told = client.call("update_order_line", id=line.pk, unit_price="0").text
    assert "/unit_price" in told
    assert "/quantity" in client.call("update_order_line", id=line.pk, quantity=-1).text
    taken = client.call(
        "update_order_line", id=line.pk, product=orders[0].lines.all()[1].product_id
    )
    assert taken.is_error
    assert "already exists" in taken.text
