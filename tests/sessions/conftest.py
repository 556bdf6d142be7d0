"""The site of `tests.sessions.site` on two processes that share PostgreSQL and Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql

from tests.sessions.cluster import Backends, Cluster, manage, serving
from tests.sessions.rows import Rows


@pytest.fixture(scope="session")
def postgres_name(
    postgres: tuple[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A migrated database of our own, gone at the end of the session."""
    name = f"django_mcp_sessions_{os.getpid()}"
    database = Rows(name=name, host=postgres[0], port=postgres[1])

    def run(command: str) -> None:
        with database.connect("postgres") as connection:
            connection.execute(sql.SQL(command).format(sql.Identifier(name)))

    run("CREATE DATABASE {}")
    try:
        folder = tmp_path_factory.mktemp("migrate")
        manage(Backends(postgres=name), folder, "migrate", "-v", "0")
        yield name
    finally:
        run("DROP DATABASE {} WITH (FORCE)")


@pytest.fixture(scope="session")
def rows(postgres: tuple[str, int], postgres_name: str) -> Rows:
    """What is in the database."""
    return Rows(name=postgres_name, host=postgres[0], port=postgres[1])


@pytest.fixture(scope="session")
def shared(postgres_name: str, redis_url: str) -> Backends:
    """A PostgreSQL and a Redis that several processes share."""
    return Backends(postgres=postgres_name, redis=f"{redis_url}/0 sessions{os.getpid()}")


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def cluster(
    request: pytest.FixtureRequest, shared: Backends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two processes of one site; their logs show no fault."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    with serving(shared, folder, server=request.param) as cluster:
        yield cluster
    assert "Traceback" not in cluster.logs()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses them needs the services."""
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.services)
