"""Tools whose transaction loses against another one: a deadlock, a changed row, a lock that is not released."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction

from django_mcp import MCPServer
from django_mcp.execution.outages import is_conflict
from django_mcp.execution.threads import run_in_pool
from example_project.shop.models import Product
from tests.support.databases import make_product
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient

TOLD = "Others used the same data at the same moment. Try again."


@contextmanager
def locked(sku: str) -> Iterator[threading.Event]:
    """Lock a row by another connection until the event is set."""
    is_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic("first"):
                Product.objects.using("first").select_for_update().get(sku=sku)
                is_locked.set()
                may_end.wait(30)
        finally:
            connections["first"].close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_locked.wait(30)
        yield may_end
    finally:
        may_end.set()
        thread.join(30)


HINTS: list[tuple[dict[str, bool], int]] = [
    ({"idempotent": True}, 2),
    ({"read_only": True}, 2),
    ({}, 1),
]


@pytest.mark.parametrize(("hints", "runs"), HINTS)
async def test_a_lost_transaction_is_run_once_more_where_that_does_no_harm(
    databases: str, hints: dict[str, Any], runs: int
):
    if databases == "sqlite":
        pytest.skip("SQLite locks no rows")
    server, begun = MCPServer("conflicts"), []
    await run_in_pool(lambda: make_product("mug"))

    @server.tool(atomic="first", **hints)
    def rename() -> str:
        """Fail at once if another transaction has the row."""
        begun.append(1)
        rows = Product.objects.using("first")
        return rows.select_for_update(nowait=True).get(sku="mug").name

    with locked("mug"):
        result = await WireClient(server, V2026_07_28).call("rename")

    assert result["isError"] is True
    assert result["content"][0]["text"] == TOLD
    assert len(begun) == runs


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
async def test_a_second_run_that_succeeds_is_the_result(revision: Any):
    server, begun = MCPServer("conflicts"), []

    @server.tool(atomic=False, idempotent=True)
    def write() -> str:
        """Lose once."""
        begun.append(1)
        if len(begun) == 1:
            raise OperationalError(1213, "Deadlock found when trying to get lock")
        return "written"

    @server.tool(read_only=True)
    async def read() -> str:
        """Lose once."""
        begun.append(1)
        if len(begun) == 3:
            raise OperationalError("database is locked")
        return "read"

    client = WireClient(server, revision)
    results = [await client.call(name) for name in ("write", "read")]

    assert [result["content"][0]["text"] for result in results] == ["written", "read"]
    assert len(begun) == 4


def of_driver(**attributes: str) -> Exception:
    error, cause = OperationalError("x"), Exception()
    vars(cause).update(attributes)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        of_driver(sqlstate="40P01"),
        of_driver(sqlstate="40001"),
        of_driver(pgcode="55P03"),
        OperationalError(1205, "Lock wait timeout exceeded"),
        OperationalError("database table is locked"),
        DatabaseError(SimpleNamespace(code=60)),
    ],
)
def test_conflicts_of_all_databases_are_recognized(error: Exception):
    assert is_conflict(error)


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("database is locked"),
        OperationalError("unable to open database file"),
        OperationalError(2006, "Server has gone away"),
        of_driver(sqlstate="42P01"),
    ],
)
def test_other_errors_are_no_conflicts(error: object):
    assert not is_conflict(error)
