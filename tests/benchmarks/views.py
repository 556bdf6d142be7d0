"""Compare the tools of REST views and of Ninja's operations with these: `python -m tests.benchmarks.views`.

Each tool's handler is compared with the view called directly, on SQLite in memory; see `tests.benchmarks.pairs`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ["SHOP_DATABASE"] = ":memory:"
os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"

import django

from tests.benchmarks.pairs import Pairs, main

LINES = 3
ORDERS = 50

Handler = Callable[[], Any]


def make_pairs() -> Pairs:
    """Return the tool's handler of each view or operation, and the view."""
    django.setup()
    pairs = {name: (tool, view) for name, tool, view in cases()}
    for name, (tool, view) in pairs.items():
        assert_equal(tool(), view(), name)
    return pairs


def assert_equal(tool: Any, view: Any, name: str) -> None:
    """Fail if the two do not have the same result."""
    if tool != view:
        raise SystemExit(f"{name}: {tool} is not {view}")


def cases() -> list[tuple[str, Handler, Handler]]:
    """Return the name of each case, the tool's handler, and the view."""
    user = fill()
    ctx = SimpleNamespace(user=user, auth=None, request=None)
    return [*of_views(ctx), *of_operations(ctx)]


def fill() -> Any:
    """Make the tables and some orders, and return their customer."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.utils import timezone

    from example_project.shop.models import Order, OrderLine, Product

    call_command("migrate", verbosity=0)
    user = User.objects.create_user("ada")
    products = [
        Product.objects.create(sku=f"p{each}", name=f"P{each}", category="kitchen", price="3.50")
        for each in range(LINES)
    ]
    for number in range(ORDERS):
        order = Order.objects.create(
            number=f"2026-{number:04}", customer=user, placed_at=timezone.now()
        )
        for product in products:
            OrderLine.objects.create(order=order, product=product, quantity=1, unit_price="3.50")
    return user


def handlers(server: Any, ctx: Any, calls: dict[str, dict[str, Any]]) -> dict[str, Handler]:
    """Return the handlers of a server's tools by name, to be called with these arguments."""
    entries = server.registry.tools

    def bind(name: str, arguments: dict[str, Any]) -> Handler:
        run = entries[name].handler.function._run
        return lambda: run(ctx, arguments)

    return {name: bind(name, arguments) for name, arguments in calls.items()}


def of_views(ctx: Any) -> list[tuple[str, Handler, Handler]]:
    from rest_framework import serializers, viewsets
    from rest_framework.test import APIRequestFactory

    from django_mcp import MCPServer
    from django_mcp.contrib.drf import viewset_tools
    from example_project.shop.models import Order

    class OrderSerializer(serializers.ModelSerializer[Any]):
        class Meta:
            model = Order
            fields = ("number", "status", "placed_at")

    class OrderViewSet(viewsets.ModelViewSet[Any]):
        queryset = Order.objects.order_by("number")
        serializer_class = OrderSerializer
        lookup_field = "number"
        authentication_classes = ()

    server = MCPServer("views", public=True)
    viewset_tools(OrderViewSet, server=server, prefix="orders")
    changed = {"status": "shipped"}
    new = {"number": "new", "status": "placed", "placed_at": "2026-01-01T00:00:00Z"}
    calls = {
        "orders_retrieve": {"number": "2026-0001"},
        "orders_list": {},
        "orders_create": new,
        "orders_partial_update": {"number": "2026-0001", **changed},
    }
    found = handlers(server, ctx, calls)
    create_view = OrderViewSet.as_view({"post": "create"})
    update_view = OrderViewSet.as_view({"patch": "partial_update"})
    retrieve_view = OrderViewSet.as_view({"get": "retrieve"})
    list_view = OrderViewSet.as_view({"get": "list"})
    factory = APIRequestFactory()

    def retrieve() -> Any:
        return retrieve_view(factory.get("/"), number="2026-0001").data

    def list_all() -> Any:
        return list_view(factory.get("/")).data

    def create_by(run: Handler) -> Any:
        created = run()
        Order.objects.filter(number="new").delete()
        return created

    def create() -> Any:
        return create_view(factory.post("/", new, format="json")).data

    def update() -> Any:
        return update_view(factory.patch("/", changed, format="json"), number="2026-0001").data

    return [
        ("DRF, create", lambda: create_by(found["orders_create"]), lambda: create_by(create)),
        ("DRF, update", found["orders_partial_update"], update),
        ("DRF, retrieve", found["orders_retrieve"], retrieve),
        ("DRF, list 50", lambda: next(iter(found["orders_list"]().values())), list_all),
    ]


def of_operations(ctx: Any) -> list[tuple[str, Handler, Handler]]:
    from django.test import RequestFactory
    from ninja import NinjaAPI

    from django_mcp import MCPServer
    from django_mcp.contrib.ninja import operation_tools
    from example_project.shop.models import Order
    from tests.benchmarks.operations import router

    api = NinjaAPI(urls_namespace="measured")
    api.add_router("", router)
    server = MCPServer("operations", public=True)
    operation_tools(api, server=server)
    found = handlers(
        server,
        ctx,
        {
            "get_order": {"number": "2026-0001"},
            "list_orders": {},
            "create_order": {"note": "ring", "status": "placed"},
            "update_order": {"number": "2026-0001", "note": "ring"},
        },
    )
    views = {
        operation.view_func.__name__: path_view.get_view()
        for bound in api._get_bound_routers()
        for path_view in bound.path_operations.values()
        for operation in path_view.operations
    }
    factory = RequestFactory()

    def call(name: str, method: str = "get", data: Any = None, **kwargs: Any) -> Any:
        make = getattr(factory, method)
        request = make("/") if data is None else make("/", data, content_type="application/json")
        request.user = ctx.user
        result = json.loads(views[name](request, **kwargs).content)
        return {"results": result} if isinstance(result, list) else result

    def create(run: Handler) -> Any:
        created = run()
        # Else the lists grow.
        Order.objects.filter(number=created["number"]).delete()
        return created["note"]

    new, changed = {"note": "ring", "status": "placed"}, {"note": "ring"}
    return [
        ("Ninja, get", found["get_order"], lambda: call("get_order", number="2026-0001")),
        ("Ninja, list 50", found["list_orders"], lambda: call("list_orders")),
        (
            "Ninja, create",
            lambda: create(found["create_order"]),
            lambda: create(lambda: call("create_order", "post", new)),
        ),
        (
            "Ninja, update",
            found["update_order"],
            lambda: call("update_order", "patch", changed, number="2026-0001"),
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(make_pairs, "tests.benchmarks.views"))
