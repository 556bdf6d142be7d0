"""The tasks on the example shop, by its three servers and five kinds of users."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User

from django_mcp import default_server
from example_project.backoffice.mcp import staff_server
from example_project.shop import sample
from example_project.shop.models import Order, OrderLine, Product
from example_project.storefront.mcp import storefront
from tests.usability.tasks import Site, Task

MORE = [
    ("2026-0101", "ada", "placed", 4, {"kettle": 1}),
    ("2026-0102", "ada", "placed", 5, {"notebook": 12, "lamp": 1}),
    ("2026-0103", "ada", "cancelled", 6, {"spade": 2}),
    ("2026-0104", "grace", "placed", 7, {"mug": 6}),
    ("2026-0105", "ada", "shipped", 8, {"mug": 2}),
]
"""Further orders: number, customer, status, month and lines."""


def load() -> None:
    """Load the sample, and further orders."""
    sample.load()
    for number, username, status, month, lines in MORE:
        order = Order.objects.create(
            number=number,
            customer=User.objects.get(username=username),
            status=status,
            placed_at=datetime(2026, month, 9, 12, tzinfo=UTC),
        )
        for sku, quantity in lines.items():
            product = Product.objects.get(sku=sku)
            order.lines.create(product=product, quantity=quantity, unit_price=product.price)


def state() -> Any:
    """Return all products, orders and lines."""
    return [
        list(model._base_manager.order_by("pk").values()) for model in (Product, Order, OrderLine)
    ]


def lines_of(order: Order) -> dict[str, int]:
    """Return the quantities of an order by SKU."""
    return dict(order.lines.values_list("product__sku", "quantity"))


def newest() -> Order:
    """Return the order that was placed last."""
    return Order.objects.latest("pk")


def is_new(username: str, lines: dict[str, int]) -> bool:
    """Return whether one order was placed, by this user and of these goods."""
    return (
        Order.objects.count() == len(sample.ORDERS) + len(MORE) + 1
        and newest().customer == User.objects.get(username=username)
        and lines_of(newest()) == lines
    )


def of_order(number: str, **values: Any) -> bool:
    """Return whether an order has these values, and the others were left as they were."""
    changed = Order.objects.exclude(number=number).exclude(note="").exists()
    return not changed and Order.objects.filter(number=number, **values).exists()


def of_product(sku: str, **values: Any) -> bool:
    """Return whether a product has these values."""
    return Product.objects.filter(sku=sku, **values).exists()


TASKS = (
    Task(
        id="shop-1",
        question="Which of my orders have you not sent yet?",
        user="ada",
        server="shop",
        facts=("2026-0101", "2026-0102"),
    ),
    Task(
        id="shop-2",
        question="What is the cheapest thing for the garden that you can send today?",
        user=None,
        server="shop",
        facts=("garden spade", "34.90"),
    ),
    Task(
        id="shop-3",
        question="Two desk lamps and five notebooks, please. I will be home all week.",
        user="ada",
        server="shop",
        is_done=lambda: is_new("ada", {"lamp": 2, "notebook": 5}),
    ),
    Task(
        id="shop-4",
        question="I found a kettle in the attic. Cancel the one I ordered.",
        user="ada",
        server="shop",
        is_done=lambda: (
            of_order("2026-0101", status="cancelled") and of_product("kettle", stock=13)
        ),
    ),
    Task(
        id="shop-5",
        question="Cancel order 2026-0102, please.",
        user="grace",
        server="shop",
        facts=("not found",),
    ),
    Task(
        id="shop-6",
        question="I ordered without an account, number 2026-0003. What was it, and what did I pay?",
        user=None,
        server="shop",
        facts=("squared notebook", "enamel mug", "51.50"),
    ),
    Task(
        id="shop-7",
        question="The same again as in 2026-0001. Up to 100 euros is fine.",
        user="ada",
        server="shop",
        is_done=lambda: is_new("ada", {"kettle": 1, "mug": 4}),
    ),
    Task(
        id="shop-8",
        question="My mugs are a present. Paper with stars, and the card says: For you.",
        user="grace",
        server="shop",
        is_done=lambda: of_order("2026-0104", note="stars: For you"),
    ),
    Task(
        id="shop-9",
        question="What is the copper kettle in dollars?",
        user=None,
        server="shop",
        facts=("64.31",),
    ),
    Task(
        id="shop-10",
        question="I am in Berlin. What does it cost to get a parcel of 3 kg here by tomorrow?",
        user=None,
        server="shop",
        facts=("10.90",),
    ),
    Task(
        id="shop-11",
        question="2026-0002 has just left the house.",
        user="sam",
        server="shop",
        is_done=lambda: of_order("2026-0002", status="shipped"),
    ),
    Task(
        id="shop-12",
        question="From today the enamel mug is 9.90.",
        user="sam",
        server="shop",
        is_done=lambda: of_product("mug", price=Decimal("9.90"), stock=140),
    ),
    Task(
        id="shop-13",
        question="Can I send things back?",
        user=None,
        server="shop",
        facts=("30 days",),
    ),
    Task(
        id="shop-14",
        question="My tax adviser wants a list of everything I ordered. How many orders are in it?",
        user="ada",
        server="shop",
        facts=("5",),
    ),
    Task(
        id="shop-15",
        question="Put a note on my order of the lamp and the notebooks: leave it with the neighbour.",
        user="ada",
        server="storefront",
        is_done=lambda: of_order("2026-0102", note__icontains="neighbour"),
    ),
    Task(
        id="shop-16",
        question="What would four mugs and a hose be together, and do you have them all?",
        user=None,
        server="storefront",
        facts=("65.00", "hose"),
    ),
    Task(
        id="shop-17",
        question="Which three things bring in the most?",
        user="sam",
        server="staff",
        facts=("desk lamp", "copper kettle", "enamel mug"),
    ),
    Task(
        id="shop-18",
        question="Twenty garden hoses have come in.",
        user="sam",
        server="staff",
        is_done=lambda: of_product("hose", stock=20),
    ),
    Task(
        id="shop-19",
        question="Grace wants three lamps instead of two in 2026-0002.",
        user="sam",
        server="staff",
        is_done=lambda: lines_of(Order.objects.get(number="2026-0002")) == {"lamp": 3},
    ),
    Task(
        id="shop-20",
        question="We now sell an oak ruler for the office, SKU ruler, 7.50 euros. There are 40.",
        user="sam",
        server="staff",
        is_done=lambda: of_product(
            "ruler", name="Oak ruler", category="office", price=Decimal("7.50"), stock=40
        ),
    ),
)


def make_site(name: str) -> Site:
    """Return the shop; it has one form."""
    servers = {"shop": default_server, "storefront": storefront, "staff": staff_server}
    return Site(load=load, servers=servers, tasks=TASKS, state=state)
