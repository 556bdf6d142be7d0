"""The tasks on a large site: django-oscar and `django.contrib`, with a tool of the admin for each action of each model."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.contrib.sites.models import Site as WebSite

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from tests.usability.tasks import Site, Task

CLERK = (
    "view_product",
    "view_stockrecord",
    "change_stockrecord",
    "view_order",
)
"""The permissions of the clerk."""

PRODUCTS = (("T-1", "Teapot", "19.90", 7), ("C-1", "Cup", "4.50", 31), ("S-1", "Saucer", "3.00", 0))
ORDERS = (
    ("1001", "ann", "Pending", "45.10"),
    ("1002", "ann", "Paid", "19.90"),
    ("1003", "bob", "Paid", "120.00"),
    ("1004", "ann", "Pending", "9.00"),
    ("1005", "bob", "Pending", "4.50"),
)

WATCHED = (
    "address.Country",
    "auth.User",
    "catalogue.Product",
    "customer.ProductAlert",
    "order.Order",
    "partner.StockRecord",
    "reviews.ProductReview",
)
"""What a question could change by mistake."""


def manager(label: str) -> Any:
    """Return the manager of a model, which is imported when its site is set up."""
    model: Any = apps.get_model(label)
    return model._default_manager


def load() -> None:
    """Add people, products, orders and the rest."""
    User.objects.create_superuser("root")
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=CLERK))
    people = {
        name: User.objects.create_user(name, f"{name}@example.com", first_name=name.title())
        for name in ("ann", "bob")
    }
    WebSite.objects.get_or_create(pk=1, defaults={"domain": "example.com", "name": "Example"})
    manager("flatpages.FlatPage").create(url="/about/", title="About us").sites.set([1])
    for code, name, is_shipping in (
        ("DE", "Germany", True),
        ("FR", "France", True),
        ("NZ", "New Zealand", False),
    ):
        manager("address.Country").create(
            iso_3166_1_a2=code, name=name, printable_name=name, is_shipping_country=is_shipping
        )
    products = _load_products()
    for number, name, status, total in ORDERS:
        manager("order.Order").create(
            number=number,
            user=people[name],
            status=status,
            total_incl_tax=Decimal(total),
            total_excl_tax=Decimal(total),
            shipping_incl_tax=0,
            shipping_excl_tax=0,
            site_id=1,
            date_placed=datetime(2026, 5, int(number) - 1000, tzinfo=UTC),
        )
    for name, title, body in (("ann", "Fine", "Pours well."), ("bob", "Lovely", "I like it.")):
        manager("reviews.ProductReview").create(
            product=products["C-1"],
            user=people[name],
            title=title,
            body=body,
            score=4,
            status=0,
            code=name,
        )
    manager("reviews.ProductReview").create(
        product=products["T-1"],
        name="visitor",
        title="Cheap pills",
        body="Buy!",
        score=5,
        status=0,
        code="visitor",
    )
    manager("customer.ProductAlert").create(product=products["S-1"], user=people["ann"])
    manager("shipping.OrderAndItemCharges").create(name="Standard", price_per_order=Decimal("4.90"))
    _load_voucher()


def _load_products() -> dict[str, Any]:
    partner = manager("partner.Partner").create(name="North")
    goods = manager("catalogue.ProductClass").create(name="Goods")
    category = manager("catalogue.Category").model
    category.add_root(name="Kitchen")
    products = {}
    for upc, title, price, stock in PRODUCTS:
        products[upc] = manager("catalogue.Product").create(
            upc=upc, title=title, product_class=goods, structure="standalone"
        )
        manager("partner.StockRecord").create(
            product=products[upc],
            partner=partner,
            partner_sku=upc,
            price=Decimal(price),
            num_in_stock=stock,
        )
    return products


def _load_voucher() -> None:
    everything = manager("offer.Range").create(name="Everything", includes_all_products=True)
    offer = manager("offer.ConditionalOffer").create(
        name="Spring",
        offer_type="Voucher",
        condition=manager("offer.Condition").create(range=everything, type="Count", value=1),
        benefit=manager("offer.Benefit").create(range=everything, type="Percentage", value=10),
    )
    voucher = manager("voucher.Voucher").create(
        name="Spring",
        code="SPRING",
        start_datetime=datetime(2027, 3, 1, tzinfo=UTC),
        end_datetime=datetime(2027, 4, 30, tzinfo=UTC),
    )
    voucher.offers.add(offer)


def state() -> Any:
    """Return all rows of what the tasks are about."""
    return [list(manager(label).order_by("pk").values()) for label in WATCHED]


def has(label: str, **values: Any) -> bool:
    """Return whether one object of a model has these values."""
    return bool(manager(label).filter(**values).count() == 1)


TASKS = (
    Task(
        id="large-1",
        question="Which orders of Ann are still unpaid?",
        user="root",
        server="large",
        facts=("1001", "1004"),
    ),
    Task(
        id="large-2",
        question="Order 1003 was sent. Set its status to Shipped.",
        user="root",
        server="large",
        is_done=lambda: has("order.Order", number="1003", status="Shipped"),
    ),
    Task(
        id="large-3",
        question="How many teapots are left?",
        user="root",
        server="large",
        facts=("7",),
    ),
    Task(
        id="large-4",
        question="The teapot costs 24.50 now.",
        user="root",
        server="large",
        is_done=lambda: has(
            "partner.StockRecord", partner_sku="T-1", price=Decimal("24.50"), num_in_stock=7
        ),
    ),
    Task(
        id="large-5",
        question="Don't show the saucer in the shop for now.",
        user="root",
        server="large",
        is_done=lambda: has("catalogue.Product", upc="S-1", title="Saucer", is_public=False),
    ),
    Task(
        id="large-6",
        question="Somebody advertises pills in a review. Delete it; yes, I am sure.",
        user="root",
        server="large",
        is_done=lambda: (
            not has("reviews.ProductReview", title="Cheap pills")
            and manager("reviews.ProductReview").count() == 2
        ),
    ),
    Task(
        id="large-7",
        question="Bob's review of the cup is fine, approve it.",
        user="root",
        server="large",
        is_done=lambda: has("reviews.ProductReview", status=1, user__username="bob"),
    ),
    Task(
        id="large-8",
        question="Ann is called Berg by her last name now.",
        user="root",
        server="large",
        is_done=lambda: has("auth.User", username="ann", first_name="Ann", last_name="Berg"),
    ),
    Task(
        id="large-9",
        question="Lock Bob out.",
        user="root",
        server="large",
        is_done=lambda: has("auth.User", username="bob", is_active=False),
    ),
    Task(
        id="large-10",
        question="Which countries do we ship to?",
        user="root",
        server="large",
        facts=("germany", "france"),
    ),
    Task(
        id="large-11",
        question="We don't ship to France any more.",
        user="root",
        server="large",
        is_done=lambda: (
            has("address.Country", is_shipping_country=True, name="Germany")
            and has("address.Country", is_shipping_country=False, name="France")
        ),
    ),
    Task(
        id="large-12",
        question="Make a page /returns/ with the title Returns: Send it back within 30 days.",
        user="root",
        server="large",
        is_done=lambda: has(
            "flatpages.FlatPage",
            url="/returns/",
            title="Returns",
            content__contains="30 days",
            sites=1,
        ),
    ),
    Task(
        id="large-13",
        question="The voucher SPRING is valid until the end of May 2027.",
        user="root",
        server="large",
        is_done=lambda: has(
            "voucher.Voucher",
            code="SPRING",
            end_datetime__gte=datetime(2027, 5, 31, tzinfo=UTC),
            end_datetime__lte=datetime(2027, 6, 1, 12, tzinfo=UTC),
            offers__name="Spring",
        ),
    ),
    Task(
        id="large-14",
        question="What was our largest order, and whose?",
        user="root",
        server="large",
        facts=("1003", "bob", "120.00"),
    ),
    Task(
        id="large-15",
        question="Call the category Kitchen: Kitchen and table.",
        user="root",
        server="large",
        is_done=lambda: has("catalogue.Category", name="Kitchen and table"),
    ),
    Task(
        id="large-16",
        question="Note on order 1002 that the customer called. I am root.",
        user="root",
        server="large",
        is_done=lambda: has(
            "order.OrderNote",
            order__number="1002",
            user__username="root",
            message__contains="called",
        ),
    ),
    Task(
        id="large-17",
        question="Two cups broke.",
        user="clerk",
        server="large",
        is_done=lambda: has(
            "partner.StockRecord", partner_sku="C-1", num_in_stock=29, price=Decimal("4.50")
        ),
    ),
    Task(
        id="large-18",
        question="Is there an order 1005, and can you delete it?",
        user="clerk",
        server="large",
        facts=("1005", "cannot delete"),
    ),
    Task(
        id="large-19",
        question="Who waits for the saucer?",
        user="root",
        server="large",
        facts=("ann",),
    ),
    Task(
        id="large-20",
        question="Standard shipping is 5.90 an order from now on.",
        user="root",
        server="large",
        is_done=lambda: has(
            "shipping.OrderAndItemCharges", name="Standard", price_per_order=Decimal("5.90")
        ),
    ),
)


def make_site(name: str) -> Site:
    """Return the site; `compact` has the few tools in place of one for each action."""
    server = MCPServer(name, public=True)
    admin_tools(server=server, models="__all__", style="compact" if name == "compact" else "single")
    return Site(load=load, servers={"large": server}, tasks=TASKS, state=state)
