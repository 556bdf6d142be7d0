"""The pytest fixtures `mcp_client` and `async_mcp_client`, for sites that use pytest-django."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_mcp.test import AsyncMCPClient, MCPClient


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> Iterator[MCPClient]:
    """Return a client of the default server; see `django_mcp.test.MCPClient`."""
    _require_pytest_django(request)
    from django_mcp.calls.recorder import forget_calls
    from django_mcp.test import MCPClient

    forget_calls()
    yield MCPClient()
    forget_calls()


@pytest.fixture
def async_mcp_client(request: pytest.FixtureRequest) -> Iterator[AsyncMCPClient]:
    """Return a client of the default server for asynchronous tests."""
    _require_pytest_django(request)
    from django_mcp.calls.recorder import forget_calls
    from django_mcp.test import AsyncMCPClient

    forget_calls()
    yield AsyncMCPClient()
    forget_calls()


def _require_pytest_django(request: pytest.FixtureRequest) -> None:
    # It sets Django up, and decides which tests may use the database.
    if not request.config.pluginmanager.hasplugin("django"):
        pytest.fail(f"{request.fixturename} needs pytest-django: pip install pytest-django")
