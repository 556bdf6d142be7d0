"""A second server, for the people who run the shop; urls.py mounts it at /staff/mcp.

Each entry has a permission, or the rules of the admin. Who may do nothing here sees nothing.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from django.conf import settings
from django.db.models import DecimalField, F, Sum
from pydantic import Field

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from example_project.shop import sales
from example_project.shop.models import Order, OrderLine, Product

staff_server = MCPServer(
    "shop-staff",
    title="The shop's back office",
    instructions=(
        "For staff: reports, stock, products and orders. Search for the id of a product or an order "
        "first. Prices are in euros."
    ),
    public=not settings.OAUTH,
    authenticators=settings.DJANGO_MCP.get(
        "AUTHENTICATORS", ["django_mcp.auth.authenticators.APIKeyAuthenticator"]
    ),
)


@dataclass
class Sales:
    sku: str
    product: str
    sold: int
    euros: Decimal


@staff_server.tool(permission="shop.view_order", read_only=True)
def best_sellers(limit: Annotated[int, Field(ge=1, le=100)] = 3) -> list[Sales]:
    """Tell which products brought in the most, the first most of all. Cancelled orders do not count."""
    rows = (
        OrderLine.objects.exclude(order__status=Order.Status.CANCELLED)
        .values_list("product__sku", "product__name", Sum("quantity"))
        .annotate(euros=Sum(F("quantity") * F("unit_price"), output_field=DecimalField()))
        .order_by("-euros", "product__sku")
    )
    # Some databases sum prices without their last zeros.
    return [Sales(sku, name, sold, round(euros, 2)) for sku, name, sold, euros in rows[:limit]]


@staff_server.tool(permission="shop.change_product", destructive=False)
def restock(sku: str, quantity: Annotated[int, Field(ge=1, le=10_000)]) -> int:
    """Add goods that have arrived to the stock of a product, and return its stock now.

    Args:
        sku: as search_products gives it.
        quantity: how many have arrived, which is not how many there are.
    """
    Product.objects.get(sku=sku)  # DoesNotExist is told in words
    sales.restock(sku, quantity)
    return Product.objects.get(sku=sku).stock


@staff_server.resource(
    "staff://low-stock", permission="shop.view_product", mime_type="application/json"
)
def low_stock() -> list[str]:
    """The products of which fewer than ten are left."""
    return list(Product.objects.filter(stock__lt=10).values_list("sku", flat=True))


# In the words of the admin, and with its permissions. Orders are placed, shipped and cancelled by tools of the
# shop, and the stock grows by `restock`.
admin_tools(
    server=staff_server,
    models=["shop.order", "shop.product"],
    exclude=["shop.order.create", "shop.order.delete", "shop.product.delete"],
)
