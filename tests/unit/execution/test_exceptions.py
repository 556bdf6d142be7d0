"""Error messages for Django's exceptions."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from django.core.exceptions import (
    MultipleObjectsReturned,
    ObjectDoesNotExist,
    PermissionDenied,
    SuspiciousOperation,
    ValidationError,
)
from django.db import DataError, OperationalError
from django.db.transaction import TransactionManagementError
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import translation
from django.utils.translation import gettext_lazy
from twisted.logger import globalLogBeginner

from django_mcp.context import Context
from django_mcp.execution.values import DjangoExceptions
from django_mcp.server.exchange.call import FailureKind
from django_mcp.servers import MCPServer
from example_project.shop.models import Order, Product
from tests.support.wire import V2026_07_28, WireClient

map_error = DjangoExceptions().map


async def test_the_log_names_the_remedy_for_synchronous_queries(caplog: pytest.LogCaptureFixture):
    server = MCPServer("synchronous")

    @server.tool
    async def count() -> int:
        """Count the products."""
        return Product.objects.count()

    assert (await WireClient(server, V2026_07_28).call("count"))["isError"] is True
    assert "use the asynchronous methods of the ORM" in caplog.text


@pytest.mark.parametrize(("debug", "shown"), [(True, ": KeyError: 'secret'"), (False, "")])
async def test_only_with_debug_are_clients_told_the_exception(
    settings: Any, debug: bool, shown: str
):
    settings.DEBUG = debug
    server = MCPServer("faulty")

    @server.tool
    async def fail() -> str:
        """Fail."""
        raise KeyError("secret")

    text = (await WireClient(server, V2026_07_28).call("fail"))["content"][0]["text"]

    assert re.fullmatch(rf"Internal error \(reference [0-9a-f]+\){shown}", text)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_value_that_the_database_cannot_take_is_no_internal_error(
    is_async: bool, caplog: pytest.LogCaptureFixture
):
    server = MCPServer("counting")
    if is_async:

        @server.tool(read_only=True)
        async def count(stock: int) -> int:
            """Count the products with so many pieces in stock."""
            return await Product.objects.filter(stock__in=[stock, 1]).acount()

    else:

        @server.tool(name="count", read_only=True)
        def count_here(stock: int) -> int:
            """Count the products with so many pieces in stock."""
            return Product.objects.filter(stock__in=[stock, 1]).count()

    result = await WireClient(server, V2026_07_28).call("count", {"stock": 10**30})

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("The database cannot take a value")
    assert "Traceback" not in caplog.text


def test_a_decimal_that_overflows_is_a_value_that_the_database_cannot_take():
    failure = map_error(DataError("value overflows numeric format\nLINE 1: SELECT 1E+999999999"))

    assert failure is not None
    assert failure.kind is FailureKind.INVALID
    assert "1E+999999999" not in failure.message


async def test_the_log_names_the_remedy_for_a_forgotten_await(caplog: pytest.LogCaptureFixture):
    server = MCPServer("forgetful")
    forgotten: list[Any] = []

    @server.tool
    async def ask(ctx: Context) -> bool:
        """Ask, and use what is no answer yet."""
        forgotten.append(ctx.aelicit("Go on?", {"type": "object"}))
        return bool(forgotten[-1].is_accepted)

    @server.tool
    def count(ctx: Context) -> int:
        """Call the asynchronous method from a synchronous handler."""
        forgotten.append(ctx.alist_roots())
        return len(forgotten[-1])

    client = WireClient(server, V2026_07_28)
    assert (await client.call("ask"))["isError"] is True
    assert (await client.call("count"))["isError"] is True
    assert caplog.text.count("An await was forgotten") == 2
    # The record in the log holds them longer than this test, and their warning is an error in another.
    for each in forgotten:
        each.close()


async def test_the_log_names_the_remedy_for_a_lock_outside_of_a_transaction(
    caplog: pytest.LogCaptureFixture,
):
    server = MCPServer("locking")

    @server.tool(read_only=True)
    def look() -> str:
        """Fail as select_for_update() does in PostgreSQL; SQLite ignores it."""
        raise TransactionManagementError(
            "select_for_update cannot be used outside of a transaction."
        )

    assert (await WireClient(server, V2026_07_28).call("look"))["isError"] is True
    assert "gets a transaction by itself, none with read_only=True" in caplog.text


async def test_a_coroutine_that_daphne_lets_vanish_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, settings: Any
):
    settings.DEBUG = True
    # As Daphne has it at its start.
    monkeypatch.setattr(warnings, "showwarning", globalLogBeginner.showwarning)
    server = MCPServer("silent")

    @server.tool
    async def work(ctx: Context) -> str:
        """Forget an await."""
        ctx.aprogress(1, 2)  # type: ignore[unused-coroutine]
        return "done"

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert (await WireClient(server, V2026_07_28).call("work"))["content"][0]["text"] == "done"

    assert f"{__file__}:" in caplog.text
    assert "coroutine 'ProgressAndLogs.aprogress' was never awaited" in caplog.text


async def test_the_log_names_the_remedy_for_a_locked_database(caplog: pytest.LogCaptureFixture):
    server = MCPServer("locked")

    @server.tool(atomic=False)
    def write() -> str:
        """Fail as SQLite does."""
        raise OperationalError("database is locked")

    assert (await WireClient(server, V2026_07_28).call("write"))["isError"] is True
    assert "OPTIONS of this SQLite database" in caplog.text
    assert "IMMEDIATE" in caplog.text


TOLD = [
    (PermissionDenied(), FailureKind.DENIED, "Permission denied."),
    (PermissionDenied("Staff only."), FailureKind.DENIED, "Staff only."),
    (PermissionDenied(gettext_lazy("Not found.")), FailureKind.DENIED, "Not found."),
    (Http404(), FailureKind.MISSING, "Not found."),
    (Http404("No such page."), FailureKind.MISSING, "No such page."),
    (Http404({"tried": [], "path": "/secret"}), FailureKind.MISSING, "Not found."),
    (Order.DoesNotExist("SELECT secret"), FailureKind.MISSING, "Order not found."),
    (ObjectDoesNotExist("secret"), FailureKind.MISSING, "Not found."),
    (ValidationError("Too late."), FailureKind.INVALID, "Too late."),
    (ValidationError(["One.", "Two."]), FailureKind.INVALID, "One.\nTwo."),
    (
        ValidationError("At most %(most)s.", params={"most": 3}),
        FailureKind.INVALID,
        "At most 3.",
    ),
    (
        ValidationError({"sku": ["Taken.", "Long."], "__all__": ["Sold out."]}),
        FailureKind.INVALID,
        "sku: Taken.\nsku: Long.\nSold out.",
    ),
]


@pytest.mark.parametrize(("error", "kind", "text"), TOLD, ids=lambda value: str(value)[:30])
def test_an_expected_exception_is_reported(error: Exception, kind: FailureKind, text: str):
    failure = map_error(error)

    assert failure is not None
    assert (failure.kind, failure.message) == (kind, text)


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("x"), SuspiciousOperation("x"), MultipleObjectsReturned("x")],
    ids=repr,
)
def test_any_other_exception_is_an_internal_error(error: Exception):
    assert map_error(error) is None


def test_error_messages_are_in_the_callers_language():
    with translation.override("de"):
        failure = map_error(Order.DoesNotExist())

    assert failure is not None
    assert failure.message == "Order nicht gefunden."


@pytest.mark.django_db(transaction=True)
async def test_tool_errors_differ_by_exception():
    server = MCPServer("exceptions")

    @server.tool
    def find(kind: str) -> None:
        if kind == "denied":
            raise PermissionDenied
        if kind == "missing":
            get_object_or_404(Product, sku="nothing")
        if kind == "gone":
            Product.objects.get(sku="nothing")
        if kind == "invalid":
            Product(sku="not a slug", name="", category="office", price=1).clean_fields()

    texts = {}
    for kind in ("denied", "missing", "gone", "invalid"):
        result = await WireClient(server, V2026_07_28).call("find", {"kind": kind})
        assert result["isError"]
        texts[kind] = result["content"][0]["text"]

    assert texts["denied"] == "Permission denied."
    assert texts["missing"] == "No Product matches the given query."
    assert texts["gone"] == "Product not found."
    assert set(texts["invalid"].splitlines()) == {
        "sku: Enter a valid “slug” consisting of letters, numbers, underscores or hyphens.",
        "name: This field cannot be blank.",
    }


@pytest.mark.django_db(transaction=True)
async def test_an_error_handler_may_write_to_the_database():
    server = MCPServer("failing", public=True)

    @server.tool(atomic=True)
    def fail() -> str:
        Product.objects.create(sku="half", name="Half", price=1, stock=1)
        raise ZeroDivisionError

    @server.on_error
    def note(error: BaseException, ctx: Context, reference: str | None) -> None:
        Product.objects.create(sku=reference or "", name=repr(error), price=1, stock=1)

    answer = await WireClient(server, V2026_07_28).result("tools/call", {"name": "fail"})

    (noted,) = [product async for product in Product.objects.all()]
    assert noted.name == "ZeroDivisionError()"
    assert noted.sku in answer["content"][0]["text"]
