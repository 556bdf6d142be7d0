"""Compare the tools of Django REST framework views with the views: `python -m tests.benchmarks.views`.

Processor time of a tool's handler and of `as_view()` called directly, on SQLite in memory. Both take
turns, batch by small batch; the table tells the median of the ratios of neighbours, and their quartiles.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ["SHOP_DATABASE"] = ":memory:"
os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"

import django

BATCHES = 60
CALLS = 10
LINES = 3
ORDERS = 50

Handler = Callable[[], Any]


def main() -> None:
    django.setup()
    for name, tool, view in cases():
        assert_equal(tool(), view(), name)
        ratios, costs = compare(tool, view)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:24} {statistics.median(costs) * 1e6 / CALLS:8.0f} us   "
            f"{middle:.2f} times the view ({low:.2f} to {high:.2f})"
        )


def assert_equal(tool: Any, view: Any, name: str) -> None:
    """Fail if the two do not have the same result."""
    if tool != view:
        raise SystemExit(f"{name}: {tool} is not {view}")


def compare(first: Handler, second: Handler) -> tuple[list[float], list[float]]:
    """Return the ratios of neighbouring batches, and what the first one's batches took in seconds."""
    ratios, costs = [], []
    for _ in range(BATCHES):
        one, other = measure(first), measure(second)
        ratios.append(one / other)
        costs.append(one)
    return ratios, costs


def measure(handler: Handler) -> float:
    """Return the processor time of a batch of calls, in seconds."""
    begun = time.process_time()
    for _ in range(CALLS):
        handler()
    return time.process_time() - begun


def cases() -> list[tuple[str, Handler, Handler]]:
    """Return the name of each case, the tool's handler, and the view."""
    user = fill()
    ctx = SimpleNamespace(user=user, auth=None, request=None)
    return of_views(ctx)


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
        function = entries[name].handler.function
        return lambda: function(ctx=ctx, arguments=arguments)

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
    viewset_tools(OrderViewSet, server=server, prefix="orders", actions=["retrieve", "list"])
    found = handlers(server, ctx, {"orders_retrieve": {"number": "2026-0001"}, "orders_list": {}})
    retrieve_view = OrderViewSet.as_view({"get": "retrieve"})
    list_view = OrderViewSet.as_view({"get": "list"})
    factory = APIRequestFactory()

    def retrieve() -> Any:
        return retrieve_view(factory.get("/"), number="2026-0001").data

    def list_all() -> Any:
        return list_view(factory.get("/")).data

    return [
        ("DRF, retrieve", found["orders_retrieve"], retrieve),
        ("DRF, list 50", lambda: next(iter(found["orders_list"]().values())), list_all),
    ]


if __name__ == "__main__":
    main()
