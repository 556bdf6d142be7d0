"""The addresses of HTTP+SSE."""

from __future__ import annotations


def test_legacy_sse_urls_are_opt_in() -> None:
    from django_mcp.conf import SETTINGS
    from django_mcp.servers import MCPServer

    def routes(server: MCPServer) -> set[str]:
        return {str(each.pattern) for each in server.urls[0]}

    plain = MCPServer("plain", public=True)
    old = MCPServer("old", public=True, legacy_sse=True)

    assert SETTINGS["LEGACY_SSE"].default is False
    assert routes(old) - routes(plain) == {"sse", "messages"}
