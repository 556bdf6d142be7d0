"""What every test shares: Hypothesis profiles, and services that CI may not do without."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.backends import is_answering, postgres_address, redis_address

settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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
