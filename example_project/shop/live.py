"""Tells MCP clients who listen that the stock of a product is another; apps.py loads it in every process."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from django_mcp import notify_resource_updated
from example_project.shop.models import Product
from example_project.shop.sales import stock_changed


@receiver(stock_changed)
def tell_of_stock(sku: str, **_: Any) -> None:
    # Inside of a transaction this goes out when that has ended well.
    notify_resource_updated(f"product://{sku}/stock")


@receiver(post_save, sender=Product)
def tell_of_product(instance: Product, **_: Any) -> None:
    """As when somebody saves a product in the admin."""
    tell_of_stock(sku=instance.sku)
