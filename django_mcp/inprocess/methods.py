"""InProcess: the methods of a server that call what is registered on it, without a transport."""

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
    """What a server can be asked in its own process, with the checks that a client meets.

    Visibility, validation, timeouts, limits and `DJANGO_MCP["MIDDLEWARE"]` are those of a call
    over a transport. What the server refuses raises an `MCPError`; what a tool tells the model of
    (wrong arguments, a failure) is a result with `is_error`.

    From synchronous code, synchronous handlers run in the calling thread, on its database
    connections and inside its transaction. All take the keywords of `Surroundings`.
    """

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Surroundings],
    ) -> CallResult:
        """Call a tool.

        Args:
            name: which one.
            arguments: values that have a form in JSON.
            how: on whose behalf, and who listens; see `Surroundings`.

        Raises:
            UnknownTool: there is none for this user.
            MissingCapability: it has to ask, and there are no `answers`.
            Unanswered: it asks what they have no answer for.
            MCPError: any other refusal.
        """
        return _wait(self.acall_tool, name, arguments, **how)

    async def acall_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Surroundings],
    ) -> CallResult:
        """Do as `call_tool` does, from asynchronous code."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return CallResult(raw=await self._send("tools/call", params, how))

    def read_resource(self, uri: str, **how: Unpack[Surroundings]) -> ResourceResult:
        """Read the resource at a URI.

        Raises:
            UnknownResource: there is none for this user.
            MCPError: any other refusal, or a failure of the handler.
        """
        return _wait(self.aread_resource, uri, **how)

    async def aread_resource(self, uri: str, **how: Unpack[Surroundings]) -> ResourceResult:
        """Do as `read_resource` does, from asynchronous code."""
        return ResourceResult(raw=await self._send("resources/read", {"uri": uri}, how))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> FilledPrompt:
        """Fill a prompt in.

        Raises:
            UnknownPrompt: there is none for this user.
            MCPError: any other refusal, such as a missing argument, or a failure of the handler.
        """
        return _wait(self.aget_prompt, name, arguments, **how)

    async def aget_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Surroundings],
    ) -> FilledPrompt:
        """Do as `get_prompt` does, from asynchronous code."""
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
        """Propose values for an argument of a prompt or a resource template.

        Args:
            of: the prompt's name, or the template's URI.
            argument: the argument's name.
            value: what stands there so far.
            arguments: the other arguments, as far as they are known.
            how: see `Surroundings`.

        Raises:
            UnknownReference: there is no such prompt or template for this user.
            MCPError: any other refusal, such as an unknown argument.
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
        """Do as `complete` does, from asynchronous code."""
        params = completion_params(of, argument, value, arguments)
        return CompletionResult(raw=await self._send("completion/complete", params, how))

    def list_tools(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the tools that the user sees, as the protocol has them."""
        return _wait(self.alist_tools, **how)

    async def alist_tools(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Do as `list_tools` does, from asynchronous code."""
        return await self._list("tools/list", how)

    def list_resources(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resources that the user sees, as the protocol has them."""
        return _wait(self.alist_resources, **how)

    async def alist_resources(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Do as `list_resources` does, from asynchronous code."""
        return await self._list("resources/list", how)

    def list_resource_templates(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the resource templates that the user sees, as the protocol has them."""
        return _wait(self.alist_resource_templates, **how)

    async def alist_resource_templates(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Do as `list_resource_templates` does, from asynchronous code."""
        return await self._list("resources/templates/list", how)

    def list_prompts(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Return the prompts that the user sees, as the protocol has them."""
        return _wait(self.alist_prompts, **how)

    async def alist_prompts(self, **how: Unpack[Surroundings]) -> list[JSONObject]:
        """Do as `list_prompts` does, from asynchronous code."""
        return await self._list("prompts/list", how)

    async def _send(self, method: str, params: JSONObject, how: Surroundings) -> JSONObject:
        return await send(self._as_server(), method, params, **how)

    async def _list(self, method: str, how: Surroundings) -> list[JSONObject]:
        server = self._as_server()
        if not LISTS[method] & server.derived.features:
            # Without one of its kind there is no such list; in process that is an empty one.
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
"""Where a list stands in its result."""


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
            # It came to this thread; the event loop is in another, and would wait for the handler.
            for loop, task in running:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise
