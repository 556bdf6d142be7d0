"""What every test shares: Hypothesis profiles, and services that CI may not do without."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.backends import is_answering, postgres_address, redis_address

settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", parent=settings.get_profile("default"), max_examples=10)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


APART = ("architecture", "fuzz", "live", "unit/contrib/oauth", "unit/management")
"""What starts servers, browsers and clusters, or reads the sources: it takes most of the time and
depends least on the versions of what we need."""


def is_apart(path: Path) -> bool:
    """Tell whether a file or folder is one of `APART`, or in one."""
    here = Path(__file__).parent
    return any(path.is_relative_to(here / name) for name in APART)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read what `-m "not apart"` would leave out."""
    leaves_out = config.option.markexpr.startswith("not apart")
    return True if leaves_out and is_apart(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark what is apart, and run it first: of several processes none is left with a long one at the end."""
    for item in items:
        if is_apart(item.path):
            item.add_marker("apart")
    yield
    items.sort(key=lambda item: item.get_closest_marker("apart") is None)


@pytest.fixture(autouse=True)
def idle_pools(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the threads of the pools finish before the tables are emptied after a transactional test.

    The event loop of a test is closed by then, and whatever it waited for is cancelled: in a test that
    takes longer than `TICK_S`, also what the hub looks after. A query goes on in its thread all the same,
    and SQLite empties no table that is being read.
    """
    marker = request.node.get_closest_marker("django_db")
    is_marked = marker is not None and marker.kwargs.get("transaction", False)
    if not is_marked and "transactional_db" not in request.fixturenames:
        yield
        return
    # Its tables are emptied after this.
    request.getfixturevalue("transactional_db")
    yield
    wait_for_pools()


def wait_for_pools() -> None:
    """Wait until no thread of the pools works any more."""
    from django_mcp.handlers import threads

    lanes = threads._lanes
    if lanes is None:
        return
    pools = (lanes.pool, lanes.task_pool, lanes.our_pool, lanes.authentication_pool)
    until_s = time.monotonic() + 20
    for pool in filter(None, pools):
        while (state := pool.find_state()).running or state.waiting:
            # There is nothing else to wait for.
            assert time.monotonic() < until_s, state
            time.sleep(0.001)


def require_service(name: str, host: str, port: int) -> None:
    """Skip the test when a service does not answer; fail it on CI, where it has to."""
    if is_answering(host, port):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{name} does not answer on {host}:{port}, and CI must not skip its tests")
    pytest.skip(f"{name} does not answer on {host}:{port}")


@pytest.fixture(scope="session")
def postgres() -> tuple[str, int]:
    """Where PostgreSQL listens: PGHOST and PGPORT, or 127.0.0.1:5432."""
    host, port = postgres_address()
    require_service("PostgreSQL", host, port)
    return host, port


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of a Redis: REDIS_HOST and REDIS_PORT, or 127.0.0.1:6379."""
    host, port = redis_address()
    require_service("Redis", host, port)
    return f"redis://{host}:{port}"
