"""Listening: a client's open stream of changes, in a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator

from django_mcp.execution.threads import in_calling_thread
from django_mcp.inprocess.results import MCPError, to_error
from django_mcp.protocol.json import JSONObject
from django_mcp.test.conversation import BaseClient
from django_mcp.test.exchanges import Presence, Response
from django_mcp.test.portal import Portal, close_portal, open_portal

LIMIT_S = 5.0
"""Seconds a test waits for a notification or the stream."""

LISTS = ("tools", "prompts", "resources")


class AsyncListening:
    """Receives notifications inside an `async with`; see `AsyncMCPClient.listen`.

    Attributes:
        heard: all notifications so far, including those that `next` returned.
    """

    def __init__(self, client: BaseClient, uris: Iterable[str], lists: Collection[str]) -> None:
        self._client = client
        self._uris = list(uris)
        self._lists = lists
        self._methods = {f"notifications/{name}/list_changed" for name in lists}
        self._methods |= {
            "notifications/resources/updated",
            "notifications/elicitation/complete",
        }
        self._queue: asyncio.Queue[JSONObject] = asyncio.Queue()
        self._is_ready = asyncio.Event()
        self._presence = Presence()
        self._task: asyncio.Task[Response] | None = None
        self.heard: list[JSONObject] = []

    async def __aenter__(self) -> AsyncListening:
        with in_calling_thread():
            await self._open()
        return self

    async def _open(self) -> None:
        client = self._client
        is_stateless = client._revision.is_stateless
        if not is_stateless:
            for uri in self._uris:
                await client._request("resources/subscribe", {"uri": uri})
        wanted: JSONObject = {f"{name}ListChanged": True for name in self._lists}
        if self._uris:
            wanted["resourceSubscriptions"] = self._uris
        self._task = asyncio.create_task(client._open_stream(wanted, self._take, self._presence))
        ready = self._is_ready if is_stateless else self._presence.has_begun
        await self._wait_for(ready, self._task)

    async def __aexit__(self, *_error: object) -> None:
        self._presence.has_left.set()
        if self._task is not None:
            await asyncio.wait_for(self._task, LIMIT_S)
        if not self._client._revision.is_stateless:
            with in_calling_thread():
                for uri in self._uris:
                    await self._client._request("resources/unsubscribe", {"uri": uri})

    async def next(self, timeout_s: float = LIMIT_S) -> JSONObject:
        """Return the next notification in the protocol's form: `method`, and maybe `params`.

        Raises:
            TimeoutError: none came in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            raise TimeoutError(
                f"No notification arrived within {timeout_s:g} s, after {len(self.heard)} before. "
                "Those of a transaction are sent at its commit: in a TestCase, make the change in "
                "captureOnCommitCallbacks(execute=True), or use MCPTransactionTestCase."
            ) from None

    async def __aiter__(self) -> AsyncIterator[JSONObject]:
        while True:
            yield await self.next()

    async def _take(self, message: JSONObject) -> None:
        if message.get("method") == "notifications/subscriptions/acknowledged":
            self._is_ready.set()
        elif message.get("method") in self._methods:
            self.heard.append(message)
            self._queue.put_nowait(message)

    async def _wait_for(self, ready: asyncio.Event, task: asyncio.Task[Response]) -> None:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S)
        waiting.cancel()
        if not task.done():
            if not ready.is_set():
                raise TimeoutError(f"The stream did not open within {LIMIT_S:g} s")
            return
        response = task.result()
        for message in response.messages:
            if "error" in message:
                raise to_error("subscriptions/listen", message["error"], response.status)
        raise MCPError(f"No stream was opened, HTTP {response.status}", status=response.status)


class Listening:
    """Receives notifications inside a `with`; see `MCPClient.listen`.

    The stream is always open. Only work that needs the database waits until the test waits.
    """

    def __init__(self, changes: AsyncListening) -> None:
        self._changes = changes
        self._portal: Portal | None = None

    def __enter__(self) -> Listening:
        self._portal = open_portal()
        try:
            self._portal.run(self._changes.__aenter__)
        except BaseException:
            close_portal(self._portal)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        portal = self._get_portal()
        try:
            portal.run(self._changes.__aexit__, *error)
        finally:
            close_portal(portal)

    @property
    def heard(self) -> list[JSONObject]:
        """All notifications so far, including those that `next` returned."""
        return self._changes.heard

    def next(self, timeout_s: float = LIMIT_S) -> JSONObject:
        """Return the next notification in the protocol's form: `method`, and maybe `params`.

        Raises:
            TimeoutError: none came in time.
        """
        return self._get_portal().run(self._changes.next, timeout_s)

    def __iter__(self) -> Iterator[JSONObject]:
        while True:
            yield self.next()

    def _get_portal(self) -> Portal:
        if self._portal is None:
            raise RuntimeError("Notifications arrive only inside its `with`")
        return self._portal
