"""A server with a hidden and an open one of everything that can be named."""

from __future__ import annotations

from typing import Any

from django_mcp import MCPServer
from tests.auth.guarded.people import Named

SEE = "shop.see_secrets"


def make_server() -> MCPServer:
    server = MCPServer("guarded", public=True, authenticators=[Named()])

    @server.tool(permission=SEE, input_schema=SCHEMA)
    def hidden(arguments: dict[str, Any]) -> str:
        return "canary"

    @server.tool
    def shown(n: int = 1) -> str:
        return "shown"

    server.resource("x://hidden", permission=SEE, name="r-hidden")(lambda: "canary")
    server.resource("x://shown", name="r-shown")(lambda: "shown")
    server.resource("hidden://{n}", permission=SEE, name="t-hidden")(template)
    server.resource("shown://{n}", name="t-shown")(template)
    server.prompt(name="hidden", permission=SEE)(lambda n="1": "canary")
    server.prompt(name="shown")(prompt)

    @server.completion("hidden", "n")
    def complete_hidden(value: str) -> list[str]:
        return ["canary"]

    @server.completion("hidden://{n}", "n")
    def complete_hidden_too(value: str) -> list[str]:
        return ["canary"]

    @server.completion("shown", "n", permission=SEE)
    def complete_shown(value: str) -> list[str]:
        return ["canary"]

    @server.tool(scopes=["write"])
    def scoped() -> str:
        return "written"

    return server


SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


def template(n: str) -> str:
    return "canary"


def prompt(n: str = "1") -> str:
    return "shown"
