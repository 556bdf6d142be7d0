"""Two databases to write to, on SQLite and on PostgreSQL, apart from the test database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import override_settings

from django_mcp.models import (
    CallRecord,
    CallTally,
    KeptState,
    PendingAnswer,
    SessionItem,
    Stream,
    StreamEvent,
    Subscription,
    UsedState,
    Worker,
)
from django_mcp.models import Session as MCPSession
from django_mcp.models.bus import BusMessage
from example_project.shop.models import Product

ALIASES = ("first", "second")
MODELS = (
    BusMessage,
    Product,
    Session,
    CallRecord,
    CallTally,
    KeptState,
    UsedState,
    MCPSession,
    SessionItem,
    Subscription,
    Worker,
    Stream,
    StreamEvent,
    PendingAnswer,
)


def make_product(sku: str, using: str = "first") -> Product:
    return Product.objects.using(using).create(sku=sku, name=sku, category="office", price=1)


def products(using: str = "first") -> set[str]:
    return set(Product.objects.using(using).values_list("sku", flat=True))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def databases(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> Iterator[str]:
    """Serve two more aliases, `first` and `second`, with tables of products, sessions and calls; return the vendor."""
    maker = sqlite_settings(tmp_path)
    if request.param == "postgresql":
        maker = request.getfixturevalue("postgres_settings")
    # Changed settings close the pool, whose threads remember the databases of other tests.
    with django_db_blocker.unblock(), override_settings(DJANGO_MCP={}):
        for alias in ALIASES:
            connections.settings.update(
                {alias: connections.configure_settings({"default": {}, alias: maker(alias)})[alias]}
            )
            with connections[alias].schema_editor() as editor:
                for model in MODELS:
                    editor.create_model(model)
        try:
            yield request.param
            assert_nothing_left()
        finally:
            for alias in ALIASES:
                connections[alias].close()
                connections.settings[alias].update(maker(alias))
                with connections[alias].schema_editor() as editor:
                    for model in reversed(MODELS):
                        editor.delete_model(model)
                connections[alias].close()
                del connections[alias], connections.settings[alias]


def assert_nothing_left() -> None:
    """Nothing rolls the test database back here: what is left in it is seen by the next tests."""
    # It has tables only where other tests of this run have asked for it.
    tables = connections["default"].introspection.table_names()
    for model in (MCPSession, Worker, Stream):
        assert model._meta.db_table not in tables or not model.objects.exists()


def sqlite_settings(folder: Path) -> Callable[[str], dict[str, Any]]:
    return lambda alias: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": folder / f"{alias}.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


@pytest.fixture(scope="session")
def postgres_settings(postgres: tuple[str, int]) -> Iterator[Callable[[str], dict[str, Any]]]:
    """What makes settings of a database of our own, gone at the end of the session."""
    import psycopg
    from psycopg import sql

    host, port = postgres
    user = os.environ.get("PGUSER", "postgres")
    password = os.environ.get("PGPASSWORD", "")
    names = {alias: f"django_mcp_{alias}_{os.getpid()}" for alias in ALIASES}

    def run(command: str) -> None:
        with psycopg.connect(
            host=host, port=port, user=user, password=password, dbname="postgres", autocommit=True
        ) as connection:
            for name in names.values():
                connection.execute(sql.SQL(command).format(sql.Identifier(name)))

    run("CREATE DATABASE {}")
    try:
        yield lambda alias: {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": names[alias],
            "USER": user,
            "PASSWORD": password,
            "HOST": host,
            "PORT": str(port),
        }
    finally:
        run("DROP DATABASE {} WITH (FORCE)")
