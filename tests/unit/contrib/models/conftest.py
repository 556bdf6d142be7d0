"""Orders of two customers, and the shop's models as tools."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from example_project.shop.models import Order, OrderLine, Product

_numbers = count()


@pytest.fixture(autouse=True)
def _own_receivers() -> Iterator[None]:
    """Disconnect the servers of a test: until they are collected, each object that is saved would reach them."""
    signals = (post_save, post_delete, pre_delete, m2m_changed)
    before = [list(signal.receivers) for signal in signals]
    yield
    for signal, receivers in zip(signals, before, strict=True):
        with signal.lock:
            signal.receivers = receivers
            signal.sender_receivers_cache.clear()


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(f"models-{next(_numbers)}", public=True, output_schemas="full")


class Orders(ModelTools):
    """Orders are placed in the shop."""

    model = Order
    fields = [
        "number",
        "status",
        "placed_at",
        "customer__username",
        "lines__quantity",
        "lines__product__sku",
    ]
    filters = [
        "status",
        "status__in",
        "placed_at__gte",
        "placed_at__year",
        "customer__date_joined__year__gte",
        "customer__username",
        "lines__product__sku",
    ]
    search = ["number", "lines__product__name"]
    sortable_by = ["placed_at", "customer__username"]
    ordering = ["number"]

    def get_queryset(self, user: Any) -> Any:
        return Order.objects.visible_to(user)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password="secret-of-ann")


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob", password="secret-of-bob")


@pytest.fixture
def staff() -> User:
    return User.objects.create_user("staff", is_staff=True)


START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def orders(ann: User, bob: User) -> list[Order]:
    """Three orders of ann, A-0 to A-2, then two of bob, B-3 and B-4, each of two products."""
    products = [
        Product.objects.create(sku=f"p-{n}", name=f"Pot {n}", category="kitchen", price=Decimal(n))
        for n in range(2)
    ]
    made = []
    for n in range(5):
        customer = ann if n < 3 else bob
        order = Order.objects.create(
            number=f"{customer.username[0].upper()}-{n}",
            customer=customer,
            status="placed" if n % 2 else "shipped",
            placed_at=START + timedelta(days=n),
        )
        for quantity, product in enumerate(products, 1):
            OrderLine.objects.create(
                order=order, product=product, quantity=quantity, unit_price=product.price
            )
        made.append(order)
    return made
