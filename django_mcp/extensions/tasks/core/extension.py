"""TasksExtension: calls that outlive their request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from django_mcp.extensions.tasks.core import methods, schemas  # noqa: F401 - declares the schemas
from django_mcp.extensions.tasks.core.listening import listen
from django_mcp.extensions.tasks.core.memory import LoopRunner, MemoryTasks
from django_mcp.extensions.tasks.core.ports import TaskPorts
from django_mcp.extensions.tasks.core.run import hand_back_runs, stop_run
from django_mcp.extensions.tasks.core.shapes import (
    EXTENSION,
    NEVER,
    REQUIRED,
    RULES,
    SUPPORT,
    support_of,
)
from django_mcp.extensions.tasks.core.start import Sweeper, call_with_tasks
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.extension import Extension, ExtensionMethod, Listening, NextCall
from django_mcp.server.services import ServedCall, Services

_CLIENTS = [name for name, rules in RULES.items() if rules.by_client]
_SERVERS = [name for name, rules in RULES.items() if not rules.by_client]


class TasksExtension(Extension):
    """Tasks of both kinds: those that clients request, and those that the server makes of calls.

    Source: 2025-11-25 basic/utilities/tasks; the extension `io.modelcontextprotocol/tasks`.
    """

    identifier = EXTENSION
    listen_keys = ("taskIds",)
    call_params = ("task",)
    describes = True
    # Its methods tell of tasks of the caller only, and of tools that it can see.
    permission = ()
    scopes = ()
    serves_restricted = True

    def __init__(self, ports: TaskPorts) -> None:
        self.ports = ports
        self._sweeper = Sweeper()

    def is_offered(self, registry: Registry) -> bool:
        return any(support_of(tool) != NEVER for tool in registry.tools.values())

    def find_capabilities(
        self, revision: Revision, exchange: Exchange, client_info: Mapping[str, Any] | None
    ) -> JSONObject:
        rules = RULES.get(revision.name)
        if rules is None or not rules.by_client:
            return super().find_capabilities(revision, exchange, client_info)
        # Anonymous callers have no list.
        lists: JSONObject = {} if key_of(exchange.caller.principal) is None else {"list": {}}
        return {"tasks": {**lists, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        def at(revisions: list[str], answer: Any) -> ExtensionMethod:
            return ExtensionMethod(answer=answer, revisions=revisions, mirrored_param="taskId")

        both = [*_CLIENTS, *_SERVERS]
        return {
            "tasks/get": at(both, methods.get),
            "tasks/cancel": at(both, methods.cancel),
            "tasks/list": at(_CLIENTS, methods.list_tasks),
            "tasks/result": at(_CLIENTS, methods.result),
            "tasks/update": at(_SERVERS, methods.update),
        }

    @classmethod
    def read_option(cls, value: Any) -> Any:
        if value not in SUPPORT:
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, SUPPORT))}")
        return value

    def wraps(self, tool: ToolEntry) -> bool:
        return support_of(tool) != NEVER

    def is_required_by(self, tool: ToolEntry) -> bool:
        return support_of(tool) == REQUIRED

    async def call_tool(
        self, call: ServedCall, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
    ) -> bytes | Refusal:
        return await call_with_tasks(call, tool, arguments, call_next)

    def is_active(self, call: Call) -> bool:
        """See `Extension.is_active`. Where clients request tasks themselves, all may."""
        return call.rules.name in _CLIENTS or super().is_active(call)

    def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
        if revision.name not in _CLIENTS or support_of(entry) == NEVER:
            return {}
        return {"execution": {"taskSupport": SUPPORT[support_of(entry)]}}

    async def listen(self, call: ServedCall, key: str, wanted: Any) -> Listening | Refusal:
        return await listen(call, wanted)

    def receive(self, server: Services, data: JSONObject) -> None:
        stop_run(server.hub, cast("str", data.get("ended")))

    def tick(self, server: Services) -> Awaitable[None] | None:
        self._sweeper.tick(server)
        return None

    async def shutdown(self, server: Services) -> None:
        await hand_back_runs(server.hub)


EXTENSION_CLASS = TasksExtension


def in_memory(clock: Callable[[], float]) -> TasksExtension:
    """Return the extension of a server that keeps its tasks in this process."""
    return TasksExtension(TaskPorts(store=MemoryTasks(clock), runner=LoopRunner()))
