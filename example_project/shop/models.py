"""What the shop sells, and who ordered what."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.translation import gettext_lazy as _


class Category(models.TextChoices):
    KITCHEN = "kitchen", _("Kitchen")
    GARDEN = "garden", _("Garden")
    OFFICE = "office", _("Office")


class ProductQuerySet(models.QuerySet["Product"]):
    def search(self, text: str) -> ProductQuerySet:
        return self.filter(models.Q(name__icontains=text) | models.Q(sku__icontains=text))


class Product(models.Model):
    sku = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    category = models.CharField(max_length=20, choices=Category.choices)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)
    photo = models.BinaryField(blank=True)

    objects = ProductQuerySet.as_manager()

    class Meta:
        ordering = ("sku",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("product", args=[self.sku])


def new_number() -> str:
    """Return an order number that nobody can count up from."""
    return f"{timezone.now():%Y}-{get_random_string(6, '23456789ABCDEFGHJKLMNPQRSTUVWXYZ')}"


class OrderQuerySet(models.QuerySet["Order"]):
    def visible_to(self, user: Any, number: str = "") -> OrderQuerySet:
        """Return every order to staff, and their own to customers.

        Who names the number of a guest's order may see it too: only the guest was told it.
        """
        return self if user.is_staff else self._own(user, number)

    def changeable_by(self, user: Any, number: str = "") -> OrderQuerySet:
        """Return every order to those who may change orders, and to others those that are their own."""
        return self if user.has_perm("shop.change_order") else self._own(user, number)

    def _own(self, user: Any, number: str) -> OrderQuerySet:
        of_guest = models.Q(customer=None, number=number)
        return self.filter(
            of_guest if user.is_anonymous else of_guest | models.Q(customer_id=user.pk)
        )

    def search(self, text: str) -> OrderQuerySet:
        return self.filter(
            models.Q(number__icontains=text)
            | models.Q(customer__username__icontains=text)
            | models.Q(lines__product__name__icontains=text)
        ).distinct()

    def with_lines(self) -> OrderQuerySet:
        return self.select_related("customer").prefetch_related("lines__product")


class Order(models.Model):
    class Status(models.TextChoices):
        PLACED = "placed", _("Placed")
        SHIPPED = "shipped", _("Shipped")
        CANCELLED = "cancelled", _("Cancelled")

    number = models.CharField(max_length=20, unique=True, default=new_number)
    customer = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        related_name="orders",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        help_text="Empty for a guest's order.",
    )
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.PLACED)
    note = models.CharField(max_length=200, blank=True)
    placed_at = models.DateTimeField()

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ("-placed_at", "number")

    def __str__(self) -> str:
        return self.number

    @property
    def total(self) -> Decimal:
        return sum((line.quantity * line.unit_price for line in self.lines.all()), Decimal())


class OrderLine(models.Model):
    order = models.ForeignKey(Order, related_name="lines", on_delete=models.CASCADE)
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    unit_price = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "product"], name="shop_line_once_per_product")
        ]

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product}"
