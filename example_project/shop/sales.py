"""What the shop does with orders; it knows nothing of MCP."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Count, DateField, F, Sum
from django.db.models.functions import TruncMonth
from django.dispatch import Signal
from django.utils import timezone

from example_project.shop.models import Order, OrderLine, Product

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser


stock_changed = Signal()
"""There is more or less of a product now. Argument: `sku`. Updates of rows send no signals of their own."""


class OutOfStockError(Exception):
    """There is less of a product than was ordered."""

    def __init__(self, product: Product, wanted: int) -> None:
        super().__init__(f"Only {product.stock} of {product.sku} left, {wanted} were ordered.")


def place(
    customer: AbstractBaseUser | AnonymousUser, lines: Iterable[tuple[str, int]], note: str = ""
) -> Order:
    """Write an order and take its goods out of stock, line by line.

    Raises:
        Product.DoesNotExist: for an unknown SKU.
        OutOfStockError: after earlier lines were written; the caller's transaction undoes them.
    """
    order = Order.objects.create(
        customer_id=customer.pk,
        note=note,
        placed_at=timezone.now(),
    )
    for sku, quantity in lines:
        product = Product.objects.get(sku=sku)
        taken = Product.objects.filter(pk=product.pk, stock__gte=quantity)
        if not taken.update(stock=F("stock") - quantity):
            raise OutOfStockError(product, quantity)
        order.lines.create(product=product, quantity=quantity, unit_price=product.price)
        stock_changed.send(Product, sku=sku)
    return order


def cancel(order: Order) -> None:
    """Cancel an order that has not been shipped and put its goods back; again is no change."""
    with transaction.atomic():
        placed = Order.objects.filter(pk=order.pk, status=Order.Status.PLACED)
        is_changed = placed.update(status=Order.Status.CANCELLED)
        if is_changed:  # of several who cancel it at once, one puts the goods back
            for line in order.lines.select_related("product"):
                restock(line.product.sku, line.quantity)
    order.refresh_from_db(fields=["status"])


def ship(order: Order) -> bool:
    """Note that a placed order is on its way; return whether it was placed until now."""
    placed = Order.objects.filter(pk=order.pk, status=Order.Status.PLACED)
    is_changed = bool(placed.update(status=Order.Status.SHIPPED))
    order.refresh_from_db(fields=["status"])
    return is_changed


def restock(sku: str, quantity: int) -> None:
    """Put more of a product into stock."""
    Product.objects.filter(sku=sku).update(stock=F("stock") + quantity)
    stock_changed.send(Product, sku=sku)


def price_today(order: Order) -> Decimal:
    """Return what the goods of an order would cost now."""
    lines = order.lines.select_related("product")
    return sum((line.quantity * line.product.price for line in lines), Decimal())


def by_month() -> list[Any]:
    """Return the orders of each month and what was paid for them, the earliest first."""
    lines = OrderLine.objects.exclude(order__status=Order.Status.CANCELLED)
    months = lines.annotate(month=TruncMonth("order__placed_at", output_field=DateField()))
    return list(
        months.values("month")
        .annotate(
            orders=Count("order", distinct=True), revenue=Sum(F("quantity") * F("unit_price"))
        )
        .order_by("month")
    )


VOUCHERS = {"WELCOME-5": 5, "SORRY-20": 20}
"""What vouchers are worth, in euros, by their codes."""


def note_voucher(order: Order, euros: int) -> None:
    order.note = f"voucher: {euros} euros"
    order.save(update_fields=["note"])
