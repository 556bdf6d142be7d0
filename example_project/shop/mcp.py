"""What the shop offers to MCP clients at /mcp; found by itself, as admin.py is."""

import csv
import io
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from django_mcp import (
    Annotations,
    CacheHint,
    Completion,
    Context,
    File,
    Icon,
    Image,
    PromptMessage,
    ResourceLink,
    ToolError,
    ToolResult,
    completion,
    default_server,
    prompt,
    resource,
    tool,
)
from django_mcp.extensions.apps import App, Card, Chart, Table
from example_project.shop import sales
from example_project.shop.forms import GiftWrapForm
from example_project.shop.models import Category, Order, Product

# Of OAuth, which settings.py can turn on; without it everybody may order.
ORDERING = ["orders:write"] if settings.OAUTH else []

EUROS = {"EUR": Decimal(1), "GBP": Decimal("0.86"), "USD": Decimal("1.09")}


# What goes in and out: a dataclass, a pydantic model, a TypedDict.


@dataclass
class ProductOut:
    sku: str
    name: str
    category: str
    price: Decimal
    stock: int

    @classmethod
    def of(cls, product: Product) -> "ProductOut":
        return cls(product.sku, product.name, product.category, product.price, product.stock)


class LineOut(BaseModel):
    product: str
    sku: str
    quantity: int
    unit_price: Decimal


class OrderOut(BaseModel):
    number: str
    customer: str | None = Field(description="The customer's username; null for a guest.")
    status: Order.Status
    lines: list[LineOut]
    total: Decimal
    note: str
    placed_at: datetime

    @classmethod
    def of(cls, order: Order) -> "OrderOut":
        return cls(
            number=order.number,
            customer=order.customer.get_username() if order.customer else None,
            status=Order.Status(order.status),
            lines=[
                LineOut(
                    product=line.product.name,
                    sku=line.product.sku,
                    quantity=line.quantity,
                    unit_price=line.unit_price,
                )
                for line in order.lines.all()
            ],
            total=order.total,
            note=order.note,
            placed_at=order.placed_at,
        )


# What several tools ask for, each described once.
Limit = Annotated[int, Field(ge=1, le=100, description="How many to return.")]
Euros = Annotated[Decimal, Field(ge=0, le=1_000_000, max_digits=9, decimal_places=2)]
Number = Annotated[str, Field(description="The order's number, such as 2026-0001.")]
Sku = Annotated[str, Field(description="As find_products gives it, such as mug.")]


class LineIn(TypedDict):
    sku: Sku
    quantity: Annotated[int, Field(ge=1, le=1000)]


# Tools


@tool(
    title=gettext_lazy("Find products"),
    read_only=True,
    app=Table(),
    icons=[Icon("https://example.com/icons/search.png", mime_type="image/png", sizes=("48x48",))],
)
def find_products(
    query: str = "",
    category: Category | None = None,
    max_price: Euros | None = None,
    limit: Limit = 20,
) -> list[ProductOut]:
    """Search what the shop sells.

    Each product has its price and stock. They are in the order of their SKUs.

    Args:
        query: part of a name or SKU; empty finds everything.
        max_price: in euros.
    """
    products = Product.objects.search(query)
    if category is not None:
        products = products.filter(category=category)
    if max_price is not None:
        products = products.filter(price__lte=max_price)
    return [ProductOut.of(product) for product in products[:limit]]


@tool(
    title=gettext_lazy("Find orders"),
    read_only=True,
    app=Table(
        columns=["number", "customer", "status", "total", "placed_at"],
        key="number",
        actions=["get_order"],
    ),
)
def find_orders(
    ctx: Context,
    query: str = "",
    status: Order.Status | None = None,
    limit: Limit = 20,
) -> list[OrderOut]:
    """Search the orders that the user may see, the newest first.

    Guests have to give the full number of their order.

    Args:
        query: part of a number, of a customer's username or of a product's name; empty finds all.
        status: placed means not shipped yet.
    """
    orders = Order.objects.visible_to(ctx.user, query).search(query).with_lines()
    if status is not None:
        orders = orders.filter(status=status)
    ctx.debug({"query": query, "found": orders.count()})
    return [OrderOut.of(order) for order in orders[:limit]]


@tool(
    title=gettext_lazy("Show the order"),
    read_only=True,
    app=Card(key="number", actions=["open_write_card"]),
)
def get_order(ctx: Context, number: Number) -> OrderOut:
    """Show an order that the user may see, with what was ordered."""
    orders = Order.objects.visible_to(ctx.user, number).with_lines()
    return OrderOut.of(orders.get(number=number))


# These rely on a transaction: a later line may be out of stock.
@tool(title=gettext_lazy("Place an order"), destructive=False, atomic=True, scopes=ORDERING)
def place_order(
    user: AbstractBaseUser | AnonymousUser,
    lines: Annotated[list[LineIn], Field(min_length=1)],
    note: Annotated[str, Field(max_length=200)] = "",
) -> OrderOut:
    """Order products for the user. Either every line is ordered or none is.

    Args:
        note: what the shop should know, such as where to leave the parcel.
    """
    try:
        order = sales.place(user, [(line["sku"], line["quantity"]) for line in lines], note)
    except sales.OutOfStockError as error:
        raise ToolError(str(error)) from error  # what was written so far is rolled back
    return OrderOut.of(order)


@dataclass
class Agreement:
    order: Annotated[bool, Field(description="Order this, at this price.")]


@tool(title=gettext_lazy("Order the same again"), destructive=False, atomic=True, scopes=ORDERING)
def reorder(ctx: Context, number: Number, agreed_total: Euros | None = None) -> str:
    """Order what an earlier order had, at today's prices, once the customer agrees with the total.

    Args:
        agreed_total: leave it out at first. If the answer is a total, ask the customer, and call
            again with the total that they agreed to.
    """
    order = Order.objects.visible_to(ctx.user, number).get(number=number)
    lines = list(order.lines.order_by("pk").values_list("product__sku", "quantity"))
    total = sales.price_today(order)
    if ctx.client_supports("elicitation"):
        goods = ", ".join(f"{quantity} × {sku}" for sku, quantity in lines)
        question = _("Order %(goods)s for %(total)s euros?") % {"goods": goods, "total": total}
        answer = ctx.elicit(question, Agreement)
        is_agreed = answer.is_accepted and answer.data.order
    else:
        # Revisions before 2025-06-18 cannot ask: the model does, and calls again.
        is_agreed = agreed_total == total
    if not is_agreed:
        return _("Nothing was ordered. It costs %s euros today.") % total
    try:
        again = sales.place(ctx.user, lines)
    except sales.OutOfStockError as error:
        raise ToolError(str(error)) from error
    return _("Order %(number)s is placed: %(total)s euros.") % {"number": again, "total": total}


@tool(title=gettext_lazy("Cancel an order"), destructive=True, idempotent=True, scopes=ORDERING)
def cancel_order(ctx: Context, number: Number) -> OrderOut:
    """Cancel an order that has not been shipped, and put its goods back into stock."""
    # DoesNotExist is told in words, which are the same for the order of somebody else.
    order = Order.objects.changeable_by(ctx.user, number).get(number=number)
    sales.cancel(order)
    if order.status == Order.Status.SHIPPED:
        raise ToolError(_("Order %s has been shipped already.") % number)
    return OrderOut.of(order)


@tool(title=gettext_lazy("Wrap an order as a present"), destructive=False)
def gift_wrap(ctx: Context, number: Number) -> str:
    """Wrap an order as a present. The user is asked for the paper and the text of the card."""
    order = Order.objects.changeable_by(ctx.user, number).get(number=number)
    answer = ctx.elicit(
        _("How shall we wrap order %s?") % number, partial(GiftWrapForm, instance=order)
    )
    if not answer.is_accepted:
        return _("Nothing was wrapped.")
    answer.data.save()
    return _("Order %(number)s is wrapped. %(note)s") % {"number": number, "note": order.note}


def find_order(ctx: Context, number: str) -> Order:
    return Order.objects.changeable_by(ctx.user, number).get(number=number)


@tool(
    title=gettext_lazy("Write a card"),
    destructive=False,
    app=App(form=GiftWrapForm, initial=find_order),
)
def write_card(ctx: Context, number: Number, form: GiftWrapForm) -> OrderOut:
    """Wrap an order as a present, with a card. The user can fill in a form."""
    return OrderOut.of(form.save())


@tool(title=gettext_lazy("Redeem a voucher"), destructive=False, scopes=ORDERING)
def redeem_voucher(ctx: Context, number: Number) -> str:
    """Redeem a voucher for an order. The user enters its code on a page of the shop, never here."""
    order = Order.objects.changeable_by(ctx.user, number).get(number=number)
    done = ctx.elicit_page(
        _("Enter the code of your voucher for order %s.") % number, "voucher", args=[number]
    )
    if not done.is_accepted:
        return _("No voucher was redeemed.")
    sales.note_voucher(order, done.data["euros"])
    return _("Order %(number)s costs %(euros)s euros less.") % {
        "number": number,
        "euros": done.data["euros"],
    }


@tool(read_only=True, open_world=False)
async def convert_price(euros: Euros, currency: Literal["EUR", "GBP", "USD"]) -> str:
    """Convert a price in euros at this morning's rate."""
    return f"{euros * EUROS[currency]:.2f} {currency}"


@tool(read_only=True, task="allowed")
async def export_orders(ctx: Context) -> ToolResult:
    """Export all orders that the user may see as a CSV file, the newest first."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["number", "customer", "status", "total"])
    orders = Order.objects.visible_to(ctx.user).with_lines()
    total = await orders.acount()
    done = 0
    await ctx.aprogress(done, total)
    async for order in orders.aiterator(chunk_size=50):  # in between, it can be cancelled
        out = OrderOut.of(order)
        writer.writerow([out.number, out.customer or "", out.status, out.total])
        done += 1
        await ctx.aprogress(done, total, message=order.number)
    file = File(text.getvalue().encode(), name="orders.csv", mime_type="text/csv")
    return ToolResult(content=[file], structured={"rows": done})


@tool(read_only=True)
def get_product_link(request: HttpRequest, sku: Sku) -> ResourceLink:
    """Get the link to a product's page in the shop."""
    product = Product.objects.get(sku=sku)
    return ResourceLink(
        uri=request.build_absolute_uri(product.get_absolute_url()),
        name=product.sku,
        title=product.name,
        mime_type="text/html",
    )


@tool(read_only=True)
def get_product_photo(sku: Sku) -> Image:
    """Get a product's photo."""
    return Image(bytes(Product.objects.get(sku=sku).photo), mime_type="image/png")


# Tools of the staff: unknown to everybody else, in every list and call.


@tool(permission="shop.change_product", destructive=True, idempotent=True)
def change_price(sku: Sku, euros: Annotated[Decimal, Field(gt=0, le=10_000)]) -> ProductOut:
    """Change what a product costs in orders from now on."""
    product = Product.objects.get(sku=sku)
    product.price = euros
    product.save(update_fields=["price"])
    return ProductOut.of(product)


@tool(
    title=gettext_lazy("Take out of the shop"),
    permission="shop.change_product",
    destructive=True,
    confirm="app",
)
def discontinue_product(sku: Sku) -> ProductOut:
    """Sell nothing of a product any more. The user confirms it first."""
    product = Product.objects.get(sku=sku)
    product.stock = 0
    product.save(update_fields=["stock"])
    sales.stock_changed.send(Product, sku=sku)
    return ProductOut.of(product)


class MonthOut(TypedDict):
    month: date
    orders: int
    revenue: Decimal


@tool(
    title=gettext_lazy("Sales by month"),
    permission="shop.view_order",
    read_only=True,
    app=Chart(x="month", y="revenue"),
)
def sales_by_month() -> list[MonthOut]:
    """Add up the orders of each month, without those that were cancelled."""
    return sales.by_month()


@tool(permission=["shop.view_order", "shop.change_order"], destructive=False, throttle="60/m")
def ship_order(number: Number) -> OrderOut:
    """Mark an order as shipped, which cannot be undone."""
    order = Order.objects.exclude(status=Order.Status.CANCELLED).get(number=number)
    if not sales.ship(order):
        raise ToolError(_("Order %s has been shipped already.") % number)
    return OrderOut.of(order)


# A tool whose JSON Schema is written by hand; the region also travels as the header Mcp-Param-Region.


async def quote_shipping(region: str, weight_kg: float, express: bool = False) -> dict[str, Any]:
    base = Decimal("4.90") if region == "eu" else Decimal("19.90")
    price = base + Decimal(str(weight_kg)) * (2 if express else 1)
    return {"price": f"{price:.2f}", "days": 1 if express else 4}


default_server.register_tool(
    quote_shipping,
    name="quote_shipping",
    description="Quote in euros what it costs to send a parcel, and how many days it takes.",
    input_schema={
        "type": "object",
        "properties": {
            "region": {
                "type": "string",
                "enum": ["eu", "world"],
                "description": "eu: the European Union. world: all other countries.",
                "x-mcp-header": "Region",
            },
            "weight_kg": {"type": "number", "exclusiveMinimum": 0, "maximum": 30},
            "express": {"type": "boolean", "description": "The next day; only in eu."},
        },
        "required": ["region", "weight_kg"],
        "if": {"properties": {"region": {"const": "world"}}},
        "then": {"properties": {"express": {"const": False}}},
    },
    read_only=True,
)


# Resources


@resource("shop://terms", title=gettext_lazy("Terms of sale"), mime_type="text/markdown")
def terms() -> str:
    """What the shop promises its customers."""
    return _("# Terms\n\nReturns within 30 days. Shipping takes four working days.\n")


# In the caller's language, so not for caches that others share.
@resource("shop://categories", cache=CacheHint(ttl_ms=60_000))
def categories() -> dict[str, str]:
    """The categories, with their names in the caller's language."""
    return {category.value: str(category.label) for category in Category}


@resource("product://{sku}/stock", annotations=Annotations(audience=("assistant",), priority=0.8))
def stock(sku: str) -> dict[str, Any]:
    """How much of a product is in stock now."""
    product = Product.objects.get(sku=sku)
    return {"sku": product.sku, "stock": product.stock}


@resource(
    "product://{sku}/photo",
    mime_type="image/png",
    cache=CacheHint(ttl_ms=3_600_000, scope="public"),
)
def photo(sku: str) -> bytes:
    """A product's photo."""
    return bytes(Product.objects.get(sku=sku).photo)


@resource("order://{number}", mime_type="application/json")
def order(ctx: Context, number: str) -> OrderOut:
    """An order you may see."""
    orders = Order.objects.visible_to(ctx.user, number).with_lines()
    return OrderOut.of(orders.get(number=number))


# Prompts, and what completes their arguments


@prompt(title=gettext_lazy("Apologise for a late order"))
def apology(ctx: Context, order_number: str, tone: str = "warm") -> str:
    """A letter to the customer of a late order."""
    order = Order.objects.visible_to(ctx.user, order_number).get(number=order_number)
    return f"Write a {tone} apology to {order.customer or 'our guest'}: order {order} is late."


@prompt
def restock_review(category: str) -> list[PromptMessage]:
    """A look at what should be bought again."""
    rows = Product.objects.filter(category=category).values_list("sku", "stock")
    listed = "\n".join(f"{sku}: {stock}" for sku, stock in rows)
    return [
        PromptMessage(f"Our stock in {category}:\n{listed}"),
        PromptMessage("Which of these sell fastest?", role="assistant"),
        PromptMessage("Assume ten a week of each. What do we buy?"),
    ]


@completion(apology, "order_number")
def complete_order_number(value: str, ctx: Context) -> list[str]:
    orders = Order.objects.visible_to(ctx.user, value).filter(number__startswith=value)
    return list(orders.values_list("number", flat=True)[:100])


@completion(apology, "tone")
async def complete_tone(value: str) -> Completion:
    return Completion.matching(value, ["formal", "short", "warm"])


@completion("product://{sku}/stock", "sku")
def complete_sku(value: str) -> list[str]:
    return list(Product.objects.filter(sku__startswith=value).values_list("sku", flat=True)[:100])
