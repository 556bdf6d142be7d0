"""InProcess: the methods of a server that call its entries without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from asgiref.sync import async_to_sync

from django_mcp.handlers.threads import in_calling_thread
from django_mcp.inprocess.call import Surroundings, send
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ResourceResult,
)
from django_mcp.protocol.json import JSONObject

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["InProcess"]

P = ParamSpec("P")
T = TypeVar("T")


class InProcess:
    """Calls of a server in its own process, with the same checks as for a client.

    Visibility, validation, timeouts, limits and `DJANGO_MCP["MIDDLEWARE"]` apply as over a
    transport. Errors of the server raise an `MCPError`; errors for the model (wrong arguments, a
    failure) are a result with `is_error`.

    From synchronous code, synchronous handlers run in the calling thread, on its database
    connections and inside its transaction. All methods take the keywords of `Surroundings`.
    """

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Surroundings],
    ) -> CallResult:
        """Call a tool.

        Args:
            name: its name.
            arguments: values that JSON can represent.
            how: the user and the listeners; see `Surroundings`.

        Raises:
            UnknownTool: there is none for this user.
            MissingCapability: it has to ask, and there are no `answers`.
            Unanswered: a question has no answer.
            MCPError: any other error.
        """
        return _wait(self.acall_tool, name, arguments, **how)

    async def acall_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Surroundings],
    ) -> CallResult:
        """Call a tool; see `call_tool`."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return CallResult(raw=await self._send("tools/call", params, how))

    def read_resource(self, uri: str, **how: Unpack[Surroundings]) -> ResourceResult:
        """Read the resource at a URI.

        Raises:
            UnknownResource: there is none for this user.
            MCPError: any other error, or a failure of the handler.
        """
        return _wait(self.aread_resource, uri, **how)

    async def aread_resource(self, uri: str, **how: Unpack[Surroundings]) -> ResourceResult:
        """Read a resource; see `read_resource`."""
        return ResourceResult(raw=await self._send("resources/read", {"uri": uri}, how))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> FilledPrompt:
        """Get a prompt with its arguments filled in.

        Raises:
            UnknownPrompt: there is none for this user.
            MCPError: any other error, such as a missing argument, or a failure of the handler.
        """
        return _wait(self.aget_prompt, name, arguments, **how)

    async def aget_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> FilledPrompt:
        """Get a prompt; see `get_prompt`."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return FilledPrompt(raw=await self._send("prompts/get", params, how))

    def complete(
        self,
        of: str,
        argument: str,
        value: str = "",
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> CompletionResult:
        """Return proposed values for an argument of a prompt or a resource template.

        Args:
            of: the prompt's name, or the template's URI.
            argument: the argument's name.
            value: its text so far.
            arguments: the other arguments, as far as they are known.
            how: see `Surroundings`.

        Raises:
            UnknownReference: there is no such prompt or template for this user.
            MCPError: any other error, such as an unknown argument.
        """
        return _wait(self.acomplete, of, argument, value, arguments, **how)

    async def acomplete(
        self,
        of: str,
        argument: str,
        value: str = "",
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> CompletionResult:
        """Return proposed values; see `complete`."""
        params = completion_params(of, argument, value, arguments)
        return CompletionResult(raw=await self._send("completion/complete", params, how))

    def list_tools(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the tools that the user sees, in the protocol's form."""
        return _wait(self.alist_tools, **how)

    async def alist_tools(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the tools that the user sees; see `list_tools`."""
        return await self._list("tools/list", how)

    def list_resources(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resources that the user sees, in the protocol's form."""
        return _wait(self.alist_resources, **how)

    async def alist_resources(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resources that the user sees; see `list_resources`."""
        return await self._list("resources/list", how)

    def list_resource_templates(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resource templates that the user sees, in the protocol's form."""
        return _wait(self.alist_resource_templates, **how)

    async def alist_resource_templates(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resource templates that the user sees; see `list_resource_templates`."""
        return await self._list("resources/templates/list", how)

    def list_prompts(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the prompts that the user sees, in the protocol's form."""
        return _wait(self.alist_prompts, **how)

    async def alist_prompts(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the prompts that the user sees; see `list_prompts`."""
        return await self._list("prompts/list", how)

    async def _send(self, method: str, params: JSONObject, how: Surroundings) -> JSONObject:
        return await send(self._as_server(), method, params, **how)

    async def _list(self, method: str, how: Surroundings) -> list[JSONObject]:
        server = self._as_server()
        if not LISTS[method] & server.derived.features:
            # The server has no such list if nothing is registered; in process it is empty.
            return []
        found: list[JSONObject] = []
        params: JSONObject = {}
        while True:
            page = await send(server, method, params, **how)
            found += page[LIST_KEYS[method]]
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    def _as_server(self) -> MCPServer:
        return self  # type: ignore[return-value]  # a part of one


LISTS = {
    "tools/list": {"tools"},
    "resources/list": {"resources"},
    "resources/templates/list": {"resources"},
    "prompts/list": {"prompts"},
}
"""The lists, and the feature that each needs."""

LIST_KEYS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The key of each list in its result."""


def completion_params(
    of: str, argument: str, value: str, arguments: Mapping[str, str] | None
) -> JSONObject:
    """Return the params of `completion/complete`."""
    ref = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
    params: JSONObject = {"ref": ref, "argument": {"name": argument, "value": value}}
    if arguments:
        params["context"] = {"arguments": dict(arguments)}
    return params


def _wait(function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def run() -> T:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await function(*args, **kwargs)

    with in_calling_thread():
        try:
            return async_to_sync(run)()
        except KeyboardInterrupt:
            # The handler runs in this thread, and would wait for an event loop in another.
            for loop, task in running:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise
