"""The CPU time of the tools of a model, and of its admin, against the same handlers written by hand.

    python -m tests.benchmarks.model_tools

`tests.benchmarks.views` does the same for views of Django REST framework and operations of Django Ninja. Both run the
handlers alone, without the protocol, on SQLite in memory; `tests.benchmarks.pairs` says how they measure. Calls of
compact tools are whole, and are measured against those of the tools that they stand for.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import django

from tests.benchmarks.pairs import Pairs, main

ORDERS = 50
LIMIT = 20


def make_pairs() -> Pairs:
    """Return the handler of each tool, and the one by hand."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0)
    handlers = _handlers()
    return {**handlers, **_writing_handlers(), **_admin_handlers()}


def _handlers() -> Pairs:
    from django.contrib.auth.models import User
    from django.db.models import Prefetch

    from django_mcp import MCPServer
    from example_project.shop.models import Order, OrderLine, Product
    from tests.unit.contrib.models.conftest import START, Orders

    user = User.objects.create_user("ann")
    products = [
        Product.objects.create(sku=f"p-{n}", name=f"Pot {n}", category="kitchen", price=1)
        for n in range(2)
    ]
    for n in range(ORDERS):
        order = Order.objects.create(number=f"A-{n:03}", customer=user, placed_at=START)
        for product in products:
            order.lines.create(product=product, quantity=1, unit_price=1)

    lines = OrderLine.objects.select_related("product").order_by("pk")
    lines = lines.only("order", "quantity", "product__sku")

    def rows() -> Any:
        found = Order.objects.visible_to(user).select_related("customer")
        return found.only("number", "status", "placed_at", "customer__username")

    def show(order: Any) -> dict[str, Any]:
        return {
            "number": order.number,
            "status": order.status,
            "placed_at": order.placed_at,
            "customer": {"username": order.customer.username} if order.customer else None,
            "lines": [
                {"quantity": line.quantity, "product": {"sku": line.product.sku}}
                for line in order.shown_lines
            ],
        }

    def get() -> Any:
        order = rows().get(number="A-000")
        order.shown_lines = list(lines.filter(order=order)[:101])
        return show(order)

    def search(*, is_cut: bool = True) -> Any:
        shown = lines[:101] if is_cut else lines
        page = rows().prefetch_related(Prefetch("lines", shown, to_attr="shown_lines"))
        return [show(order) for order in page.order_by("number")[: LIMIT + 1]][:LIMIT]

    reading, ctx = Orders.register(server=MCPServer("measured")).reading, SimpleNamespace(user=user)
    context: Any = ctx
    assert reading.get(context, {"number": "A-000"}) == get()
    assert reading.search(context, {"limit": LIMIT})["results"] == search()

    def get_by_tool() -> Any:
        return reading.get(context, {"number": "A-000"})

    def search_by_tool() -> Any:
        return reading.search(context, {"limit": LIMIT})

    return {
        "get": (get_by_tool, get),
        "search": (search_by_tool, search),
        "search, by hand with all lines": (search_by_tool, partial(search, is_cut=False)),
    }


def _writing_handlers() -> Pairs:
    """Return handlers that add and change orders, by a form of the same fields and with a line of the history."""
    from itertools import count

    from django import forms
    from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
    from django.contrib.admin.utils import construct_change_message
    from django.contrib.auth.models import User
    from django.db import transaction

    from django_mcp import MCPServer
    from django_mcp.contrib.models import ModelTools
    from example_project.shop.models import Order

    user, names = User.objects.create_user("writer"), ["number", "status", "note", "placed_at"]

    class Written(ModelTools):
        model = Order
        fields = names
        writes = ["create", "update"]
        writable = names
        uri = ""

        def has_permission(self, user: Any, action: str) -> bool:
            return True

        def get_queryset(self, user: Any) -> Any:
            return Order.objects.all()

    server, context = (
        MCPServer("written"),
        SimpleNamespace(user=user, request=None, is_cancelled=False),
    )
    Written.register(server=server)
    functions: dict[str, Any] = {
        name: tool.handler.function for name, tool in server.registry.tools.items()
    }
    run = {name: function._run for name, function in functions.items()}
    form_class: Any = forms.modelform_factory(Order, fields=names)
    numbers = (f"N-{number}" for number in count())

    def save(form: Any, flag: int) -> dict[str, Any]:
        assert form.is_valid(), form.errors
        with transaction.atomic():
            order = form.save()
        message: Any = construct_change_message(form, [], flag == ADDITION)
        LogEntry.objects.log_actions(
            user.pk, [order], action_flag=flag, change_message=message, single_object=True
        )
        row = Order.objects.only(*names).get(pk=order.pk)
        return {name: getattr(row, name) for name in names}

    def new() -> dict[str, Any]:
        return {"number": next(numbers), "status": "placed", "placed_at": "2026-01-01T00:00:00Z"}

    def create() -> Any:
        with transaction.atomic():
            return save(form_class(new()), ADDITION)

    def update() -> Any:
        with transaction.atomic():
            order = Order.objects.select_for_update().get(number="A-000")
            given = {**forms.model_to_dict(order, names), "note": "ring"}
            return save(form_class(given, instance=order), CHANGE)

    def create_by_tool() -> Any:
        return run["create_order"](context, new())

    def update_by_tool() -> Any:
        return run["update_order"](context, {"number": "A-000", "note": "ring"})

    assert update_by_tool() == update()
    assert create_by_tool().keys() == create().keys()
    return {"create": (create_by_tool, create), "update": (update_by_tool, update)}


def _admin_handlers() -> Pairs:
    """Return handlers of the admin's tools for the same orders, which a clerk may view and change."""
    from django.contrib import admin
    from django.contrib.admin.utils import construct_change_message
    from django.contrib.auth.models import Permission, User
    from django.db import transaction
    from django.forms import model_to_dict
    from django.http import HttpRequest

    from django_mcp import MCPServer
    from django_mcp.contrib.modeladmin import admin_tools
    from example_project.shop.models import Order

    clerk = User.objects.create_user("clerk", is_staff=True)
    kinds = ["view_order", "change_order", "view_user"]
    clerk.user_permissions.set(Permission.objects.filter(codename__in=kinds))

    class OrderAdmin(admin.ModelAdmin):
        list_display = ["number", "customer", "status", "placed_at"]
        list_filter = ["status"]
        fields = ["number", "customer", "status", "note", "placed_at"]
        ordering = ["number"]

    site = admin.AdminSite("measured")
    site.register(Order, OrderAdmin)
    site.register(User)
    rules, users = site.get_model_admin(Order), site.get_model_admin(User)
    tools = {
        tool.name: tool
        for tool in admin_tools(server=MCPServer("admin"), site=site, models=[Order])
    }
    context: Any = SimpleNamespace(user=clerk, request=None, is_cancelled=False)

    def make_request() -> HttpRequest:
        request = HttpRequest()
        request.user = clerk
        asked = (
            site.has_permission,
            rules.has_module_permission,
            rules.has_view_or_change_permission,
        )
        if not all(ask(request) for ask in asked):
            raise Order.DoesNotExist
        return request

    def show(request: HttpRequest, order: Any, names: Any) -> dict[str, Any]:
        customer = order.customer
        if customer is not None:
            text = str(customer) if users.has_view_or_change_permission(request) else None
            customer = {"pk": customer.pk, "text": text}
        found = {"id": order.pk}
        return {**found, **{n: customer if n == "customer" else getattr(order, n) for n in names}}

    def get() -> Any:
        request = make_request()
        order = rules.get_queryset(request).select_related("customer").get(number="A-000")
        if not rules.has_view_or_change_permission(request, order):
            raise Order.DoesNotExist
        return show(request, order, rules.fields)

    def search() -> Any:
        request = make_request()
        rows = rules.get_queryset(request).select_related("customer").filter(status="placed")
        found = rows.order_by("number")[: LIMIT + 1]
        return [show(request, each, rules.list_display) for each in found][:LIMIT]

    def change() -> Any:
        request = make_request()
        order = rules.get_queryset(request).select_for_update().get(number="A-000")
        if not rules.has_change_permission(request, order):
            raise Order.DoesNotExist
        with transaction.atomic():
            day, moment = order.placed_at.date(), order.placed_at.time()
            data = {**model_to_dict(order), "placed_at_0": day, "placed_at_1": moment}
            data["note"] = "ring"
            form: Any = rules.get_form(request, order, change=True)(data, instance=order)
            assert form.is_valid()
            rules.save_model(request, form.save(commit=False), form, True)
            form.save_m2m()
            message: Any = construct_change_message(form, [], False)
            rules.log_change(request, order, message)
        return get()

    key = Order.objects.get(number="A-000").pk
    functions: dict[str, Any] = {name: tool.handler.function for name, tool in tools.items()}
    run = {name: function._run for name, function in functions.items()}
    arguments = {"limit": LIMIT, "status": "placed"}
    assert run["get_order"](context, {"id": key}) == get()
    assert run["search_orders"](context, arguments)["results"] == search()
    assert run["update_order"](context, {"id": key, "note": "ring"}) == change()
    return {
        **_compact_handlers(site, clerk, Order, {"id": key}, arguments),
        "admin: get": (lambda: run["get_order"](context, {"id": key}), get),
        "admin: search": (lambda: run["search_orders"](context, arguments), search),
        "admin: update": (
            lambda: run["update_order"](context, {"id": key, "note": "ring"}),
            change,
        ),
    }


def _compact_handlers(site: Any, user: Any, model: Any, key: Any, found: dict[str, Any]) -> Pairs:
    """Return whole calls of the compact tools, and of the tools of the model that they stand for."""
    from django_mcp import MCPServer
    from django_mcp.contrib.modeladmin import admin_tools

    server = MCPServer("compact")
    admin_tools(server=server, site=site, models=[model], style="compact")

    def call(name: str, arguments: dict[str, Any]) -> Any:
        return server.call_tool(name, arguments, user=user).raw

    def pair(action: str, compact: dict[str, Any], name: str, single: dict[str, Any]) -> Any:
        arguments = {"model": "shop.order", **compact}
        results = (call(action, arguments), call(name, single))
        # Cursors have the second in which they were made.
        first, second = (raw["structuredContent"].get("results", raw) for raw in results)
        assert first == second
        return partial(call, action, arguments), partial(call, name, single)

    values = {"note": "ring"}
    filters = {name: value for name, value in found.items() if name != "limit"}
    search = {"limit": found["limit"], "filters": filters}
    update = {**key, "values": values}
    return {
        "compact: get": pair("get_object", key, "get_order", key),
        "compact: search": pair("search_objects", search, "search_orders", found),
        "compact: update": pair("update_object", update, "update_order", {**key, **values}),
    }


if __name__ == "__main__":
    sys.exit(main(make_pairs, "tests.benchmarks.model_tools"))
