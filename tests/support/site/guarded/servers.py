"""A server with a hidden and an open entry of every kind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django_mcp import MCPServer
from django_mcp.extensions.tasks.core.memory import MemoryTasks
from django_mcp.extensions.tasks.core.shapes import COMPLETED
from django_mcp.extensions.tasks.core.task import Task
from django_mcp.protocol.revisions import Revision
from tests.support.ports import use_task_ports
from tests.support.site.guarded.people import Named
from tests.support.wire import V2025_11_25, V2026_07_28

SEE = "shop.see_secrets"
TASKS = {"hidden-4": V2025_11_25, "hidden-5": V2026_07_28}
"""Ids of the tasks that are ann's, and what she spoke when she made them."""


class AnnsTasks(MemoryTasks):
    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        anns = {key: anns_task(key, TASKS[key]) for key in task_ids if key in TASKS}
        return {**anns, **await super().find(task_ids)}


def anns_task(key: str, revision: Revision) -> Task:
    return Task(
        id=key,
        server="guarded",
        owner="named:ann",
        session=None,
        revision=revision.name,
        tool="shown",
        call={},
        status=COMPLETED,
        result=b'{"content":[{"type":"text","text":"canary"}]}',
        created_s=time.time(),
        updated_s=time.time(),
        ttl_ms=60_000,
        poll_ms=1000,
    )


def make_server() -> MCPServer:
    server = MCPServer("guarded", public=True, authenticators=[Named()], legacy_sse=True)
    use_task_ports(server, store=AnnsTasks())

    @server.tool(permission=SEE, input_schema=SCHEMA, task="allowed")
    def hidden(arguments: dict[str, Any]) -> str:
        return "canary"

    @server.tool(task="allowed")
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
