"""MCPServer: the registered entries, and the entry points for every transport.

A transport passes an `Exchange` and sends the `Reply` that it gets back.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.records import Record
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.decorators import Registration
from django_mcp.registry.registry import Registry
from django_mcp.registry.signatures import Provider
from django_mcp.server.asking.back_channel import take_answered
from django_mcp.server.asking.clients import ClientMethods
from django_mcp.server.delivery.client_streams import end_session, open_stream
from django_mcp.server.exchange.connection import Closing, ConnectionState, Session
from django_mcp.server.exchange.derived import Derived
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange, Reply, ServerRequest
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory.state import MemoryAnswers, MemoryEvents, MemorySessions
from django_mcp.server.memory.tasks import LoopRunner, MemoryTasks
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.services import ports
from django_mcp.server.services.services import ServerHub
from django_mcp.server.setting import LIST_METHODS, check_options
from django_mcp.server.tasks.run import stop_run
from django_mcp.server.tasks.start import make_sweep

STORES = ("sessions", "answers", "events", "tasks", "runner")
"""The attributes of a server that are made on first use, by its methods `_make_sessions` etc."""

F = TypeVar("F", bound=Callable[[BaseException, Any, str | None], Any])

TextSink: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes one JSON-RPC message as text."""


class MCPServer(Registration, ClientMethods):
    """A Model Context Protocol server for any transport, without a framework.

    Args:
        name: the name that clients see.
        options: see `Options`.

    Attributes such as `scope`, `access` and `states` implement `server.services.ports`. A subclass
    sets them. Sessions, answers, events and tasks are kept in memory by default.
    """

    context_class: ClassVar[type[Any]] = Context

    def __init__(self, name: str, **options: Any) -> None:
        check_options(options, OPTIONS)
        super().__init__()
        self.registry = Registry()
        self.clock = time.time
        self.hub = self._make_hub()
        self._changed_lists: set[str] = set()
        self.registry.on_change(self._registry_changed)
        self._sweep_tasks = make_sweep(self)
        self._checks = {}
        self._options = Options(name=name, **options)
        self._list_hints: dict[str, CacheHint] = {}
        self._derived: Derived | None = None

    @abstractmethod
    def _make_hub(self) -> ServerHub:
        """Return the hub that this server's streams belong to."""

    def _session_closed(self, session: Session, reason: Closing) -> None:
        """Notify the observer of connections, on behalf of the store that ended the session."""
        self.connection_observer.session_closed(session, reason.value)

    def joined(self, hub: ServerHub) -> None:
        """See `Services.joined`: the hub finds tasks whose worker has ended."""
        if self._sweep_tasks not in hub.on_tick:
            hub.on_tick.append(self._sweep_tasks)
        hub.on("answered", partial(take_answered, hub))
        hub.on("task", lambda message: stop_run(hub, message["id"]))

    async def _may_read(self, call: Any, uri: str) -> bool:
        # Imports what runs handlers, which a process that only registers entries does not need.
        from django_mcp.server.methods.resources import refuse_reading

        return await refuse_reading(call, uri) is None

    @property
    def options(self) -> Options:
        """The current settings."""
        return self._options

    # -- the three entry points for transports

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Return the reply to the content of one POST, or of one line.

        It raises only `CancelledError`, if the transport cancels since the client has disconnected.
        """
        return self._load_answer()(exchange)

    def _load_answer(self) -> Callable[[Exchange], Coroutine[Any, Any, Reply]]:
        """Return the function behind `answer`, for callers that store it."""
        return partial(_import_dispatch(), self)

    def open_stream(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Open the standalone stream of a session, or resume a broken stream; return at its end."""
        return open_stream(self, exchange)

    def end_session(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """End the session that the exchange names."""
        return end_session(self, exchange)

    @property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """Called by a transport before it reads the body; None: everybody is anonymous.

        It sets the exchange's principal and returns None, or returns the refusal.
        """
        return None

    # -- messages without a transport of this package

    async def handle(
        self, message: JSONObject, exchange: Exchange | None = None
    ) -> JSONObject | None:
        """Return the response to one parsed message; None if it gets none.

        Args:
            message: a JSON-RPC message.
            exchange: without one the caller is anonymous and gets no messages ahead of the response.
        """
        exchange = exchange or Exchange()
        exchange.body = encode(message)
        reply = await self.answer(exchange)
        answer: JSONObject | None = None if reply.body is None else decode(reply.body)
        return answer

    async def handle_raw(
        self,
        text: str | bytes,
        *,
        connection: ConnectionState | None = None,
        sink: TextSink | None = None,
        server_request: ServerRequest | None = None,
        principal: Any = ANONYMOUS,
    ) -> str:
        """Return the response to one message or batch, as text; `""` if it gets none.

        Text that is no message gets an error without an id.

        Args:
            text: a message, or a batch if the connection's revision has them.
            connection: the state of a connection that outlives this call; `initialize` settles
                its revision. Without one each message is handled by itself.
            sink: an async function that takes messages ahead of the response, such as progress.
            server_request: an async function that sends the client a request (method and params)
                and returns the result. `ctx.elicit`, `ctx.sample` and `ctx.list_roots` use it at
                revisions with a handshake; it needs a `connection`. A `ProtocolError` that it raises
                counts as the client's refusal. It is cancelled after `ASK_TIMEOUT_S`.
            principal: on whose behalf.
        """
        exchange = Exchange(
            body=text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"),
            connection=connection,
            sink=None if sink is None else _FunctionSink(sink),
            can_stream=sink is not None,
            server_request=server_request,
            principal=principal,
        )
        reply = await self.answer(exchange)
        return "" if reply.body is None else reply.body.decode()

    def capabilities(self, revision: str | None = None) -> JSONObject:
        """Return the capabilities for anonymous clients on a transport that streams.

        They follow from what is registered, and from `advertise_extension` and
        `advertise_experimental`.

        Args:
            revision: the revision whose form they have, such as `"2025-11-25"`; None: the newest.

        Raises:
            ValueError: the server does not speak that revision.
        """
        names = self.revisions.names()
        found = self.revisions.find(names[-1] if revision is None else revision)
        if found is None:
            raise ValueError(f"This server does not speak {revision!r}: use {', '.join(names)}.")
        return self.capabilities_for(found, Exchange(can_stream=True))

    # -- stores, made on first use; a value that is assigned takes precedence

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in STORES:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            made = vars(self)[name] = getattr(self, f"_make_{name}")()
            return made

    def _make_sessions(self) -> ports.SessionStore:
        return MemorySessions(self.hub, lambda: self.options, closed=self._session_closed)

    def _make_answers(self) -> ports.AnswerBox:
        return MemoryAnswers(lambda: self.options.anonymous_share)

    def _make_events(self) -> ports.EventLog:
        return MemoryEvents()

    def _make_tasks(self) -> ports.TaskStore:
        return MemoryTasks(lambda: self.clock())  # noqa: PLW0108 - tests change the clock

    def _make_runner(self) -> ports.TaskRunner:
        return LoopRunner()

    # -- registration

    def on_error(self, function: F) -> F:
        """Call a function with each unexpected error, and return the function.

        It is called as `function(error, ctx, reference)` after the error was logged and before the
        response: a synchronous function in a thread, an asynchronous one on the event loop. It may
        take 5 seconds. Its result is ignored, and its own errors are logged.

        Unexpected errors are those that clients see as internal errors. `ToolError`,
        `ProtocolError`, wrong arguments, timeouts and Django's `Http404`, `PermissionDenied` and
        `ValidationError` are not. `reference` is in the log and in the client's message; it is None
        for an error of this package, and for a `check=` that failed, which looks like a missing entry.
        """
        self.error_handlers = (*self.error_handlers, function)
        return function

    def set_list_cache_hint(self, method: str, hint: CacheHint) -> None:
        """Set how long clients may cache one of the lists, if the revision supports it.

        Raises:
            ValueError: `method` is none of the four list methods or `server/discover`.
        """
        if method not in (*LIST_METHODS, "server/discover"):
            raise ValueError(f"{method!r} is no list method: use one of {', '.join(LIST_METHODS)}.")
        self._list_hints[method] = hint
        self.options.list_cache.update(self._list_hints)
        self._derived = None

    def _find_provider(self, annotation: Any) -> Provider | None:
        """Return the provider of a parameter with this annotation; None for ordinary arguments."""
        if isinstance(annotation, type) and issubclass(annotation, Context):
            return lambda ctx: ctx
        return None


@cache
def _import_dispatch() -> Callable[[MCPServer, Exchange], Coroutine[Any, Any, Reply]]:
    """Import the dispatcher, which a process that only registers entries does not need."""
    from django_mcp.server.dispatch import dispatch

    return dispatch


class _FunctionSink(Record):
    _function: TextSink

    async def send(self, message: bytes) -> None:
        await self._function(message.decode())
