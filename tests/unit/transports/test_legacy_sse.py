"""The addresses of HTTP+SSE."""

from __future__ import annotations


def test_it_is_there_only_where_a_site_wants_it() -> None:
    from django_mcp.conf import SETTINGS
    from django_mcp.servers import MCPServer

    def routes(server: MCPServer) -> set[str]:
        return {str(each.pattern) for each in server.urls[0]}

    plain = MCPServer("plain", public=True)
    old = MCPServer("old", public=True, legacy_sse=True)

    assert SETTINGS["LEGACY_SSE"].default is False
    assert routes(old) - routes(plain) == {"sse", "messages"}
