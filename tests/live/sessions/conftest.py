"""The site of `tests.support.site.sessions` on two processes that share PostgreSQL and Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.backends import Backends, own_postgres
from tests.support.sessions.cluster import SITE, Cluster, serving
from tests.support.sessions.rows import Rows


@pytest.fixture(scope="session")
def postgres_name(postgres: tuple[str, int]) -> Iterator[str]:
    """A migrated database of our own, gone at the end of the session."""
    with own_postgres("sessions", SITE) as name:
        yield name


@pytest.fixture(scope="session")
def rows(postgres_name: str) -> Rows:
    """The rows of the database."""
    return Rows(name=postgres_name)


@pytest.fixture(scope="session")
def shared(postgres_name: str, redis_url: str) -> Backends:
    """A PostgreSQL and a Redis that several processes share."""
    return Backends(postgres=postgres_name, redis=f"{redis_url}/0 sessions{os.getpid()}")


@pytest.fixture
def unshared(postgres: tuple[str, int], redis_url: str) -> Iterator[Backends]:
    """A PostgreSQL and a Redis that no other site uses, whose workers would take over tasks."""
    with own_postgres("unshared", SITE) as name:
        yield Backends(postgres=name, redis=f"{redis_url}/0 unshared{os.getpid()}")


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
    """Tests that use them need the services."""
    for item in items:
        if {"shared", "unshared"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)
