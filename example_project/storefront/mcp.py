"""A server whose tools are made from what the shop has anyway; urls.py mounts it at /storefront/mcp."""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Order, Product
from example_project.storefront.ninja_api import api
from example_project.storefront.rest import OrderViewSet

storefront = MCPServer(
    "storefront",
    title="The shop's models, admin and APIs as tools",
    public=not settings.OAUTH,
    authenticators=settings.DJANGO_MCP.get(
        "AUTHENTICATORS", ["django_mcp.auth.authenticators.APIKeyAuthenticator"]
    ),
)


class Orders(ModelTools):
    """Everybody sees their own orders, and may change their notes until they are shipped."""

    model = Order
    fields = (
        "number",
        "status",
        "note",
        "placed_at",
        "total",
        "lines__product__sku",
        "lines__quantity",
    )
    filters = ("status", "placed_at__gte", "placed_at__lt")
    search = ("number", "lines__product__name")
    prefetch_related = ("lines",)
    writes = ("update",)
    writable = ("note",)

    def get_queryset(self, user: Any) -> QuerySet[Order]:
        return Order.objects.visible_to(user)


class Products(ModelTools):
    model = Product
    fields = ("sku", "name", "description", "category", "price", "stock")
    filters = ("category", "price__lte")
    search = ("sku", "name")
    sortable_by = ("price", "name")
    everyone = True


Orders.register(server=storefront)
Products.register(server=storefront)
viewset_tools(OrderViewSet, server=storefront, prefix="rest_orders")
operation_tools(api, server=storefront, prefix="ninja")
# For staff, in the words of the admin.
admin_tools(server=storefront, models=["shop.order", "shop.product"], prefix="admin_")
