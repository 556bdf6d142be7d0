"""Calls of tools that have to succeed, or to fail."""

from __future__ import annotations

from typing import Any

from django_mcp.test import MCPClient


def read(client: MCPClient, tool: str, **arguments: Any) -> Any:
    """Return the structured content of a call that succeeds."""
    found = client.call(tool, **arguments)
    assert not found.is_error, found.text
    return found.structured


def refuse(client: MCPClient, tool: str, **arguments: Any) -> str:
    """Return the text of a call that fails; for wrong arguments, what is wrong with the first."""
    found = client.call(tool, **arguments)
    assert found.is_error, found.structured
    return found.text.removeprefix("Invalid arguments:\n- ")
