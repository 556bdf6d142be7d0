"""A server with tools that become tasks, and clients of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types

from django_mcp.protocol.asks import ask_form
from django_mcp.protocol.errors import ProtocolError, ToolError
from django_mcp.server.handlers.context import Context
from django_mcp.server.server import BaseServer
from tests.support.server.plain import MCPServer
from tests.support.server.streams import Open, StreamClient
from tests.support.wire import META, V2025_11_25, V2026_07_28

EXTENSION = "io.modelcontextprotocol/tasks"
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
RELATED = "io.modelcontextprotocol/related-task"
LIMIT_S = 10.0
TYPES: Mapping[str, Any] = {
    "tools/call": mcp_types.CreateTaskResult,
    "tasks/get": mcp_types.GetTaskResult,
    "tasks/list": mcp_types.ListTasksResult,
    "tasks/cancel": mcp_types.CancelTaskResult,
    "tasks/result": mcp_types.GetTaskPayloadResult,
}
"""The official types of the results, which the official table of methods leaves out."""


class Person:
    is_authenticated = True

    def __init__(self, key: str) -> None:
        self.key = key


@dataclass
class Sure:
    sure: bool


class Gate:
    """The events of the tool `wait`."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.was_interrupted = asyncio.Event()
        self.runs = 0


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Poll, as clients of tasks do, until a condition is true."""
    async with asyncio.timeout(LIMIT_S):
        while not await is_so():  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.005)


def register_growing(server: MCPServer, gate: Gate) -> None:
    """Register a tool that becomes a task after its first progress."""

    @server.tool(task="auto")
    async def grow(ctx: Context[Any]) -> str:
        await ctx.aprogress(1, 2)
        gate.has_begun.set()
        await gate.may_go_on.wait()
        await ctx.aprogress(2, 2, "grown")
        await asyncio.sleep(3600)
        return "never"


def make_server(**options: Any) -> tuple[MCPServer, Gate]:
    server, gate = MCPServer("tests", task_after_s=0.01, **options), Gate()
    register_growing(server, gate)

    @server.tool
    async def quick() -> str:
        return "at once"

    @server.tool(task="allowed")
    async def wait(ctx: Context[Any]) -> str:
        gate.has_begun.set()
        await ctx.aprogress(1, 2, "half of it")
        try:
            await gate.may_go_on.wait()
        except asyncio.CancelledError:
            gate.was_interrupted.set()
            raise
        return "done"

    @server.tool(task="auto")
    async def auto(ctx: Context[Any]) -> str:
        answer = await ctx.aelicit("Sure?", Sure)
        gate.has_begun.set()
        await gate.may_go_on.wait()
        return f"auto {answer.data.sure}"

    @server.tool(task="auto")
    async def swift() -> str:
        return "no task"

    @server.tool(task="required")
    async def fail() -> str:
        raise ToolError("It went wrong")

    @server.tool(task="allowed")
    async def crash() -> str:
        raise ProtocolError("Cannot be done", code=7, data={"why": "x"})

    @server.tool(task="allowed")
    def confirm(ctx: Context[Any], item: str) -> str:
        gate.runs += 1
        number = ctx.once("number", lambda: 6 + gate.runs)
        answer = ctx.elicit(f"Delete {item}?", Sure)
        return f"{number}: {item}, {answer.data.sure if answer.data else answer.action}"

    @server.tool(task="allowed")
    def both(ctx: Context[Any]) -> str:
        found = ctx.ask({"a": ask_form("A?", Sure), "b": ask_form("B?", Sure)})
        return f"{found['a'].data.sure} {found['b'].data.sure}"

    return server, gate


class Modern(StreamClient):
    """A client of the extension."""

    def __init__(
        self, server: BaseServer, *, declares: bool = True, principal: Any = None, **options: Any
    ) -> None:
        if principal:
            options["principal"] = principal
        super().__init__(server, V2026_07_28, **options)
        extensions: dict[str, Any] = {"extensions": {EXTENSION: {}}} if declares else {}
        self.meta = {META + "clientCapabilities": {**FORMS, **extensions}}

    async def send(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        drop: str = "",
        **headers: str,
    ) -> tuple[int, dict[str, Any]]:
        found = {**(params or {}), "_meta": {**self.meta, **(params or {}).get("_meta", {})}}
        return await super().send(method, found, drop=drop, **headers)

    def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = "call"
    ) -> Open:
        return super().begin(method, {**(params or {}), "_meta": self.meta}, id=id)

    async def raw(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a result that the official types have no form for."""
        status, body = await self.send(method, params)
        assert status == 200, body
        result: dict[str, Any] = body["result"]
        return result

    async def create(self, name: str, **arguments: Any) -> str:
        result = await self.raw("tools/call", {"name": name, "arguments": arguments})
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.raw("tasks/get", {"taskId": task_id})

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Poll a task until it has one of some states."""
        task: dict[str, Any] = {}

        async def is_there() -> bool:
            task.clear()
            task.update(await self.get(task_id))
            return task["status"] in statuses

        await until(is_there)
        return task


class Legacy(StreamClient):
    """A client that requests tasks itself."""

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if not method.startswith("tasks/") and "task" not in (params or {}):
            return await super().result(method, params)
        status, body = await self.send(method, params)
        assert status == 200, body
        found: dict[str, Any] = body["result"]
        TYPES[method].model_validate(found)
        return found

    def __init__(self, server: BaseServer, *, principal: Any = None, **options: Any) -> None:
        if principal:
            options["principal"] = principal
        super().__init__(server, V2025_11_25, **options)

    async def create(self, name: str, ttl: Any = 60_000, **arguments: Any) -> str:
        await self.open(FORMS)
        result = await self.result(
            "tools/call", {"name": name, "arguments": arguments, "task": {"ttl": ttl}}
        )
        assert set(result) == {"task"}
        return str(result["task"]["taskId"])

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        task: dict[str, Any] = {}

        async def is_there() -> bool:
            task.clear()
            task.update(await self.result("tasks/get", {"taskId": task_id}))
            return task["status"] in statuses

        await until(is_there)
        return task
