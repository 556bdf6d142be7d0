import pytest

from tests.support.registry_site import Site


@pytest.fixture
def site() -> Site:
    return Site()
