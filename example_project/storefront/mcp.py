"""A server whose tools are made from what the shop has anyway; urls.py mounts it at /storefront/mcp.

Whatever several of the sources could do is one tool here, of one of them: models are for search and reading, and the
APIs add what only they can do. The tools made of the admin are on the server for staff.
"""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from django_mcp import MCPServer, signed_in
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Order, Product
from example_project.storefront.ninja_api import api
from example_project.storefront.rest import OrderViewSet

storefront = MCPServer(
    "storefront",
    title="The shop's models and APIs as tools",
    instructions=(
        "Search products and the user's orders. Orders are known by their number and products by "
        "their SKU. Prices are in euros."
    ),
    public=not settings.OAUTH,
    authenticators=settings.DJANGO_MCP.get(
        "AUTHENTICATORS", ["django_mcp.auth.authenticators.APIKeyAuthenticator"]
    ),
)


class Orders(ModelTools):
    """Users see their own orders. Their notes tell the shop what to mind, and can be changed."""

    model = Order
    fields = (
        "number",
        "status",
        "note",
        "placed_at",
        "total",
        "lines__product__name",
        "lines__product__sku",
        "lines__quantity",
        "lines__unit_price",
    )
    filters = ("status", "placed_at__gte", "placed_at__lt")
    search = ("number", "lines__product__name")
    prefetch_related = ("lines",)
    writes = ("update",)
    writable = ("note",)

    permission = signed_in

    def get_queryset(self, user: Any) -> QuerySet[Order]:
        return Order.objects.visible_to(user)

    def has_permission(self, user: Any, action: str) -> bool:
        # Staff see the orders of others, which is no reason to change them.
        return action != "update" or not user.is_staff or user.has_perm("shop.change_order")


class Products(ModelTools):
    """What the shop sells."""

    model = Product
    fields = ("sku", "name", "description", "category", "price", "stock")
    filters = ("category", "price__lte")
    search = ("sku", "name")
    sortable_by = ("price", "name")
    everyone = True


Orders.register(server=storefront)
Products.register(server=storefront)
viewset_tools(OrderViewSet, server=storefront, actions=["cancel"], names={"cancel": "cancel_order"})
operation_tools(
    api,
    server=storefront,
    include=["price_basket"],
    annotations={"price_basket": {"read_only": True}},
)
