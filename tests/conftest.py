"""What every test shares: Hypothesis profiles, and services that CI may not do without."""

from __future__ import annotations

import os
from collections.abc import Generator
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
