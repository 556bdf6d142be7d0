"""A second server, for the people who run the shop; urls.py mounts it at /staff/mcp."""

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.db.models import DecimalField, F, Sum

from django_mcp import MCPServer
from example_project.shop import sales
from example_project.shop.models import OrderLine, Product

staff_server = MCPServer(
    "shop-staff",
    title="The shop's back office",
    instructions="Reports, and what keeps the shelves full.",
    public=not settings.OAUTH,
    authenticators=settings.DJANGO_MCP.get("AUTHENTICATORS", ()),
)


@dataclass
class Sales:
    sku: str
    sold: int
    euros: Decimal


@staff_server.tool(read_only=True)
def best_sellers(limit: int = 3) -> list[Sales]:
    """Tell which products brought in the most."""
    rows = (
        OrderLine.objects.values("product__sku")
        .annotate(
            sold=Sum("quantity"),
            euros=Sum(F("quantity") * F("unit_price"), output_field=DecimalField()),
        )
        .order_by("-euros")
    )
    return [Sales(row["product__sku"], row["sold"], row["euros"]) for row in rows[:limit]]


@staff_server.tool(destructive=False)
def restock(sku: str, quantity: int) -> int:
    """Put more of a product on the shelf, and return how many there are now."""
    sales.restock(sku, quantity)
    return Product.objects.get(sku=sku).stock


@staff_server.resource("staff://low-stock", mime_type="application/json")
def low_stock() -> list[str]:
    """The products of which fewer than ten are left."""
    return list(Product.objects.filter(stock__lt=10).values_list("sku", flat=True))
