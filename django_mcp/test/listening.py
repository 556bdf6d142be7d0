"""Listening: a client's open stream of changes, in a test, and the event loop that receives it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync

from django_mcp.execution.threads import in_calling_thread
from django_mcp.inprocess.results import MCPError, to_error
from django_mcp.protocol.json import JSONObject
from django_mcp.push.loops import end_loop, run_blocking, take_hub
from django_mcp.registry.signatures import named
from django_mcp.server.delivery.notify import find_matches
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.test.conversation import BaseClient
from django_mcp.test.exchanges import ClientSide, ReceivedResponse

P = ParamSpec("P")
T = TypeVar("T")

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
        self._side = ClientSide(self._take)
        self._task: asyncio.Task[ReceivedResponse] | None = None
        self.heard: list[JSONObject] = []

    async def __aenter__(self) -> AsyncListening:
        client = self._client
        is_stateless = client._revision.is_stateless
        wanted: JSONObject = {f"{name}ListChanged": True for name in self._lists}
        if self._uris:
            wanted["resourceSubscriptions"] = self._uris
        await take_hub()
        with in_calling_thread():
            for uri in () if is_stateless else self._uris:
                await client._request("resources/subscribe", {"uri": uri})
            await client._settle()
            message = None
            if is_stateless:
                message = client._make_request("subscriptions/listen", {"notifications": wanted})
            self._task = asyncio.create_task(client._exchange(message, self._side))
            ready = self._is_ready if is_stateless else self._side.has_begun
            await self._wait_for(ready, self._task)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._side.has_left.set()
        if self._task is not None:
            await asyncio.wait_for(self._task, LIMIT_S)
        if not self._client._revision.is_stateless:
            with in_calling_thread():
                for uri in self._uris:
                    await self._client._request("resources/unsubscribe", {"uri": uri})

    async def next(self, timeout_s: float | None = None) -> JSONObject:
        """Return the next notification in the protocol's form: `method`, and maybe `params`.

        Raises:
            TimeoutError: none came in time.
        """
        limit_s = LIMIT_S if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._queue.get()
        except TimeoutError:
            registry = self._client.server.registry
            unknown = [uri for uri in self._uris if not any(find_matches(registry, uri))]
            why = (
                f"No resource of this server matches {', '.join(unknown)}."
                if unknown
                else "Those of a transaction are sent at its commit: in a TestCase, make the change in "
                "captureOnCommitCallbacks(execute=True), or use MCPTransactionTestCase."
            )
            raise TimeoutError(
                f"No notification arrived within {limit_s:g} s, after {len(self.heard)} before. {why}"
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

    async def _wait_for(self, ready: asyncio.Event, task: asyncio.Task[ReceivedResponse]) -> None:
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
        if ready.is_set():
            raise MCPError("The stream ended at once: the server has nothing of what it is for")
        raise MCPError(f"No stream was opened, HTTP {response.status}", status=response.status)


_executors: Any = AsyncToSync.loop_thread_executors
"""Where asgiref looks up the thread for "thread-sensitive" code, such as Django's ORM."""


class Portal:
    """An event loop in a thread of its own, which is called from the thread that created it.

    It continues between the calls of a synchronous test while it listens. The test's own thread does
    the synchronous work of that loop, on its connection and inside its transaction: while the test
    waits for a call or for a notification, and never in between.
    """

    def __init__(self) -> None:
        self.users = 0
        self.owner = threading.current_thread()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        _executors[self.loop] = self
        self._stop = asyncio.Event()
        self._is_over: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name="mcp-test-loop", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let the thread that created the loop call a function, as `Executor.submit` does."""
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller of submit
                future.set_exception(error)

        self._work.put(run)
        return future

    def run(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the loop, and return its result."""

        async def run() -> T:
            # The executor of an enclosing `async_to_sync`, whose thread waits for this one.
            AsyncToSync.executors.current = None
            return await function(*args, **kwargs)

        return self._work_until(asyncio.run_coroutine_threadsafe(run(), self.loop))

    def close(self) -> None:
        """End the loop, and cancel what still runs there."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._work_until(self._is_over)
        self._thread.join()

    def _live(self) -> None:
        try:
            with self._runner as runner:
                runner.run(self._live_on())
        finally:
            del _executors[self.loop]
            self._is_over.set_result(None)

    async def _live_on(self) -> None:
        await self._stop.wait()
        await end_loop()

    def _work_until(self, future: Future[T]) -> T:
        """Run what is submitted until a future is done, and return its result."""
        future.add_done_callback(lambda _: self._work.put(None))
        while not future.done():
            work = self._work.get()
            if work is not None:
                work()
        return future.result()


_portal: Portal | None = None
"""The loop that all listeners in this process share; each has to close it once."""


def close_portal(portal: Portal) -> None:
    """End the loop when nothing uses it any more."""
    global _portal
    portal.users -= 1
    if not portal.users:
        _portal = None
        portal.close()


def loop_continues() -> bool:
    """Return whether the running event loop continues after the call, since the test listens."""
    return _portal is not None and asyncio.get_running_loop() is _portal.loop


def in_sync(
    function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the synchronous form of a method.

    While the calling thread listens, it runs on the same loop, which receives the notifications.

    Raises:
        RuntimeError: it was called in a coroutine.
    """

    def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if _portal is not None and _portal.owner is threading.current_thread():
            return _portal.run(function, client, *args, **kwargs)
        if find_running_loop() is not None:
            raise RuntimeError(
                "An asynchronous test needs AsyncMCPClient, whose methods are awaited: "
                "self.async_mcp in a test case, the fixture async_mcp_client in pytest."
            )
        return run_blocking(function)(client, *args, **kwargs)

    return named(call, function.__name__, like=function, owner="MCPClient")


class NotificationListener:
    """Receives notifications inside a `with`; see `MCPClient.listen`.

    The stream is always open. Only work that needs the database waits until the test waits.
    """

    def __init__(self, changes: AsyncListening) -> None:
        self._changes = changes
        self._portal: Portal | None = None

    def __enter__(self) -> NotificationListener:
        global _portal
        if _portal is None:
            _portal = Portal()
        elif _portal.owner is not threading.current_thread():
            raise RuntimeError("Another thread listens already: one at a time can")
        _portal.users += 1
        self._portal = portal = _portal
        try:
            portal.run(self._changes.__aenter__)
        except BaseException:
            close_portal(portal)
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

    def next(self, timeout_s: float | None = None) -> JSONObject:
        """Return the next notification, or raise `TimeoutError`; see `AsyncListening.next`."""
        return self._get_portal().run(self._changes.next, timeout_s)

    def __iter__(self) -> Iterator[JSONObject]:
        while True:
            yield self.next()

    def _get_portal(self) -> Portal:
        if self._portal is None:
            raise RuntimeError("Notifications arrive only inside its `with`")
        return self._portal
