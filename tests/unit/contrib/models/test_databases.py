"""Writes on the database that routers choose, and writes of the same object at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.execution.threads import run_in_pool
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.wire import V2026_07_28, WireClient


class ToFirst:
    """Sends products to the database `first`."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "first" if model is Product else None

    db_for_write = db_for_read


class Products(ModelTools):
    model = Product
    fields = ["sku", "name", "category", "price", "stock"]
    writes = ["create", "update"]
    version_field = "stock"
    writable = ["sku", "name", "category", "price", "stock"]
    everyone = True
    uri = ""

    def has_permission(self, user: Any, action: str) -> bool:
        return True

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        assert connections["first"].in_atomic_block
        assert not connections["second"].in_atomic_block
        instance.save()
        if instance.name == "broken":
            raise RuntimeError("after the write")


@pytest.fixture
def server(databases: str) -> Iterator[MCPServer]:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ToFirst"]):
        server = MCPServer("routed", public=True)
        Products.register(server)
        yield server


async def call(server: MCPServer, tool: str, **arguments: Any) -> Any:
    return await WireClient(server, V2026_07_28).call(tool, arguments)


async def test_a_write_is_atomic_on_the_database_of_the_router(server: MCPServer):
    values = {"category": "office", "price": 1, "stock": 5}

    made = await call(server, "create_product", sku="pen", name="Pen", **values)
    broken = await call(server, "create_product", sku="ink", name="broken", **values)

    assert made["structuredContent"]["sku"] == "pen"
    assert broken["isError"]
    assert await run_in_pool(partial(products, "first")) == {"pen"}
    assert await run_in_pool(partial(products, "second")) == set()


async def test_the_later_of_two_concurrent_updates_gets_a_conflict(server: MCPServer):
    await run_in_pool(make_pen)

    found = await asyncio.gather(
        *[
            call(server, "update_product", sku="pen", stock=5 - n, if_unmodified=5)
            for n in range(1, 5)
        ]
    )

    assert sum(not each.get("isError") for each in found) == 1
    (written,) = (each for each in found if not each.get("isError"))
    assert written["structuredContent"]["stock"] == await run_in_pool(stock_of_pen)


def make_pen() -> None:
    make_product("pen")
    Product.objects.using("first").update(stock=5)


def stock_of_pen() -> int:
    return Product.objects.using("first").get(sku="pen").stock
