"""MCPClient and AsyncMCPClient: call an endpoint as a client does, without a server or a socket.

A request passes through the same code as in production: the consumer with its guard for hosts and
origins, authentication, the limit on the body, and `DJANGO_MCP["MIDDLEWARE"]`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.handlers.threads import in_calling_thread
from django_mcp.inprocess.methods import LIST_KEYS, completion_params
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ResourceResult,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.servers import default_server
from django_mcp.test.conformance import assert_conforming
from django_mcp.test.conversation import Conversation, LogMessage, Progress, Question
from django_mcp.test.exchanges import Response, find_endpoint
from django_mcp.test.listening import LISTS, AsyncListening, Listening
from django_mcp.test.portal import wait_for
from django_mcp.test.visibility import assert_hidden, assert_visible

if TYPE_CHECKING:
    from django_mcp.servers import MCPServer

__all__ = ["AsyncMCPClient", "MCPClient"]


class BaseClient:
    """The common part of both clients; see `MCPClient`."""

    def __init__(
        self,
        server: MCPServer | None = None,
        *,
        path: str | None = None,
        revision: str | None = None,
        user: Any = None,
        headers: Mapping[str, str] | None = None,
        capabilities: JSONObject | None = None,
        reruns: bool = False,
    ) -> None:
        endpoint = find_endpoint(default_server if server is None else server, path)
        self._conversation = Conversation(
            endpoint,
            revision=revision,
            headers=headers or {},
            capabilities=capabilities,
            reruns=reruns,
        )
        if user is not None:
            self.force_login(user)

    @property
    def server(self) -> MCPServer:
        """The server that the client calls."""
        server: Any = self._conversation.endpoint.server
        return server  # type: ignore[no-any-return]

    @property
    def revision(self) -> str:
        """The name of the protocol revision that the client uses."""
        return self._conversation.revision.name

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request, which replace the client's own of these names."""
        return self._conversation.headers

    def force_login(self, user: Any) -> None:
        """Send every request as this user (or principal), whatever the headers say.

        An inactive user is not logged in, as in Django's test client.
        """
        self._conversation.log_in(user)

    def logout(self) -> None:
        """Authenticate requests by their headers again."""
        self._conversation.log_in(None)

    def answer(self, *answers: Any, **by_key: Any) -> None:
        """Set the answers to the server's questions; call it before the call that asks.

        Args:
            answers: in the order of the questions, over all following calls; or a function of the
                question's key and the question, for all questions without another answer. A form's
                answer is its fields, `True`, `False` or None for accept, decline and cancel; the
                model's is a text; the roots' are a list of URIs.
            by_key: by the keys that handlers give their questions (`question-1`, ... if none),
                again in each call. Keys are sent at the newest revision only.
        """
        for answer in answers:
            if callable(answer):
                self._conversation.answerer.add(answer)
            else:
                self._conversation.answerer.add([answer])
        if by_key:
            self._conversation.answerer.add(by_key)

    @property
    def progress(self) -> list[Progress]:
        """The progress notifications of the last request."""
        return self._conversation.progress

    @property
    def logs(self) -> list[LogMessage]:
        """The log messages of the last request."""
        return self._conversation.logs

    @property
    def questions(self) -> list[Question]:
        """The questions of the last request."""
        return self._conversation.questions

    @property
    def notifications(self) -> list[JSONObject]:
        """All notifications of the last request, including progress and log messages."""
        return self._conversation.notifications

    @property
    def response(self) -> Response | None:
        """Status and headers of the last response; None before the first."""
        return self._conversation.response

    # -- asynchronous parts of both

    async def _send(self, method: str, params: JSONObject) -> JSONObject:
        with in_calling_thread():
            return await self._conversation.request(method, params)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        params = {"name": name, "arguments": dict(arguments)}
        return CallResult(raw=await self._send("tools/call", params))

    async def _read(self, uri: str) -> ResourceResult:
        return ResourceResult(raw=await self._send("resources/read", {"uri": uri}))

    async def _prompt(self, name: str, arguments: Mapping[str, str]) -> FilledPrompt:
        params = {"name": name, "arguments": dict(arguments)}
        return FilledPrompt(raw=await self._send("prompts/get", params))

    async def _complete(
        self, of: str, argument: str, value: str, known: Mapping[str, str]
    ) -> CompletionResult:
        params = completion_params(of, argument, value, known)
        return CompletionResult(raw=await self._send("completion/complete", params))

    async def _list(self, method: str) -> list[JSONObject]:
        found: list[JSONObject] = []
        params: JSONObject = {}
        while True:
            page = await self._send(method, params)
            found += page[LIST_KEYS[method]]
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    async def _discover(self) -> JSONObject:
        conversation = self._conversation
        if conversation.revision.is_stateless:
            return await self._send("server/discover", {})
        with in_calling_thread():
            await conversation.settle()
        return conversation.greeting or {}

    async def _assert_hidden(self, *names: str) -> None:
        with in_calling_thread():
            await assert_hidden(self._conversation, names)

    async def _assert_visible(self, *names: str) -> None:
        with in_calling_thread():
            await assert_visible(self._conversation, names)

    async def _assert_conforms(self) -> None:
        server = self._conversation.endpoint.server
        await self._discover()
        features = server.derived.features
        for method in LIST_KEYS:
            if method.split("/", 1)[0] in features:
                await self._list(method)
        assert_conforming(self.revision, self._conversation.answers)


class MCPClient(BaseClient):
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

    Requests that the server rejects raise an `MCPError` of `django_mcp.inprocess`, with the HTTP
    `status`; an error for the model is a result with `is_error`. Synchronous handlers run in the
    test's thread, inside of its transaction.
    """

    def call(self, tool: str, /, **arguments: Any) -> CallResult:
        """Call a tool: `client.call("find_orders", query="x").structured`.

        Raises:
            UnknownTool: there is none of that name for the user.
            Unanswered: it asks something that has no `answer`.
            MCPError: any other error.
        """
        return wait_for(self._call, tool, arguments)

    def read(self, uri: str) -> ResourceResult:
        """Read a resource.

        Raises:
            UnknownResource: there is none for the user.
            MCPError: any other error.
        """
        return wait_for(self._read, uri)

    def prompt(self, name: str, /, **arguments: str) -> FilledPrompt:
        """Get a prompt with its arguments filled in.

        Raises:
            UnknownPrompt: there is none of that name for the user.
            MCPError: any other error.
        """
        return wait_for(self._prompt, name, arguments)

    def complete(
        self, of: str, argument: str, value: str = "", /, **known: str
    ) -> CompletionResult:
        """Complete an argument of a prompt (by name) or a resource template (by URI).

        Raises:
            UnknownReference: there is none of that name for the user.
            MCPError: any other error.
        """
        return wait_for(self._complete, of, argument, value, known)

    def list_tools(self) -> list[JSONObject]:
        """Return the tools that the user sees, of all pages, in the revision's form."""
        return wait_for(self._list, "tools/list")

    def list_resources(self) -> list[JSONObject]:
        """Return the resources that the user sees."""
        return wait_for(self._list, "resources/list")

    def list_resource_templates(self) -> list[JSONObject]:
        """Return the resource templates that the user sees."""
        return wait_for(self._list, "resources/templates/list")

    def list_prompts(self) -> list[JSONObject]:
        """Return the prompts that the user sees."""
        return wait_for(self._list, "prompts/list")

    def discover(self) -> JSONObject:
        """Return the server's description: capabilities, instructions and so on."""
        return wait_for(self._discover)

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> JSONObject:
        """Send any request and return its result."""
        return wait_for(self._send, method, dict(params or {}))

    def listen(self, *uris: str, lists: Collection[str] = LISTS) -> Listening:
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
        return Listening(AsyncListening(self._conversation, uris, lists))

    def subscribe(self, *uris: str) -> Listening:
        """Open a stream as `listen` does, for these resources alone."""
        return self.listen(*uris, lists=())

    def assert_hidden(self, *names: str) -> None:
        """Assert that tools, prompts or resources (by URI) exist, but not for this user.

        They are in no list, and using them gives the same error as if they did not exist.
        """
        wait_for(self._assert_hidden, *names)

    def assert_visible(self, *names: str) -> None:
        """Assert that tools, prompts, resources or templates (by URI) are in this user's lists."""
        wait_for(self._assert_visible, *names)

    def assert_conforms(self) -> None:
        """Assert that the lists, and all results so far, conform to the revision.

        Needs the package `mcp-types`, which has the types that the protocol's authors publish.
        """
        wait_for(self._assert_conforms)


class AsyncMCPClient(BaseClient):
    """`MCPClient` for asynchronous tests: the same methods, to be awaited.

    Synchronous handlers run where Django's asynchronous ORM does, and so inside of the transaction
    of an asynchronous test of a `TestCase`.
    """

    async def call(self, tool: str, /, **arguments: Any) -> CallResult:
        """Call a tool; see `MCPClient.call`."""
        return await self._call(tool, arguments)

    async def read(self, uri: str) -> ResourceResult:
        """Read a resource; see `MCPClient.read`."""
        return await self._read(uri)

    async def prompt(self, name: str, /, **arguments: str) -> FilledPrompt:
        """Get a prompt; see `MCPClient.prompt`."""
        return await self._prompt(name, arguments)

    async def complete(
        self, of: str, argument: str, value: str = "", /, **known: str
    ) -> CompletionResult:
        """Complete an argument; see `MCPClient.complete`."""
        return await self._complete(of, argument, value, known)

    async def list_tools(self) -> list[JSONObject]:
        """See `MCPClient.list_tools`."""
        return await self._list("tools/list")

    async def list_resources(self) -> list[JSONObject]:
        """See `MCPClient.list_resources`."""
        return await self._list("resources/list")

    async def list_resource_templates(self) -> list[JSONObject]:
        """See `MCPClient.list_resource_templates`."""
        return await self._list("resources/templates/list")

    async def list_prompts(self) -> list[JSONObject]:
        """See `MCPClient.list_prompts`."""
        return await self._list("prompts/list")

    async def discover(self) -> JSONObject:
        """See `MCPClient.discover`."""
        return await self._discover()

    async def send(self, method: str, params: Mapping[str, Any] | None = None) -> JSONObject:
        """Send any request; see `MCPClient.send`."""
        return await self._send(method, dict(params or {}))

    def listen(self, *uris: str, lists: Collection[str] = LISTS) -> AsyncListening:
        """Open a stream as `MCPClient.listen` does, for an `async with`; `next()` is to be awaited."""
        return AsyncListening(self._conversation, uris, lists)

    def subscribe(self, *uris: str) -> AsyncListening:
        """Open a stream as `listen` does, for these resources alone."""
        return self.listen(*uris, lists=())

    async def assert_hidden(self, *names: str) -> None:
        """See `MCPClient.assert_hidden`."""
        await self._assert_hidden(*names)

    async def assert_visible(self, *names: str) -> None:
        """See `MCPClient.assert_visible`."""
        await self._assert_visible(*names)

    async def assert_conforms(self) -> None:
        """See `MCPClient.assert_conforms`."""
        await self._assert_conforms()
