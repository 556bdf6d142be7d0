"""Users and clients of the admin's pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from tests.unit.admin.test_pages import HERE, client_of


@pytest.fixture
def here(db: None) -> Iterator[None]:
    """Serve requests in this process, with the site that the pages belong to."""
    with HERE:
        yield


@pytest.fixture
def admin() -> Client:
    """Return the browser of a superuser."""
    return client_of("boss", is_superuser=True)
