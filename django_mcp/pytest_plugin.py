"""The pytest fixtures `mcp_client` and `async_mcp_client`, for sites that use pytest-django."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_mcp.test import AsyncMCPClient, MCPClient


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> Iterator[MCPClient]:
    """Return a client of the default server; see `django_mcp.test.MCPClient`."""
    with _without_calls(request):
        from django_mcp.test import MCPClient

        client = MCPClient()
        yield client
        client.report_unnoticed()


@pytest.fixture
def async_mcp_client(request: pytest.FixtureRequest) -> Iterator[AsyncMCPClient]:
    """Return a client of the default server for asynchronous tests."""
    with _without_calls(request):
        from django_mcp.test import AsyncMCPClient

        client = AsyncMCPClient()
        yield client
        client.report_unnoticed()


@contextmanager
def _without_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    # It sets Django up, and decides which tests may use the database.
    if not request.config.pluginmanager.hasplugin("django"):
        pytest.fail(f"{request.fixturename} needs pytest-django: pip install pytest-django")
    from django_mcp.calls.recorder import forget_calls

    forget_calls()
    yield
    forget_calls()
