"""Actions that ask before they act, and forms that cannot be described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import path, reverse

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


def test_an_action_that_goes_on_with_its_own_page_is_not_done(
    make_client: Any,
    root: User,
    site: admin.AdminSite,
    orders: list[Order],
    caplog: pytest.LogCaptureFixture,
):
    class Confirming(Orders):
        actions = ["cancel"]

        def cancel(self, request: Any, queryset: Any) -> Any:
            request.session["ids"] = [order.pk for order in queryset]
            return HttpResponseRedirect("/admin/shop/order/confirm/")

    replace(site, Order, Confirming)
    client = make_client(root, Order)

    found = [client.call("cancel_orders", ids=[orders[0].pk]).structured for _ in range(2)]

    for each in found:
        assert each["done"] is False
        assert each["redirect_url"] == "/admin/shop/order/confirm/"
        (message,) = each["messages"]
        assert message["level"] == "warning"
        assert "may have done nothing yet" in message["text"]
    assert caplog.text.count("The action cancel of ") == 1
    assert "Confirming redirects to another page" in caplog.text


class Returning(Orders):
    actions = ["cancel"]
    target: Any = None

    def cancel(self, request: Any, queryset: Any) -> Any:
        queryset.update(status="cancelled")
        # Not HttpResponseRedirect, which refuses what is no URL.
        return HttpResponse(status=302, headers={"Location": self.target(request)})


@pytest.mark.parametrize(
    ("target", "is_done"),
    [
        (lambda request: request.get_full_path(), True),
        (lambda request: f"{request.path}?status=cancelled", True),
        (lambda request: request.build_absolute_uri(), True),
        (lambda request: ".", True),
        (lambda request: "", True),
        (lambda request: "?q=1", True),
        (lambda request: "..", False),
        (lambda request: "confirm/", False),
        (lambda request: f"https://pay.example{request.path}", False),
        (lambda request: "https://[", False),
    ],
)
def test_an_action_that_returns_to_the_list_is_done(
    make_client: Any,
    root: User,
    site: admin.AdminSite,
    orders: list[Order],
    settings: Any,
    target: Callable[[Any], str],
    is_done: bool,
):
    class Urls:
        urlpatterns = [path("backstage/", site.urls)]

    class Here(Returning):
        pass

    settings.ROOT_URLCONF = Urls
    Here.target = staticmethod(target)
    replace(site, Order, Here)

    found = make_client(root, Order).call("cancel_orders", ids=[orders[0].pk]).structured

    assert found["done"] is is_done
    assert len(found["messages"]) == (not is_done)


def test_an_action_of_an_admin_without_urls_returns_to_where_it_came_from(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Here(Returning):
        @staticmethod
        def target(request: Any) -> str:
            return str(request.get_full_path())

    replace(site, Order, Here)

    found = make_client(root, Order).call("cancel_orders", ids=[orders[0].pk]).structured

    assert found["done"] is True


def test_an_action_that_returns_to_the_list_of_another_site_is_done(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order], settings: Any
):
    # `admin:` leads to the site of that name, as authors of actions write it.
    usual = admin.AdminSite("admin")
    usual.register(Order)

    class Urls:
        urlpatterns = [path("admin/", usual.urls), path("backstage/", site.urls)]

    class Usual(Returning):
        @staticmethod
        def target(request: Any) -> str:
            return reverse("admin:shop_order_changelist")

    settings.ROOT_URLCONF = Urls
    replace(site, Order, Usual)

    found = make_client(root, Order).call("cancel_orders", ids=[orders[0].pk]).structured

    assert (found["done"], found["redirect_url"]) == (True, "/admin/shop/order/")


@pytest.mark.parametrize(
    ("level", "is_done"),
    [(messages.SUCCESS, True), (messages.INFO, False), (messages.ERROR, False)],
)
def test_a_message_of_success_says_that_an_action_is_done(
    make_client: Any,
    root: User,
    site: admin.AdminSite,
    orders: list[Order],
    level: int,
    is_done: bool,
):
    class Copying(Orders):
        actions = ["copy"]

        def copy(self, request: Any, queryset: Any) -> Any:
            self.message_user(request, "Look at the copy.", level)
            return HttpResponseRedirect("/admin/shop/order/7/change/")

    replace(site, Order, Copying)

    found = make_client(root, Order).call("copy_orders", ids=[orders[0].pk]).structured

    assert found["done"] is is_done
    assert found["messages"][0]["text"] == "Look at the copy."


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
    told = [each.msg for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert any("'create' of" in each and "KeyError" in each for each in told)


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
