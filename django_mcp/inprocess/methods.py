"""InProcess: the methods of a server that call its entries without a transport."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack

from asgiref.sync import async_to_sync

from django_mcp.execution.threads import in_calling_thread
from django_mcp.inprocess.call import Environment, send
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ListedEntries,
    ResourceResult,
)
from django_mcp.protocol.json import JSONObject, present
from django_mcp.registry.signatures import named
from django_mcp.server.engine import Engine
from django_mcp.server.setting import LIST_METHODS

P = ParamSpec("P")
T = TypeVar("T")


def _in_sync(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the synchronous form of a coroutine function, which runs in the calling thread."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
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

    return named(call, function.__name__.removeprefix("a"), like=function)


class InProcess(ABC):
    """Calls of a server in its own process, with the same checks as for a client.

    Visibility, validation, timeouts, limits and `DJANGO_MCP["MIDDLEWARE"]` apply as over a
    transport. Errors of the server raise an `MCPError`; errors for the model (wrong arguments, a
    failure) are a result with `is_error`.

    From synchronous code, synchronous handlers run in the calling thread, on its database
    connections and inside its transaction. All methods take the keywords of `Environment`; each
    has an asynchronous form, such as `acall_tool` for `call_tool`.
    """

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """What the package's own code uses of the server; it may change in any version."""

    async def acall_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Environment],
    ) -> CallResult:
        """Call a tool.

        Args:
            name: its name.
            arguments: values that JSON can represent.
            how: the user and the listeners; see `Environment`.

        Raises:
            UnknownTool: there is none for this user.
            MissingCapability: it has to ask, and there are no `answers`.
            Unanswered: a question has no answer.
            MCPError: any other error.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return CallResult(raw=await send(self.engine, "tools/call", params, **how))

    async def aread_resource(self, uri: str, **how: Unpack[Environment]) -> ResourceResult:
        """Read the resource at a URI.

        Raises:
            UnknownResource: there is none for this user.
            MCPError: any other error, or a failure of the handler.
        """
        return ResourceResult(raw=await send(self.engine, "resources/read", {"uri": uri}, **how))

    async def aget_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **how: Unpack[Environment],
    ) -> FilledPrompt:
        """Get a prompt with its arguments filled in. Numbers are passed as strings, as clients do.

        Raises:
            UnknownPrompt: there is none for this user.
            MCPError: any other error, such as a missing argument, or a failure of the handler.
        """
        params = {"name": name, "arguments": to_texts(arguments or {})}
        return FilledPrompt(raw=await send(self.engine, "prompts/get", params, **how))

    async def acomplete(
        self,
        of: str,
        argument: str,
        value: str = "",
        arguments: Mapping[str, str] | None = None,
        **how: Unpack[Environment],
    ) -> CompletionResult:
        """Return proposed values for an argument of a prompt or a resource template.

        Args:
            of: the prompt's name, or the template's URI.
            argument: the argument's name.
            value: its text so far.
            arguments: the other arguments, as far as they are known.
            how: see `Environment`.

        Raises:
            UnknownReference: there is no such prompt or template for this user.
            MCPError: any other error, such as an unknown argument.
        """
        params = completion_params(of, argument, value, arguments)
        return CompletionResult(raw=await send(self.engine, "completion/complete", params, **how))

    async def alist_tools(self, **how: Unpack[Environment]) -> ListedEntries:
        """Return the tools that the user sees, in the protocol's form."""
        return await self._list("tools/list", how)

    async def alist_resources(self, **how: Unpack[Environment]) -> ListedEntries:
        """Return the resources that the user sees, in the protocol's form."""
        return await self._list("resources/list", how)

    async def alist_resource_templates(self, **how: Unpack[Environment]) -> ListedEntries:
        """Return the resource templates that the user sees, in the protocol's form."""
        return await self._list("resources/templates/list", how)

    async def alist_prompts(self, **how: Unpack[Environment]) -> ListedEntries:
        """Return the prompts that the user sees, in the protocol's form."""
        return await self._list("prompts/list", how)

    call_tool = _in_sync(acall_tool)
    read_resource = _in_sync(aread_resource)
    get_prompt = _in_sync(aget_prompt)
    complete = _in_sync(acomplete)
    list_tools = _in_sync(alist_tools)
    list_resources = _in_sync(alist_resources)
    list_resource_templates = _in_sync(alist_resource_templates)
    list_prompts = _in_sync(alist_prompts)

    async def _list(self, method: str, how: Environment) -> ListedEntries:
        if method.partition("/")[0] not in self.engine.derived.features:
            # The server has no such list if nothing is registered; in process it is empty.
            return ListedEntries()
        return await read_pages(method, lambda params: send(self.engine, method, params, **how))


def to_texts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a prompt with numbers and booleans as strings: MCP has no others."""
    return {
        name: str(value) if isinstance(value, int | float) else value
        for name, value in arguments.items()
    }


async def read_pages(
    method: str, request: Callable[[JSONObject], Awaitable[JSONObject]]
) -> ListedEntries:
    """Return the entries on all pages of a list; `request` sends the method with its params."""
    pages = ListedEntries()
    params: JSONObject = {}
    while True:
        page = await request(params)
        pages += page[LIST_METHODS[method]]
        if "nextCursor" not in page:
            return pages
        params = {"cursor": page["nextCursor"]}


def completion_params(
    of: str, argument: str, value: str, arguments: Mapping[str, str] | None
) -> JSONObject:
    """Return the params of `completion/complete`."""
    ref = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
    context = {"arguments": dict(arguments)} if arguments else None
    return present(ref=ref, argument={"name": argument, "value": value}, context=context)
