import pytest

from tests.registry.site import Site


@pytest.fixture
def site() -> Site:
    return Site()
