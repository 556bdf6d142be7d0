"""What becomes of the querysets, managers and model instances that handlers return."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils import translation
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from django_mcp.handlers import converter as module
from django_mcp.handlers.converter import DjangoConverter
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import decode
from django_mcp.servers import MCPServer
from example_project.shop.models import Order, Product
from tests.support.wire import R5, WireClient

converter = DjangoConverter()
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lamp() -> Product:
    return Product.objects.create(
        sku="lamp", name="Lamp", category="office", price=Decimal("9.50"), photo=b"\x01"
    )


def test_an_instance_gives_its_columns(lamp: Product):
    assert converter.convert(lamp) == {
        "id": lamp.pk,
        "sku": "lamp",
        "name": "Lamp",
        "description": "",
        "category": "office",
        "price": Decimal("9.50"),
        "stock": 0,
        "photo": b"\x01",
    }


def test_a_relation_gives_the_key_of_the_other():
    order = Order(number="1", customer_id=7, placed_at=datetime.now(UTC))

    columns = converter.convert(order)

    assert columns["customer_id"] == 7
    assert "customer" not in columns


def test_a_users_password_is_never_told():
    columns = converter.convert(User(username="anna", password="hash"))

    assert columns["username"] == "anna"
    assert "password" not in columns


def test_a_field_without_a_form_in_json_gives_its_text():
    class Scan(models.Model):
        file = models.FileField()

        class Meta:
            app_label = "nowhere"
            managed = False

        def __str__(self) -> str:
            return str(self.file)

    assert converter.convert(Scan(file="scans/1.pdf"))["file"] == "scans/1.pdf"
    with pytest.raises(FieldDoesNotExist):
        Scan._meta.get_field("nothing")


@pytest.mark.usefixtures("lamp")
def test_rows_are_read_in_one_query(django_assert_num_queries: Any):
    with django_assert_num_queries(1):
        (row,) = converter.convert(Product.objects.all())

    assert isinstance(row, Product)


@pytest.mark.usefixtures("lamp")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda: Product.objects.values("sku"), [{"sku": "lamp"}]),
        (lambda: Product.objects.values_list("sku", flat=True), ["lamp"]),
        (lambda: Product.objects.values_list("sku", "name"), [("lamp", "Lamp")]),
        (lambda: Product.objects.values_list("sku", named=True), [{"sku": "lamp"}]),
        (lambda: Product.objects.values("sku")[:3], [{"sku": "lamp"}]),
        (Product.objects.none, []),
    ],
)
def test_rows_keep_the_form_that_was_asked_for(rows: Any, expected: Any):
    assert converter.convert(rows()) == expected


@pytest.mark.usefixtures("lamp")
def test_managers_and_raw_queries_give_rows():
    assert [row.sku for row in converter.convert(Product.objects)] == ["lamp"]
    raw = Product.objects.raw("SELECT * FROM shop_product")
    assert [row.sku for row in converter.convert(raw)] == ["lamp"]


def test_more_rows_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    for sku in ("a", "b", "c"):
        Product.objects.create(sku=sku, name=sku, category="office", price=1)

    assert len(converter.convert(Product.objects.all()[:2])) == 2
    for rows in (Product.objects.all(), Product.objects.all()[:3], Product.objects):
        with pytest.raises(ToolError, match="more than 2 rows"):
            converter.convert(rows)


@pytest.mark.parametrize("value", [1, "x", [1], {"a": 1}, object, datetime.now(UTC)])
def test_anything_else_stays_as_it_is(value: Any):
    assert converter.convert(value) is value
    assert not converter.needs_thread(value)


def test_what_may_ask_the_database_needs_a_thread():
    assert converter.needs_thread(Product.objects.all())
    assert converter.needs_thread(Product.objects)
    assert converter.needs_thread(Product())
    assert converter.needs_thread([Product()])


# -- through a whole server


class ProductOut(BaseModel):
    sku: str
    price: Decimal


async def result_of(server: MCPServer) -> dict[str, Any]:
    result = await WireClient(server, R5).call("probe")
    assert not result.get("isError"), result
    return result


@pytest.mark.usefixtures("lamp")
@pytest.mark.parametrize("is_async", [True, False])
async def test_rows_become_what_the_tool_declares(is_async: bool):
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
async def test_rows_deep_inside_of_a_result_are_read():
    server = MCPServer("rows")

    @server.tool
    def probe() -> dict[str, Any]:
        return {
            "first": Product.objects.get(),
            "all": {"skus": Product.objects.values_list("sku", flat=True)},
            "title": gettext_lazy("Not found."),
        }

    with translation.override("de"):
        text = (await result_of(server))["content"][0]["text"]

    data = decode(text)
    assert data["first"]["sku"] == "lamp"
    assert data["all"] == {"skus": ["lamp"]}
    assert data["title"] == "Nicht gefunden."
