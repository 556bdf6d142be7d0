"""Server as the package's own code uses it, with stores in memory and the entry points for transports."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, cached_property, partial
from typing import Any, ClassVar

from django_mcp.protocol.results import CacheHint
from django_mcp.registry.registry import Registry
from django_mcp.server.asking.back_channel import take_response
from django_mcp.server.delivery.client_streams import end_session, open_stream
from django_mcp.server.delivery.notify import ChangePolicy
from django_mcp.server.exchange.connection import Closing, Session
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory.state import MemoryEvents, MemoryPendingResponses, MemorySessions
from django_mcp.server.memory.tasks import LoopRunner, MemoryTasks
from django_mcp.server.services import ports
from django_mcp.server.services.services import ServerHub
from django_mcp.server.streams.process_messages import ResponseStored, TaskEnded
from django_mcp.server.tasks.run import stop_run
from django_mcp.server.tasks.start import make_sweep


class Core(ChangePolicy):
    """What the package's own code uses of a server, and the entry points for transports.

    Attributes such as `scope`, `access` and `states` implement `server.services.ports`. A subclass
    sets them, and the hub. Sessions, responses, events and tasks are kept in memory by default.
    """

    context_class: ClassVar[type[Any]] = Context

    def __init__(self) -> None:
        self.registry = Registry()
        super().__init__()
        self.clock = time.time
        self.list_hints: dict[str, CacheHint] = {}
        self._sweep_tasks = make_sweep(self)

    def joined(self, hub: ServerHub) -> None:
        """See `Services.joined`: the hub finds tasks whose worker has ended."""
        if self._sweep_tasks not in hub.on_tick:
            hub.on_tick.append(self._sweep_tasks)
        hub.on(ResponseStored, partial(take_response, hub))
        hub.on(TaskEnded, lambda message: stop_run(hub, message.id))

    async def _may_read(self, call: Any, uri: str) -> bool:
        # Imports what runs handlers, which a process that only registers entries does not need.
        from django_mcp.server.methods.resources import authorize_read

        return await authorize_read(call, uri) is None

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

    # -- stores, made on first use; a value that is assigned takes precedence

    @cached_property
    def sessions(self) -> ports.SessionStore:
        def closed(session: Session, reason: Closing) -> None:
            self.connection_observer.session_closed(session, reason.value)

        return MemorySessions(self.hub, lambda: self.options, closed=closed)

    @cached_property
    def pending_responses(self) -> ports.PendingResponses:
        return MemoryPendingResponses(lambda: self.options.anonymous_share)

    @cached_property
    def events(self) -> ports.EventLog:
        return MemoryEvents()

    @cached_property
    def tasks(self) -> ports.TaskStore:
        return MemoryTasks(lambda: self.clock())  # noqa: PLW0108 - tests change the clock

    @cached_property
    def runner(self) -> ports.TaskRunner:
        return LoopRunner()


@cache
def _import_dispatch() -> Callable[[Core, Exchange], Coroutine[Any, Any, Reply]]:
    """Import the dispatcher, which a process that only registers entries does not need."""
    from django_mcp.server.dispatch import dispatch

    return dispatch
