"""Two databases to write to, on SQLite, PostgreSQL and MariaDB, apart from the test database."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy
from typing import Any, TypeAlias

import pytest
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import override_settings

from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import (
    CallRecord,
    CallTally,
    ErrorGroup,
    ErrorTally,
    GivenLink,
    HealthAlert,
    KeptState,
    LastCall,
    PendingAnswer,
    SessionItem,
    Stream,
    StreamEvent,
    Subscription,
    UsedState,
    Worker,
)
from django_mcp.models import Session as MCPSession
from django_mcp.models.sessions import BusMessage
from example_project.shop.models import Product
from tests.support.background import wait_for_ended_threads, wait_for_pools

ALIASES = ("first", "second")
MODELS = (
    BusMessage,
    Product,
    Session,
    CallRecord,
    CallTally,
    ErrorGroup,
    ErrorTally,
    KeptState,
    LastCall,
    UsedState,
    GivenLink,
    HealthAlert,
    MCPSession,
    SessionItem,
    Subscription,
    Worker,
    Stream,
    StreamEvent,
    PendingAnswer,
    Task,
)


def make_product(sku: str, using: str = "first") -> Product:
    return Product.objects.using(using).create(sku=sku, name=sku, category="office", price=1)


def products(using: str = "first") -> set[str]:
    return set(Product.objects.using(using).values_list("sku", flat=True))


Maker: TypeAlias = Callable[[str], dict[str, Any]]
"""Makes the settings of a database of an alias."""


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ]
)
def databases(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[str]:
    """Serve two more aliases, `first` and `second`, with empty tables of MODELS; return the vendor."""
    maker = request.getfixturevalue(f"{request.param}_settings")
    with django_db_blocker.unblock(), serving(maker):
        # Changed settings close the pool, whose threads remember the databases of other tests. All of
        # them end while the aliases exist: Django closes no connection of an alias that it does not know.
        with override_settings(DJANGO_MCP={}):
            yield request.param
            wait_for_pools()
        wait_for_ended_threads()
        assert_nothing_left()
        if request.param == "postgresql":
            assert_no_connection_left(maker)


@contextmanager
def serving(maker: Maker) -> Iterator[None]:
    """Have the aliases lead to databases, whose rows are gone at the end."""
    for alias in ALIASES:
        connections.settings.update(
            {alias: connections.configure_settings({"default": {}, alias: maker(alias)})[alias]}
        )
    try:
        yield
    finally:
        for alias in ALIASES:
            connections[alias].close()
            # A test may have changed it.
            connections.settings[alias].update(maker(alias))
            for model in reversed(MODELS):
                model._base_manager.using(alias).all()._raw_delete(alias)
            connections[alias].close()
            del connections[alias], connections.settings[alias]


def make_tables() -> None:
    for alias in ALIASES:
        with connections[alias].schema_editor() as editor:
            for model in MODELS:
                editor.create_model(model)


def assert_nothing_left() -> None:
    """Nothing rolls the test database back here, so what is left in it is deleted, and fails this test."""
    # It has tables only where other tests of this run have asked for it.
    tables = connections["default"].introspection.table_names()
    left = [
        model.__name__
        for model in (Stream, Worker, MCPSession)
        if model._meta.db_table in tables and model.objects.all()._raw_delete("default")
    ]
    assert not left


def assert_no_connection_left(maker: Maker) -> None:
    """A connection that nobody closes fails this test, and no later one in which it is collected."""
    for alias in ALIASES:
        connections[alias].close()
        # A test may have changed it.
        connections.settings[alias].update(maker(alias))
    names = [maker(alias)["NAME"] for alias in ALIASES]
    left: list[Any] = []
    with connections["first"].cursor() as cursor:
        # The service notices the end of a connection a moment later.
        for _ in range(200):
            cursor.execute(
                "SELECT state, query FROM pg_stat_activity"
                " WHERE datname = ANY(%s) AND pid <> pg_backend_pid()",
                [names],
            )
            left = cursor.fetchall()
            if not left:
                return
            cursor.execute("SELECT pg_sleep(0.1)")
    raise AssertionError(f"connections are left open: {left}")


@pytest.fixture
def sqlite_settings(sqlite_files: Path, tmp_path: Path) -> Maker:
    """Of files of the test's own."""
    for alias in ALIASES:
        copy(sqlite_files / f"{alias}.sqlite3", tmp_path)
    return in_files(tmp_path)


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Path:
    """A folder with files that have the tables, to be copied: making them takes longer."""
    folder = tmp_path_factory.mktemp("databases")
    with django_db_blocker.unblock(), serving(in_files(folder)):
        make_tables()
    return folder


def in_files(folder: Path) -> Maker:
    return lambda alias: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": folder / f"{alias}.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


_numbers = itertools.count(1)


def _make_names() -> dict[str, str]:
    """Return new names of databases. A process makes them twice if two parts of the tests import a fixture."""
    number = next(_numbers)
    return {alias: f"django_mcp_{alias}_{os.getpid()}_{number}" for alias in ALIASES}


@pytest.fixture(scope="session")
def postgresql_settings(postgres: tuple[str, int], django_db_blocker: Any) -> Iterator[Maker]:
    """Of databases that all tests share, each of which leaves them empty; gone in the end."""
    import psycopg
    from psycopg import sql

    host, port = postgres
    user = os.environ.get("PGUSER", "postgres")
    password = os.environ.get("PGPASSWORD", "")
    names = _make_names()

    def run(command: str) -> None:
        with psycopg.connect(
            host=host, port=port, user=user, password=password, dbname="postgres", autocommit=True
        ) as connection:
            for name in names.values():
                connection.execute(sql.SQL(command).format(sql.Identifier(name)))

    def make(alias: str) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": names[alias],
            "USER": user,
            "PASSWORD": password,
            "HOST": host,
            "PORT": str(port),
        }

    run("CREATE DATABASE {}")
    try:
        with django_db_blocker.unblock(), serving(make):
            make_tables()
        yield make
    finally:
        run("DROP DATABASE {} WITH (FORCE)")


@pytest.fixture(scope="session")
def mariadb_settings(mariadb: tuple[str, int], django_db_blocker: Any) -> Iterator[Maker]:
    """As `postgresql_settings`."""
    pymysql = pytest.importorskip("pymysql")
    from tests.support import mysql_driver  # noqa: F401  (takes the place of mysqlclient)

    host, port = mariadb
    access: dict[str, Any] = {
        "host": host,
        "port": port,
        "user": os.environ.get("MYSQL_USER", "root"),
        "password": os.environ.get("MYSQL_PASSWORD", ""),
    }
    names = _make_names()

    def run(command: str) -> None:
        with pymysql.connect(**access) as connection, connection.cursor() as cursor:
            for name in names.values():
                cursor.execute(command.format(name))

    def make(alias: str) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": names[alias],
            **{key.upper(): str(value) for key, value in access.items()},
        }

    run("CREATE DATABASE `{}` CHARACTER SET utf8mb4")
    try:
        with django_db_blocker.unblock(), serving(make):
            make_tables()
        yield make
    finally:
        run("DROP DATABASE `{}`")
