"""A tool with `atomic` runs in one transaction: kept when it returns, rolled back when it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.models import F
from django.utils import timezone

from django_mcp.execution.db_connections import (
    HandlerAbandoned,
    run_atomically,
    run_with_connections,
)
from example_project.shop.models import Product
from tests.support.databases import make_product, products

pytestmark = pytest.mark.usefixtures("databases")
only_postgresql = pytest.mark.parametrize(
    "databases", [pytest.param("postgresql", marks=pytest.mark.services)], indirect=True
)


class Failure(Exception):
    """The exception that handlers raise here."""


def run(function: Callable[[], Any], *, is_abandoned: bool = False) -> Any:
    """Run a function as a tool with `atomic=["first", "second"]` is run."""
    return run_with_connections(
        lambda: run_atomically(function, lambda: is_abandoned, ("first", "second"))
    )


def fail(*steps: Callable[[], Any]) -> None:
    """Run the steps as one handler that fails in the end."""

    def handler() -> None:
        for step in steps:
            step()
        raise Failure

    with pytest.raises(Failure):
        run(handler)


def in_transaction(using: str = "first") -> bool:
    return connections[using].in_atomic_block


# -- all or nothing


def test_writes_are_committed_when_the_handler_returns():
    assert run(lambda: make_product("a").sku) == "a"

    assert products() == {"a"}


def test_writes_are_rolled_back_when_the_handler_fails():
    fail(lambda: make_product("a"), lambda: make_product("b"))

    assert products() == set()


def test_writes_are_rolled_back_on_every_database():
    fail(lambda: make_product("a", "first"), lambda: make_product("b", "second"))

    assert products("first") == products("second") == set()


def test_writes_are_committed_on_every_database():
    run(lambda: (make_product("a", "first"), make_product("b", "second")))

    assert (products("first"), products("second")) == ({"a"}, {"b"})


@pytest.mark.parametrize(
    "write",
    [
        lambda: Product.objects.using("first").bulk_create(
            [Product(sku=sku, name=sku, category="office", price=1) for sku in ("b", "c")]
        ),
        lambda: Product.objects.using("first").update(stock=F("stock") + 1),
        lambda: Session.objects.using("first").all().delete(),
        lambda: Product.objects.using("first").get_or_create(
            sku="b", defaults={"name": "b", "category": "office", "price": 1}
        ),
        lambda: Session.objects.using("first").get().delete(),
        lambda: connections["first"].cursor().execute("DELETE FROM shop_product"),
        lambda: (
            connections["first"]
            .cursor()
            .executemany("UPDATE shop_product SET stock = %s", [(5,), (6,)])
        ),
    ],
    ids=["bulk_create", "update", "delete", "get_or_create", "delete_one", "raw", "raw_many"],
)
def test_every_kind_of_write_is_rolled_back(write: Callable[[], Any]):
    make_product("a")
    Session.objects.using("first").create(session_key="s", expire_date=timezone.now())

    fail(write)

    assert products() == {"a"}
    assert Session.objects.using("first").count() == 1
    assert Product.objects.using("first").get().stock == 0


def test_a_base_exception_rolls_back_too():
    def handler() -> None:
        make_product("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(handler)
    assert products() == set()


def test_an_abandoned_handler_is_rolled_back():
    with pytest.raises(HandlerAbandoned):
        run(lambda: make_product("a"), is_abandoned=True)

    assert products() == set()


def test_a_later_handler_starts_a_new_transaction():
    fail(lambda: make_product("a"))
    run(lambda: make_product("b"))
    fail(lambda: make_product("c"))

    assert products() == {"b"}


# -- the handler's own blocks


def atomically(step: Callable[[], Any], **options: Any) -> None:
    with transaction.atomic(using="first", **options):
        step()


def test_a_successful_block_is_rolled_back_if_the_handler_fails():
    fail(lambda: atomically(lambda: make_product("a")))

    assert products() == set()


def test_a_block_after_a_write_is_rolled_back():
    fail(lambda: make_product("a"), lambda: atomically(lambda: make_product("b")))

    assert products() == set()


def test_a_block_without_a_savepoint_is_rolled_back():
    fail(lambda: atomically(lambda: make_product("a"), savepoint=False))

    assert products() == set()


def test_a_caught_block_failure_keeps_other_writes():
    def handler() -> None:
        make_product("a")
        try:
            atomically(lambda: (make_product("b"), make_product("a")))
        except IntegrityError:
            make_product("c")

    run(handler)

    assert products() == {"a", "c"}


def test_a_caught_failure_of_the_first_block_keeps_other_writes():
    def handler() -> None:
        try:
            atomically(lambda: (make_product("b"), make_product("b")))
        except IntegrityError:
            make_product("c")

    run(handler)

    assert products() == {"c"}


def test_a_handler_may_roll_back_and_return():
    def handler() -> str:
        make_product("a")
        transaction.set_rollback(True, using="first")
        return "would have made a"

    assert run(handler) == "would have made a"
    assert products() == set()


def test_rows_can_be_locked_in_a_block_and_without_one():
    make_product("a")

    def lock() -> None:
        Product.objects.using("first").select_for_update().get(sku="a")

    def handler() -> None:
        atomically(lock)
        lock()
        make_product("b")

    run(handler)
    fail(lock, lambda: make_product("c"))

    assert products() == {"a", "b"}


def take_with_a_lock() -> None:
    product = Product.objects.using("first").select_for_update().get(sku="a")
    product.stock -= 1
    product.save()


def take_in_the_database() -> None:
    enough = Product.objects.using("first").filter(sku="a", stock__gt=0)
    assert enough.update(stock=F("stock") - 1) == 1


@pytest.mark.parametrize("take", [take_with_a_lock, take_in_the_database])
def test_concurrent_handlers_lose_no_update(take: Callable[[], None]):
    make_product("a")
    Product.objects.using("first").update(stock=20)

    def handle() -> None:
        run(take)
        connections.close_all()

    with ThreadPoolExecutor(12) as threads:
        for done in [threads.submit(handle) for _ in range(12)]:
            done.result()

    assert Product.objects.using("first").get(sku="a").stock == 8


def test_a_durable_block_raises_as_in_django():
    with pytest.raises(RuntimeError, match="durable"):
        run(lambda: atomically(lambda: make_product("a"), durable=True))

    assert products() == set()


# -- callbacks


def test_callbacks_run_once_after_the_handler():
    events: list[str] = []

    def handler() -> None:
        make_product("a")
        transaction.on_commit(lambda: events.append("committed"), using="first")
        atomically(lambda: transaction.on_commit(lambda: events.append("inner"), using="first"))
        events.append("returning")

    run(handler)

    assert events == ["returning", "committed", "inner"]


def test_callbacks_do_not_run_when_the_handler_fails():
    events: list[str] = []
    callback = lambda: events.append("committed")  # noqa: E731

    fail(
        lambda: make_product("a"),
        lambda: transaction.on_commit(callback, using="first"),
    )

    assert events == []


def test_an_on_commit_callback_before_any_write_waits_too():
    events: list[str] = []

    def ask() -> None:
        transaction.on_commit(lambda: events.append("committed"), using="first")
        events.append("asked")

    run(ask)
    fail(ask)

    assert events == ["asked", "committed", "asked"]


def test_a_callback_may_write():
    run(
        lambda: transaction.on_commit(lambda: make_product("a"), using="first"),
    )

    assert products() == {"a"}


# -- an unavailable database


def unreachable(databases: str) -> dict[str, Any]:
    if databases == "sqlite":
        return {"NAME": "/nowhere/at/all.sqlite3"}
    return {"PORT": "1"}


def test_an_unavailable_database_rolls_back_the_others(databases: str):
    connections["second"].settings_dict.update(unreachable(databases))
    connections["second"].close()

    with pytest.raises(DatabaseError):
        run(lambda: make_product("a", "first"))

    assert products() == set()
    assert not in_transaction()


# -- nested handlers


def test_a_nested_handler_is_rolled_back_alone():
    def outer() -> None:
        make_product("a")
        fail(lambda: make_product("b"))
        make_product("c")

    run(outer)

    assert products() == {"a", "c"}


def test_writes_of_a_nested_handler_are_rolled_back_with_the_outer():
    fail(lambda: run(lambda: make_product("a")))

    assert products() == set()


def test_in_an_outer_block_only_the_handlers_writes_are_rolled_back():
    with transaction.atomic(using="first"):
        make_product("a")
        fail(lambda: make_product("b"))
        fail(lambda: atomically(lambda: make_product("b")))
        fail(lambda: atomically(lambda: make_product("b"), savepoint=False))
        run(lambda: make_product("c"))

    assert products() == {"a", "c"}


# -- cleanup


def test_no_state_is_left_on_the_connection():
    for alias in ("first", "second"):
        connections[alias].ensure_connection()
    before = [dict(vars(connections[alias])) for alias in ("first", "second")]

    run(lambda: make_product("a"))
    fail(lambda: make_product("b"))

    for alias, state in zip(("first", "second"), before, strict=True):
        connection: Any = connections[alias]
        assert connection.execute_wrappers == state["execute_wrappers"] == []
        assert not connection.in_atomic_block
        assert connection.atomic_blocks == []


def test_the_connection_is_not_patched_while_a_handler_runs():
    def handler() -> tuple[set[str], list[Any]]:
        connection = connections["first"]
        return {"get_autocommit", "on_commit"} & set(vars(connection)), connection.execute_wrappers

    assert run(handler) == (set(), [])


def test_connections_are_closed_after_each_handler():
    run(lambda: make_product("a"))

    assert connections["first"].connection is None


@pytest.fixture
def no_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are kept as on a site, and not closed as in its tests."""
    monkeypatch.delattr(mail, "outbox", raising=False)


def test_connections_are_closed_in_tests_whatever_conn_max_age(monkeypatch: pytest.MonkeyPatch):
    """An open connection keeps a test database from being dropped."""
    monkeypatch.setattr(mail, "outbox", [], raising=False)
    connections["first"].settings_dict["CONN_MAX_AGE"] = 60
    connections["first"].close()

    run(lambda: make_product("a"))

    assert connections["first"].connection is None


@pytest.mark.usefixtures("no_test_run")
def test_connections_follow_conn_max_age():
    connections["first"].settings_dict["CONN_MAX_AGE"] = 60
    connections["first"].close()

    run(lambda: make_product("a"))
    kept = connections["first"].connection
    run(lambda: make_product("b"))

    assert kept is not None
    assert connections["first"].connection is kept


@only_postgresql  # SQLite has no server that could go away
@pytest.mark.usefixtures("no_test_run")
def test_a_broken_connection_is_replaced():
    connections["first"].settings_dict["CONN_MAX_AGE"] = 60
    connections["first"].close()
    run(lambda: make_product("a"))
    connections["first"].connection.close()

    def handler() -> None:
        make_product("b")

    with pytest.raises(DatabaseError):
        run(handler)
    run(handler)

    assert products() == {"a", "b"}


def test_writes_lost_to_a_caught_error_are_logged(caplog: pytest.LogCaptureFixture):
    def handler() -> str:
        make_product("a")
        try:
            make_product("a")
        except IntegrityError:
            return "there is one already"
        raise AssertionError

    with caplog.at_level(logging.WARNING, "django_mcp"):
        assert run(handler) == "there is one already"

    assert products() == set()
    (record,) = caplog.records
    assert "first" in record.getMessage()
    assert record.exc_info is not None


def test_an_explicit_rollback_logs_no_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "django_mcp"):
        run(lambda: transaction.set_rollback(True, using="first"))

    assert caplog.records == []
