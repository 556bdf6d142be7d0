"""MCPServer: what is registered, and one way in for every transport.

A transport hands over an `Exchange` and sends the `Reply` it gets back. Nothing here knows how the
bytes travel, and no state of a client is kept here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.decorators import Registration
from django_mcp.registry.forms import make_form
from django_mcp.registry.injection import Provider
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import PlainConverter
from django_mcp.server.asking.clients import ClientMethods
from django_mcp.server.delivery.audience import may_receive
from django_mcp.server.embedding import Embedding
from django_mcp.server.exchange.derived import Derived
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.error_handlers import ErrorHandlers
from django_mcp.server.memory.basics import (
    NoKnownExceptions,
    OneLanguage,
    OpenAccess,
    ProcessCounter,
    ProcessSealer,
    ProcessStates,
    ThreadScope,
)
from django_mcp.server.memory.events import MemoryEvents
from django_mcp.server.memory.state import (
    LocalBus,
    MemoryAnswers,
    MemorySessions,
    NoObserver,
)
from django_mcp.server.memory.tasks import LoopRunner, MemoryTasks
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.rules import LIST_METHODS
from django_mcp.server.services.session_lookup import allowed_methods
from django_mcp.server.services.turns import Turns
from django_mcp.server.setting import check_options
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.upkeep import watch
from django_mcp.server.tasks.sweeping import TaskSweep

if TYPE_CHECKING:
    from django_mcp.protocol.headers import Headers
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.connection import Closing, Session
    from django_mcp.server.services.services import ServerHub
    from django_mcp.server.services.task_ports import TaskRunner, TaskStore
    from django_mcp.server.streams.stream import Change, PushStream


class MCPServer(Registration, Embedding, ErrorHandlers, ClientMethods):
    """A Model Context Protocol server for any transport, free of any framework.

    Args:
        name: who this server is to clients; further texts are options.
        options: see `Options` for all of them.

    Attributes such as `scope`, `access` and `states` implement `server.services.ports`; each starts
    as a plain implementation. `observer`, if there is one, is told of each call.
    """

    context_class: ClassVar[type[Any]] = Context

    def __init__(self, name: str, **options: Any) -> None:
        check_options(options, OPTIONS)
        super().__init__()
        self.registry = Registry()
        self.scope = ThreadScope()
        self.access = OpenAccess()
        self.counter = ProcessCounter()
        self.exceptions = NoKnownExceptions()
        self.clock = time.time
        self.sealer = ProcessSealer()
        self.states = ProcessStates()
        self.language = OneLanguage()
        self.converter = PlainConverter()
        self.observer = None
        self.connection_observer = NoObserver()
        self.make_form = make_form
        self.turns = Turns()
        self.hub = self.make_hub()
        self._changed_lists: set[str] = set()
        self.registry.on_change(self._registry_changed)
        self.sessions = MemorySessions(self.hub, lambda: self.options, closed=self.session_closed)
        self.answers = MemoryAnswers(lambda: self.options.anonymous_share)
        self.events = MemoryEvents()
        self._tasks: TaskStore | None = None
        self._runner: TaskRunner | None = None
        self._task_sweep = TaskSweep(self)
        self._options = Options(name=name, **options)
        self._derived: Derived | None = None

    def make_hub(self) -> ServerHub:
        """Return the hub that this server's streams belong to."""
        hub: ServerHub = Hub(LocalBus())
        watch(hub)
        return hub

    def session_closed(self, session: Session, reason: Closing) -> None:
        """Tell who observes connections that a session is over. For the store that ended it."""
        self.connection_observer.session_closed(session, reason.value)

    def joined(self, hub: ServerHub) -> None:
        """See `Services.joined`: the hub looks for tasks whose worker has gone."""
        self._task_sweep.join(hub)

    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """See `Services.may_receive`: who could read the resource now."""
        return may_receive(self, change, _may_read)

    def _now(self) -> float:
        return self.clock()

    @property
    def options(self) -> Options:
        """The settings in force now."""
        return self._options

    # -- the three entries for transports

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Answer what one POST, or one line, holds.

        Never raises, except `CancelledError` when the transport cancels because the client left.
        """
        return self.load_answer()(exchange)

    def load_answer(self) -> Callable[[Exchange], Coroutine[Any, Any, Reply]]:
        """Return the function behind `answer`, for callers that store it."""
        return partial(_load_answer(), self)

    def open_stream(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Open the standalone stream of a session, or resume a stream that broke off.

        Returns when the stream is over.
        """
        from django_mcp.server.delivery.standalone import open_stream

        return open_stream(self, exchange)

    def end_session(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """End the session that the exchange names."""
        from django_mcp.server.delivery.standalone import end_session

        return end_session(self, exchange)

    @property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """What a transport asks before it reads the body; None: everybody is anonymous.

        It sets the exchange's principal and returns None, or returns the refusal.
        """
        return None

    def allowed_methods(self, headers: Headers | None, *, can_push: bool = True) -> bytes:
        """Return the HTTP methods that the endpoint serves, as the header `Allow` lists them.

        Args:
            headers: of the request, which may name a revision without sessions.
            can_push: whether a response can stay open, as a standing stream needs.
        """
        return allowed_methods(self, headers, can_push=can_push)

    def capabilities(self, revision: str | None = None) -> JSONObject:
        """Return the capabilities that anonymous clients are told of on a transport that streams.

        They follow from what is registered, and from `advertise_extension` and
        `advertise_experimental`.

        Args:
            revision: in the form of this one, such as `"2025-11-25"`; None: the newest spoken here.

        Raises:
            ValueError: the server does not speak that revision.
        """
        names = self.revisions.names()
        found = self.revisions.find(names[-1] if revision is None else revision)
        if found is None:
            raise ValueError(f"This server does not speak {revision!r}: use {', '.join(names)}.")
        return self.capabilities_for(found, Exchange(can_stream=True))

    @property
    def tasks(self) -> TaskStore:
        """What tasks are kept in; made when first asked for."""
        if self._tasks is None:
            self._tasks = self.make_task_store()
        return self._tasks

    @property
    def runner(self) -> TaskRunner:
        """What has tasks run; made when first asked for."""
        if self._runner is None:
            self._runner = self.make_task_runner()
        return self._runner

    def make_task_store(self) -> TaskStore:
        """Return what tasks are kept in."""
        return MemoryTasks(self._now)

    def make_task_runner(self) -> TaskRunner:
        """Return what has tasks run."""
        return LoopRunner()

    def set_list_cache_hint(self, method: str, hint: CacheHint) -> None:
        """Say how long one of the four lists stays fresh, where the revision can tell it.

        Raises:
            ValueError: `method` is none of the four list methods or `server/discover`.
        """
        if method not in (*LIST_METHODS, "server/discover"):
            raise ValueError(f"{method!r} is no list method: use one of {', '.join(LIST_METHODS)}.")
        self.options.list_cache[method] = hint
        self._derived = None

    def injectables(self, annotation: Any) -> Provider | None:
        """Return what provides a parameter of this annotation; None for ordinary arguments."""
        if isinstance(annotation, type) and issubclass(annotation, Context):
            return _provide_context
        return None


@cache
def _load_answer() -> Callable[[MCPServer, Exchange], Coroutine[Any, Any, Reply]]:
    """Load what answers requests: a process that only registers has no use for it."""
    from django_mcp.server.dispatch import answer

    return answer


def _provide_context(ctx: Context[Any]) -> Context[Any]:
    return ctx


async def _may_read(call: Call, uri: str) -> bool:
    # Loads what runs handlers, which a process that only registers has no use for.
    from django_mcp.server.methods.resources import refuse_reading

    return await refuse_reading(cast("Context[Any]", call), uri) is None
