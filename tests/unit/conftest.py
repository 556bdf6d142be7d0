"""Databases to write to, apart from the test database, and a new limit of the log for each test."""

import sys
from collections.abc import Iterator

import pytest

from tests.support.databases import (
    databases,
    mariadb_settings,
    postgresql_settings,
    sqlite_files,
    sqlite_settings,
)

__all__ = [
    "databases",
    "mariadb_settings",
    "postgresql_settings",
    "sqlite_files",
    "sqlite_settings",
]


@pytest.fixture(autouse=True)
def empty_refusal_log() -> None:
    """Reset the limit of logged rejections for each test."""
    from django_mcp.transports.http.replies import refusals

    refusals.reset()


@pytest.fixture(autouse=True)
def forgotten_sites() -> Iterator[None]:
    """Let no later test find what stands in for a server in tests of session stores."""
    yield
    support = sys.modules.get("tests.support.session_sites")
    if support is not None:
        support.forget_sites()
