"""Writes on the database that routers choose, and writes of the same object at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.db import connections
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.execution.threads import run_in_pool
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.held import LIMIT_S
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
        Products.register(server=server)
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


OF_FIRST = {"of-first", "only-first"}


class OfSecond(ModelTools):
    """Has the products of the database `second`, of which no router knows."""

    model = Product
    fields = ["sku", "name"]
    writes = ["create", "update", "delete"]
    writable = ["sku", "name", "category", "price"]
    everyone = True
    uri = ""

    def has_permission(self, user: Any, action: str) -> bool:
        return True

    def get_queryset(self, user: Any) -> Any:
        return Product.objects.using("second")

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        assert connections["second"].in_atomic_block
        instance.save(using="second")
        if instance.name == "broken":
            raise RuntimeError("after the write")


class AdminOfSecond(admin.ModelAdmin):
    """As the documentation of Django has it for a database that is not the default."""

    fields = ["sku", "name", "category", "price"]
    list_display = ["name"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).using("second")

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        OfSecond.save_model(self, request.user, obj, form, change)  # type: ignore[arg-type]

    def log_addition(self, request: Any, obj: Any, message: Any) -> Any: ...

    def log_change(self, request: Any, obj: Any, message: Any) -> Any: ...


def register(source: Any, server: MCPServer) -> None:
    if source is OfSecond:
        OfSecond.register(server=server)
        return
    site = admin.AdminSite("second")
    site.has_permission = lambda request: True  # type: ignore[method-assign]
    site.register(Product, AdminOfSecond)
    for name in ("view", "add", "change", "delete", "module"):
        setattr(site.get_model_admin(Product), f"has_{name}_permission", lambda *_given: True)
    admin_tools(server=server, site=site, models=[Product])


def make_products() -> int:
    """Make a product with the same key in each database, and another one in the first; return the key."""
    pk: int = make_product("of-second", "second").pk
    for key, name in ((pk, "of-first"), (pk + 100, "only-first")):
        Product(pk=key, sku=name, name=name, category="x", price=1).save(using="first")
    return pk


def names() -> list[set[str]]:
    return [
        set(Product.objects.using(alias).values_list("name", flat=True))
        for alias in ("first", "second")
    ]


@pytest.mark.parametrize("source", [OfSecond, AdminOfSecond])
async def test_a_write_is_to_the_database_that_the_queryset_names(databases: str, source: Any):
    server = MCPServer("named", public=True)
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ToFirst"]):
        register(source, server)
        pk = await run_in_pool(make_products)
        key = {"sku": "of-second"} if source is OfSecond else {"id": pk}

        changed = await call(server, "update_product", **key, name="changed")
        assert changed["structuredContent"]["name"] == "changed"
        assert await run_in_pool(names) == [OF_FIRST, {"changed"}]

        broken = await call(server, "update_product", **key, name="broken")
        assert broken["isError"]
        assert await run_in_pool(names) == [OF_FIRST, {"changed"}]

        given = {"sku": "new", "name": "new", "category": "office", "price": 1}
        made = await call(server, "create_product", **given)
        assert made["structuredContent"]["name"] == "new"
        assert await run_in_pool(names) == [OF_FIRST, {"changed", "new"}]

        key = {"sku": "only-first"} if source is OfSecond else {"id": pk + 100}
        gone = await call(server, "delete_product", **key)
        assert "not found" in gone["content"][0]["text"]


class AllOfSecond(OfSecond):
    """Leaves writing to the class."""

    save_model = ModelTools.save_model


async def test_without_hooks_objects_are_written_in_the_database_of_the_queryset(databases: str):
    server = MCPServer("named", public=True)
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ToFirst"]):
        AllOfSecond.register(server=server)
        await run_in_pool(make_products)

        changed = await call(server, "update_product", sku="of-second", name="changed")
        assert changed["structuredContent"]["name"] == "changed"
        given = {"sku": "new", "name": "new", "category": "office", "price": 1}
        made = await call(server, "create_product", **given)
        assert made["structuredContent"]["name"] == "new"
        assert await run_in_pool(names) == [OF_FIRST, {"changed", "new"}]


@pytest.mark.django_db(transaction=True)
async def test_a_cancelled_call_changes_no_further_objects(databases: str):
    is_written, may_go_on = threading.Event(), threading.Event()
    saved: list[str] = []

    class Several(OfSecond):
        update_many = True

        def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
            saved.append(instance.sku)
            instance.save(using="second")
            is_written.set()
            assert may_go_on.wait(LIMIT_S)

    server = MCPServer("named", public=True)
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ToFirst"]):
        Several.register(server=server)
        await run_in_pool(make_products)
        await run_in_pool(
            lambda: Product.objects.using("second").create(
                sku="other", name="other", category="kitchen", price=1
            )
        )
        given: dict[str, Any] = {"ids": ["of-second", "other"], "values": {"name": "changed"}}
        asked = await call(server, "update_many_products", **given)
        given["confirmation"] = asked["structuredContent"]["confirmation"]
        changing = asyncio.create_task(call(server, "update_many_products", **given))
        assert await asyncio.to_thread(is_written.wait, LIMIT_S)
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        may_go_on.set()
        # The next write waits for the end of that one.
        later = await call(server, "update_product", sku="other", price=2)
        assert not later.get("isError"), later
        assert saved == ["of-second", "other"]
        assert "changed" not in str(await run_in_pool(names))


async def test_a_write_of_a_named_database_is_rolled_back_when_its_call_is_cancelled(
    databases: str,
):
    is_written, may_go_on = threading.Event(), threading.Event()

    class Slow(OfSecond):
        def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
            instance.save(using="second")
            is_written.set()
            assert may_go_on.wait(LIMIT_S)

    server = MCPServer("named", public=True)
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ToFirst"]):
        Slow.register(server=server)
        await run_in_pool(make_products)
        change = call(server, "update_product", sku="of-second", name="changed")
        changing = asyncio.create_task(change)
        assert await asyncio.to_thread(is_written.wait, LIMIT_S)
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        may_go_on.set()
        # The next write of this object waits for the end of that one.
        Slow.save_model = OfSecond.save_model  # type: ignore[method-assign]
        later = await call(server, "update_product", sku="of-second", price=2)
        assert not later.get("isError"), later
        assert await run_in_pool(names) == [OF_FIRST, {"of-second"}]
