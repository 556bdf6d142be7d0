"""Bind the arguments of a handler, as the server does for a call."""

from __future__ import annotations

from typing import Any

from django_mcp.registry.arguments import Handler


def bind(handler: Handler, arguments: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Return the keyword arguments of a call."""
    bound = handler.read(arguments)
    handler.inject(bound, ctx)
    return bound
