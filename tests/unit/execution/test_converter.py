"""Conversion of querysets, managers and model instances that handlers return."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.utils import translation
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from django_mcp.execution import values as module
from django_mcp.execution.values import DjangoConverter
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import decode
from django_mcp.registry.returns import ReturnError
from django_mcp.servers import MCPServer
from example_project.shop.models import Product
from tests.support.wire import V2026_07_28, WireClient

converter = DjangoConverter()
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lamp() -> Product:
    return Product.objects.create(
        sku="lamp", name="Lamp", category="office", price=Decimal("9.50"), photo=b"\x01"
    )


UNNAMED = (
    r"Product is a model, and nothing names the fields to publish: declare them in the return annotation .* "
    r"or return queryset.values\('id', \.\.\.\) or a dict"
)


@pytest.mark.parametrize(
    "value",
    [
        Product,
        lambda: Product.objects,
        Product.objects.all,
        Product.objects.none,
        lambda: Product.objects.only("sku")[:3],
        lambda: Product.objects.raw("SELECT * FROM shop_product"),
    ],
)
def test_undeclared_columns_are_not_published(value: Any):
    with pytest.raises(ReturnError, match=UNNAMED):
        converter.convert(value())


@pytest.mark.parametrize(
    "rows",
    [
        Product.objects.values,
        Product.objects.values_list,
        lambda: Product.objects.values_list(named=True)[:3],
        lambda: Product.objects.values().filter(sku="lamp"),
    ],
)
def test_rows_without_named_fields_are_not_published(rows: Any):
    with pytest.raises(ReturnError, match=UNNAMED):
        converter.convert(rows())


@pytest.mark.usefixtures("lamp")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda: Product.objects.values("sku"), [{"sku": "lamp"}]),
        (lambda: Product.objects.values_list("sku", flat=True), ["lamp"]),
        (lambda: Product.objects.values_list("sku", "name"), [("lamp", "Lamp")]),
        (lambda: Product.objects.values_list("sku", named=True), [{"sku": "lamp"}]),
        (lambda: Product.objects.values("sku")[:3], [{"sku": "lamp"}]),
    ],
)
def test_rows_keep_the_requested_row_format(rows: Any, expected: Any):
    assert converter.convert(rows()) == expected


def test_more_rows_than_the_limit_are_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    for sku in ("a", "b", "c"):
        Product.objects.create(sku=sku, name=sku, category="office", price=1)

    skus = Product.objects.values("sku")
    assert len(converter.convert(skus[:2])) == 2
    for rows in (skus, skus[:3]):
        with pytest.raises(ToolError, match="more than 2 rows"):
            converter.convert(rows)


@pytest.mark.parametrize("value", [1, "x", [1], {"a": 1}, object, datetime.now(UTC)])
def test_anything_else_is_unchanged(value: Any):
    assert converter.convert(value) is value
    assert not converter.needs_thread(value)


def test_values_that_may_query_need_a_thread():
    assert converter.needs_thread(Product.objects.all())
    assert converter.needs_thread(Product.objects)
    assert converter.needs_thread(Product())
    assert converter.needs_thread([Product()])


# -- through a whole server


class ProductOut(BaseModel):
    sku: str
    price: Decimal


async def result_of(server: MCPServer) -> dict[str, Any]:
    result = await WireClient(server, V2026_07_28).call("probe")
    assert not result.get("isError"), result
    return result


def list_dicts() -> list[dict[str, Any]]:
    return Product.objects.values()  # type: ignore[return-value]


def maybe_list_dicts() -> list[dict[str, Any]] | None:
    return Product.objects.values()  # type: ignore[return-value]


@pytest.mark.usefixtures("lamp")
@pytest.mark.parametrize("function", [list_dicts, maybe_list_dicts])
async def test_declared_dicts_do_not_name_fields(function: Any):
    server = MCPServer("rows")
    server.tool(name="probe")(function)

    result = await WireClient(server, V2026_07_28).call("probe")

    assert result["isError"]
    assert "9.5" not in str(result)


@pytest.mark.usefixtures("lamp")
async def test_a_declared_type_names_the_fields_of_rows():
    server = MCPServer("rows")

    @server.tool
    def probe() -> list[ProductOut]:
        return Product.objects.values()  # type: ignore[return-value]

    @server.tool
    def named() -> list[dict[str, Any]]:
        return Product.objects.values("sku")  # type: ignore[return-value]

    expected = [{"sku": "lamp", "price": "9.50"}]
    assert (await result_of(server))["structuredContent"] == expected
    found = await WireClient(server, V2026_07_28).call("named")
    assert found["structuredContent"] == [{"sku": "lamp"}]


@pytest.mark.usefixtures("lamp")
@pytest.mark.parametrize("is_async", [True, False])
async def test_rows_become_the_declared_type(is_async: bool):
    """An asynchronous tool may return a queryset as well."""
    server = MCPServer("rows")

    if is_async:

        @server.tool
        async def probe() -> list[ProductOut]:
            return Product.objects.all()  # type: ignore[return-value]

    else:

        @server.tool(name="probe")
        def probe_in_thread() -> list[ProductOut]:
            return Product.objects.all()  # type: ignore[return-value]

    result = await result_of(server)

    assert result["structuredContent"] in (
        {"result": [{"sku": "lamp", "price": "9.50"}]},
        [{"sku": "lamp", "price": "9.50"}],
    )


@pytest.mark.usefixtures("lamp")
async def test_nested_querysets_are_evaluated():
    server = MCPServer("rows")

    @server.tool
    def probe() -> dict[str, Any]:
        return {
            "first": Product.objects.values("sku").get(),
            "all": {"skus": Product.objects.values_list("sku", flat=True)},
            "title": gettext_lazy("Not found."),
        }

    with translation.override("de"):
        text = (await result_of(server))["content"][0]["text"]

    data = decode(text)
    assert data["first"]["sku"] == "lamp"
    assert data["all"] == {"skus": ["lamp"]}
    assert data["title"] == "Nicht gefunden."
