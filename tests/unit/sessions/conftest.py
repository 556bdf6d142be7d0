"""What the tests of sessions share: a clock, the kinds of stores, and the databases they run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.session_sites import Time, in_first


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture(params=["memory", "database"])
def kind(request: pytest.FixtureRequest) -> str:
    """The store of a `site`: in this process, or in the database."""
    found: str = request.param
    return found


@pytest.fixture(autouse=True)
def routed(databases: str) -> Iterator[None]:
    with in_first():
        yield
