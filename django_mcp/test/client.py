"""MCPClient and AsyncMCPClient: call an endpoint as a client does, without a server or a socket."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from django_mcp.execution.threads import in_calling_thread
from django_mcp.extension_packages import load_parts
from django_mcp.inprocess.methods import completion_params, read_pages, to_texts
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ListedEntries,
    MCPError,
    ResourceResult,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.signatures import named
from django_mcp.test.conversation import BaseClient
from django_mcp.test.listening import (
    LISTS,
    AsyncListening,
    NotificationListener,
    in_sync,
    loop_continues,
)
from django_mcp.test.results import ClientCallResult
from django_mcp.test.visibility import assert_conforming, assert_hidden, assert_visible

_NONE: Mapping[str, Any] = MappingProxyType({})


def _join(mapping: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(mapping, Mapping):
        raise TypeError(f"Pass {mapping!r} by the name of its argument, or all in one mapping.")
    return {**mapping, **arguments}


def _find_helper(name: str) -> Any:
    """Return a function of one of the extensions for tests."""
    helpers = [getattr(part, name) for part in load_parts("testing") if hasattr(part, name)]
    if not helpers:
        raise MCPError(f"This installation lacks the extension with {name}().")
    return helpers[0]


class _Requests(BaseClient):
    async def _send(self, method: str, params: Mapping[str, Any] | None = None) -> JSONObject:
        """Send any request and return its result."""
        with in_calling_thread():
            result = await self._request(method, dict(params or {}))
        for part in load_parts("testing"):
            if hasattr(part, "check_result"):
                part.check_result(self, method, result, loop_ends=self._loop_ends())
        return result

    def _loop_ends(self) -> bool:
        """Return whether the event loop ends with the call, and with it what runs there."""
        return False

    async def _list(self, method: str) -> ListedEntries:
        return await read_pages(method, partial(self._send, method))

    async def _discover(self) -> JSONObject:
        """Return the server's description: capabilities, instructions and so on."""
        if self._revision.is_stateless:
            return await self._send("server/discover", {})
        with in_calling_thread():
            await self._settle()
        return self._greeting or {}


class AsyncMCPClient(_Requests):
    """`MCPClient` for asynchronous tests: the same methods, to be awaited.

    Synchronous handlers run where Django's asynchronous ORM does, and so inside of the transaction
    of an asynchronous test of a `TestCase`.
    """

    send = named(_Requests._send, "send", owner="AsyncMCPClient")
    discover = named(_Requests._discover, "discover", owner="AsyncMCPClient")

    async def call(
        self, tool: str, mapping: Mapping[str, Any] = _NONE, /, **arguments: Any
    ) -> CallResult:
        """Call a tool: `client.call("find_orders", query="x").structured`.

        Args:
            tool: its name.
            mapping: arguments in a mapping, such as those whose names are no Python identifiers.
            arguments: further arguments by name.

        Raises:
            UnknownTool: there is none of that name for the user.
            Unanswered: it asks something that has no `answer`.
            MCPError: any other error.
        """
        params = {"name": tool, "arguments": _join(mapping, arguments)}
        return self._keep(ClientCallResult(tool, await self._send("tools/call", params)))

    async def call_as_task(
        self, tool: str, mapping: Mapping[str, Any] = _NONE, /, **arguments: Any
    ) -> CallResult:
        """Call a tool as a task, answer its questions, and return the result that it ends with.

        The arguments are those of `call`. Afterwards, `task` is the state of the task, in the
        protocol's form, with the last message of its progress. It is None if a tool with `task="auto"`
        answered directly.

        Raises:
            UnknownTool: there is none of that name for the user.
            Unanswered: it asks something that has no `answer`.
            MCPError: any other error, also if the revision or the tool has no tasks.
            TimeoutError: the task has not ended within `task_limit_s` seconds.
        """
        call_as_task = _find_helper("call_as_task")
        with in_calling_thread():
            raw = await call_as_task(self, tool, _join(mapping, arguments))
        return self._keep(ClientCallResult(tool, raw))

    async def app(self, tool: str) -> str:
        """Return the page of a tool, as HTML in the language of the client.

        Raises:
            MCPError: the tool has none, or the user may not read it.
        """
        read_app = _find_helper("read_app")
        with in_calling_thread():
            page: str = await read_app(self, tool)
        return page

    async def assert_app(
        self, tool: str, mapping: Mapping[str, Any] = _NONE, /, **arguments: Any
    ) -> None:
        """Assert that hosts can show the page of a tool with the result of a call.

        The page has a title, a language and labels, and loads nothing that it does not declare. The call
        succeeds, and its result has a text for clients that show no pages.
        """
        assert_app = _find_helper("assert_app")
        with in_calling_thread():
            await assert_app(self, tool, _join(mapping, arguments))

    async def confirm(self, result: CallResult) -> CallResult:
        """Press the button on the page of a tool with `confirm="app"`, and return the result of its call.

        Args:
            result: of the first call, by a client with the capabilities of a host that shows pages.

        Raises:
            MCPError: the result asks nothing on a page, or any other error.
        """
        params = _find_helper("find_confirmed")(result)
        return CallResult(raw=await self._send("tools/call", params))

    async def skills(self) -> list[JSONObject]:
        """Return the entries of all skills that the user sees, in the protocol's form.

        Raises:
            MCPError: the revision has no skills, or the server has none.
        """
        list_skills = _find_helper("list_skills")
        with in_calling_thread():
            skills: list[JSONObject] = await list_skills(self)
        return skills

    async def assert_skill_verifies(self, uri: str) -> None:
        """Assert that hosts can load a skill: its files are as its entry says, byte for byte, and within the limits.

        Args:
            uri: of its `SKILL.md`.

        Raises:
            MCPError: the user sees no such skill, or cannot read a file of it.
        """
        assert_skill_verifies = _find_helper("assert_skill_verifies")
        with in_calling_thread():
            await assert_skill_verifies(self, uri)

    async def read(self, uri: str) -> ResourceResult:
        """Read a resource.

        Raises:
            UnknownResource: there is none for the user.
            MCPError: any other error.
        """
        return ResourceResult(raw=await self._send("resources/read", {"uri": uri}))

    async def prompt(
        self, name: str, mapping: Mapping[str, Any] = _NONE, /, **arguments: Any
    ) -> FilledPrompt:
        """Get a prompt with its arguments filled in; they are given as those of `call`.

        Numbers are passed as strings, as clients do.

        Raises:
            UnknownPrompt: there is none of that name for the user.
            MCPError: any other error.
        """
        params = {"name": name, "arguments": to_texts(_join(mapping, arguments))}
        return FilledPrompt(raw=await self._send("prompts/get", params))

    async def complete(
        self, of: str, argument: str, value: str = "", /, **known: str
    ) -> CompletionResult:
        """Complete an argument of a prompt (by name) or a resource template (by URI).

        Raises:
            UnknownReference: there is none of that name for the user.
            MCPError: any other error.
        """
        params = completion_params(of, argument, value, known)
        return CompletionResult(raw=await self._send("completion/complete", params))

    async def list_tools(self) -> ListedEntries:
        """Return the tools that the user sees, of all pages, in the revision's form."""
        return await self._list("tools/list")

    async def list_resources(self) -> ListedEntries:
        """Return the resources that the user sees."""
        return await self._list("resources/list")

    async def list_resource_templates(self) -> ListedEntries:
        """Return the resource templates that the user sees."""
        return await self._list("resources/templates/list")

    async def list_prompts(self) -> ListedEntries:
        """Return the prompts that the user sees."""
        return await self._list("prompts/list")

    async def assert_hidden(self, *names: str) -> None:
        """Assert that tools, prompts or resources (by URI) exist, but not for this user.

        They are in no list, and using them gives the same error as if they did not exist.
        """
        with in_calling_thread():
            await assert_hidden(self, names)

    async def assert_visible(self, *names: str) -> None:
        """Assert that tools, prompts, resources or templates (by URI) are in this user's lists."""
        with in_calling_thread():
            await assert_visible(self, names)

    async def assert_conforms(self) -> None:
        """Assert that the lists, and all results so far, conform to the revision.

        Needs the package `mcp-types`, which has the types that the protocol's authors publish.
        """
        await self._discover()
        with in_calling_thread():
            await assert_conforming(self)

    def listen(self, *uris: str, lists: Collection[str] = LISTS) -> AsyncListening:
        """Open a stream as `MCPClient.listen` does, for an `async with`; `next()` is to be awaited."""
        return AsyncListening(self, uris, lists)

    def subscribe(self, *uris: str) -> AsyncListening:
        """Open a stream as `listen` does, for these resources alone."""
        return self.listen(*uris, lists=())


class MCPClient(_Requests):
    """A client for tests, like Django's.

    Args:
        server: the server to call; by default the default server. It need not be mounted.
        path: the path of the server in the URLconf, instead of `server`: `"/staff/mcp"`.
        revision: name of the protocol revision to use; by default the newest.
        user: the user of the requests, as by `force_login`.
        headers: of every request, such as `{"Authorization": "Bearer ..."}`.
        capabilities: what the client declares; by default that it can be asked anything.
        reruns: send each call that asks once more without an answer: the handler runs again from
            its start and has to ask the same, or `AssertionError` is raised.

    Attributes:
        headers: of every request; they replace the client's own of these names.
        progress, logs, questions: of the last request.
        notifications: of the last request, including progress and log messages.
        response: status and headers of the last response; None before the first.
        task: the last state of the task of the last `call_as_task`.
        task_limit_s: how long `call_as_task` waits.

    Requests that the server rejects raise an `MCPError` of `django_mcp.inprocess`, with the HTTP
    `status`; an error for the model is a result with `is_error`. Synchronous handlers run in the
    test's thread, inside of its transaction.
    """

    call = in_sync(AsyncMCPClient.call)
    call_as_task = in_sync(AsyncMCPClient.call_as_task)
    app = in_sync(AsyncMCPClient.app)
    assert_app = in_sync(AsyncMCPClient.assert_app)
    confirm = in_sync(AsyncMCPClient.confirm)
    skills = in_sync(AsyncMCPClient.skills)
    assert_skill_verifies = in_sync(AsyncMCPClient.assert_skill_verifies)
    read = in_sync(AsyncMCPClient.read)
    prompt = in_sync(AsyncMCPClient.prompt)
    complete = in_sync(AsyncMCPClient.complete)
    list_tools = in_sync(AsyncMCPClient.list_tools)
    list_resources = in_sync(AsyncMCPClient.list_resources)
    list_resource_templates = in_sync(AsyncMCPClient.list_resource_templates)
    list_prompts = in_sync(AsyncMCPClient.list_prompts)
    discover = in_sync(AsyncMCPClient.discover)
    send = in_sync(AsyncMCPClient.send)

    def _loop_ends(self) -> bool:
        return not loop_continues()

    def listen(self, *uris: str, lists: Collection[str] = LISTS) -> NotificationListener:
        """Open a stream of changes for the length of a `with`.

            with client.listen("order://1") as changes:
                ...
                assert changes.next()["params"]["uri"] == "order://1"

        Args:
            uris: of resources to subscribe to.
            lists: the lists to follow, of `tools`, `prompts` and `resources`.

        If the revision has sessions, it is the session's own stream, and the resources are subscribed
        to until the end. Notifications inside of a transaction are sent at its commit, which in a
        `TestCase` is the end of `captureOnCommitCallbacks(execute=True)`.
        """
        return NotificationListener(AsyncListening(self, uris, lists))

    def subscribe(self, *uris: str) -> NotificationListener:
        """Open a stream as `listen` does, for these resources alone."""
        return self.listen(*uris, lists=())

    assert_hidden = in_sync(AsyncMCPClient.assert_hidden)
    assert_visible = in_sync(AsyncMCPClient.assert_visible)
    assert_conforms = in_sync(AsyncMCPClient.assert_conforms)
