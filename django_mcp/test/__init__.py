"""The test kit: test clients like Django's, which need no server and run inside transactions.

Names are imported on first use, so that the pytest plugin costs nothing on sites without tests of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.test.cases import MCPTestCase as MCPTestCase
    from django_mcp.test.cases import MCPTransactionTestCase as MCPTransactionTestCase
    from django_mcp.test.client import AsyncMCPClient as AsyncMCPClient
    from django_mcp.test.client import MCPClient as MCPClient

_HOMES = {
    "AsyncMCPClient": "django_mcp.test.client",
    "MCPClient": "django_mcp.test.client",
    "MCPTestCase": "django_mcp.test.cases",
    "MCPTransactionTestCase": "django_mcp.test.cases",
}

__all__ = ["AsyncMCPClient", "MCPClient", "MCPTestCase", "MCPTransactionTestCase"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
