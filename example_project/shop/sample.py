"""The sample shop: the same users, products and orders at each load."""

import struct
import zlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.contrib.auth import get_user_model
from django.db import transaction

from example_project.shop.models import Category, Order, Product

PASSWORD = "shop"
USERS = {"ada": {}, "grace": {}, "sam": {"is_staff": True, "is_superuser": True}}
PRODUCTS = [
    ("kettle", "Copper kettle", Category.KITCHEN, "59.00", 12, (184, 115, 51)),
    ("mug", "Enamel mug", Category.KITCHEN, "9.50", 140, (235, 235, 225)),
    ("spade", "Garden spade", Category.GARDEN, "34.90", 8, (90, 110, 60)),
    ("hose", "Garden hose, 20 m", Category.GARDEN, "27.00", 0, (40, 140, 80)),
    ("lamp", "Desk lamp", Category.OFFICE, "45.00", 23, (250, 200, 60)),
    ("notebook", "Squared notebook", Category.OFFICE, "4.20", 310, (60, 80, 160)),
]
ORDERS = [
    ("2026-0001", "ada", Order.Status.SHIPPED, [("kettle", 1), ("mug", 4)]),
    ("2026-0002", "grace", Order.Status.PLACED, [("lamp", 2)]),
    ("2026-0003", None, Order.Status.PLACED, [("notebook", 10), ("mug", 1)]),
    ("2026-0004", None, Order.Status.SHIPPED, [("spade", 1)]),
]
FIRST_ORDER_AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


def load() -> None:
    """Add whatever of the sample is missing; change nothing that is there."""
    with transaction.atomic():
        _load_users()
        _load_products()
        _load_orders()


def _load_users() -> None:
    users = get_user_model()._default_manager
    for username, flags in USERS.items():
        user, is_new = users.get_or_create(username=username, defaults=flags)
        if is_new:
            user.set_password(PASSWORD)
            user.save()


def _load_products() -> None:
    for sku, name, category, price, stock, colour in PRODUCTS:
        Product.objects.get_or_create(
            sku=sku,
            defaults={
                "name": name,
                "description": f"{name}, made to last.",
                "category": category,
                "price": Decimal(price),
                "stock": stock,
                "photo": swatch(colour),
            },
        )


def _load_orders() -> None:
    users = get_user_model()._default_manager
    for days, (number, username, status, lines) in enumerate(ORDERS):
        order, is_new = Order.objects.get_or_create(
            number=number,
            defaults={
                "customer": users.get(username=username) if username else None,
                "status": status,
                "placed_at": FIRST_ORDER_AT + timedelta(days=days),
            },
        )
        if is_new:
            for sku, quantity in lines:
                product = Product.objects.get(sku=sku)
                order.lines.create(product=product, quantity=quantity, unit_price=product.price)


def swatch(colour: tuple[int, int, int], side: int = 32) -> bytes:
    """Return a square PNG image of one colour."""
    rows = (b"\0" + bytes(colour) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
