"""A tool that tells how far it is."""

from __future__ import annotations

from django_mcp import Context, MCPServer

server = MCPServer("terminal")


@server.tool
def count(ctx: Context) -> str:
    """Count."""
    ctx.progress(1, 2, "half way")
    return "done"
