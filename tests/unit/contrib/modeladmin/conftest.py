"""An admin site with rules by object, and its tools."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Permission, User

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book, Loan, Shelf, Tag

_numbers = count()

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class StatusFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("open", "Open"), ("done", "Done")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        if self.value() == "open":
            return queryset.filter(status="placed")
        if self.value() == "done":
            return queryset.exclude(status="placed")
        return queryset


class Orders(admin.ModelAdmin):
    list_display = ["number", "customer", "status", "lines"]
    list_filter = [
        "status",
        "customer",
        "placed_at",
        ("note", admin.EmptyFieldListFilter),
        StatusFilter,
    ]
    search_fields = ["number", "lines__product__name"]
    ordering = ["number"]
    fields = ["number", "customer", "status", "note", "placed_at", "lines"]
    readonly_fields = ["placed_at", "lines"]
    actions = ["ship"]

    @admin.display(description="Number of lines")
    def lines(self, order: Order) -> int:
        return 2

    @admin.action(description="Ship %(verbose_name_plural)s", permissions=["change"])
    def ship(self, request: Any, queryset: Any) -> None:
        shipped = queryset.update(status="shipped")
        self.message_user(request, f"{shipped} shipped.")


class OwnOrders(Orders):
    """Shows the orders of two users in part to each of them."""

    def get_queryset(self, request: Any) -> Any:
        rows = super().get_queryset(request)
        return rows if request.user.is_superuser else rows.filter(customer=request.user)


class Books(admin.ModelAdmin):
    list_display = ["isbn", "title", "shelf"]
    fields = ["isbn", "title", "shelf", "place", "tags", "updated_at"]
    readonly_fields = ["updated_at"]


class Shelves(admin.ModelAdmin):
    list_display = ["name", "owner"]
    search_fields = ["name"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(owner=request.user)


class Loans(admin.ModelAdmin):
    list_display = ["__str__", "book", "book__title"]


@pytest.fixture
def site() -> admin.AdminSite:
    made = admin.AdminSite(f"admin-{next(_numbers)}")
    made.register(Order, Orders)
    made.register(User, UserAdmin)
    made.register(Book, Books)
    made.register(Shelf, Shelves)
    made.register(Loan, Loans)
    made.register(Tag)
    made.register(Product)
    return made


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(f"modeladmin-{next(_numbers)}", public=True)


@pytest.fixture
def make_client(server: MCPServer, site: admin.AdminSite) -> Callable[..., MCPClient]:
    """Return a client of a user; `models` and options are those of `admin_tools`."""

    def make(user: Any, *models: Any, capabilities: Any = None, **options: Any) -> MCPClient:
        if not server.registry.tools:
            admin_tools(server=server, site=site, models=models or [Order], **options)
        given = {} if capabilities is None else {"capabilities": capabilities}
        return MCPClient(server, user=user, **given)

    return make


@pytest.fixture
def make_staff(db: Any) -> Callable[..., User]:
    def make(name: str, *permissions: str) -> User:
        user = User.objects.create_user(name, is_staff=True, password=f"secret-of-{name}")
        for each in permissions:
            app, codename = each.split(".")
            user.user_permissions.add(
                Permission.objects.get(content_type__app_label=app, codename=codename)
            )
        return user

    return make


@pytest.fixture
def root(db: Any) -> User:
    return User.objects.create_superuser("root", password="secret-of-root")


@pytest.fixture
def orders(db: Any) -> list[Order]:
    """Three orders of ann, A-0 to A-2, then two of bob, B-3 and B-4, each of two products."""
    users = [User.objects.create_user(name) for name in ("ann", "bob")]
    products = [
        Product.objects.create(sku=f"p-{n}", name=f"Pot {n}", category="kitchen", price=n)
        for n in range(2)
    ]
    made = []
    for n in range(5):
        customer = users[n // 3]
        order = Order.objects.create(
            number=f"{customer.username[0].upper()}-{n}",
            customer=customer,
            status="placed" if n % 2 else "shipped",
            note="ring" if n == 0 else "",
            placed_at=START + timedelta(days=n),
        )
        for quantity, product in enumerate(products, 1):
            OrderLine.objects.create(
                order=order, product=product, quantity=quantity, unit_price=product.price
            )
        made.append(order)
    return made
