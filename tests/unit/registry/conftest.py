import pytest

from tests.support.registry import Site


@pytest.fixture
def site() -> Site:
    return Site()
