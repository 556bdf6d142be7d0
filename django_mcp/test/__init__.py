"""The test kit: test clients like Django's, which need no server and run inside transactions."""

from __future__ import annotations

from django_mcp.test.cases import MCPTestCase, MCPTransactionTestCase
from django_mcp.test.client import AsyncMCPClient, MCPClient
from django_mcp.test.results import UnnoticedError

__all__ = ["AsyncMCPClient", "MCPClient", "MCPTestCase", "MCPTransactionTestCase", "UnnoticedError"]
