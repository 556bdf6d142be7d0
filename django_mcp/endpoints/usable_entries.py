"""What a key of a user can name: the entries that the user may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_mcp.auth.permissions import visible_to
from django_mcp.registry.entries import TEMPLATES
from django_mcp.servers import MCPServer


def usable_entries(user: Any, servers: Iterable[MCPServer]) -> dict[str, set[str]]:
    """Return the tools, resources and prompts that a user may use; others stay unknown to them."""
    entries: dict[str, set[str]] = {"tools": set(), "resources": set(), "prompts": set()}
    for server in servers:
        visible = visible_to(user, server.engine.derived.requirements)
        for entry in server.registry.entries():
            if visible.includes(entry):
                mapping = "resources" if entry.kind is TEMPLATES else entry.kind.mapping
                entries[mapping].add(entry.key)
    return entries
