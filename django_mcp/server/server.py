"""MCPServer: what is registered, and one way in for every transport.

A transport hands over an `Exchange` and sends the `Reply` it gets back. Nothing here knows how the
bytes travel, and no state of a client is kept here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Container, Coroutine
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.headers import PROTOCOL_VERSION, Headers
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.meta import SERVER_INFO
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import Revision, RevisionSet, find_revision, lower
from django_mcp.protocol.tasks import EXTENSION
from django_mcp.registry.decorators import Registration
from django_mcp.registry.forms import FormMaker, make_form
from django_mcp.registry.injection import Provider
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import PlainConverter
from django_mcp.server.advertising import Advertising
from django_mcp.server.asking.clients import Reaching
from django_mcp.server.delivery.notify import Notifying
from django_mcp.server.embedding import Embedding
from django_mcp.server.exchange.cache import BoundedCache
from django_mcp.server.exchange.capabilities import to_capabilities
from django_mcp.server.exchange.derived import Derived, ResultFields
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.visibility import Offer
from django_mcp.server.handlers.argument_checks import Turns
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
from django_mcp.server.memory.state import (
    MemoryAnswers,
    MemoryEvents,
    MemorySessions,
    NoObserver,
)
from django_mcp.server.memory.tasks import LoopRunner, MemoryTasks
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.rules import LIST_METHODS
from django_mcp.server.setting import check_options
from django_mcp.server.streams.hub import Hub
from django_mcp.server.tasks.sweeping import TaskSweep

if TYPE_CHECKING:
    from django_mcp.registry.returns import ResultConverter
    from django_mcp.server.services.ports import (
        AccessPolicy,
        AnswerBox,
        ConnectionObserver,
        EventLog,
        ExceptionMapper,
        HandlerScope,
        Language,
        Observer,
        RateCounter,
        Sealer,
        SessionStore,
        StateStore,
    )
    from django_mcp.server.services.session_lookup import Closing, Session
    from django_mcp.server.tasks.interfaces import TaskRunner, TaskStore


class MCPServer(Registration, Advertising, Embedding, ErrorHandlers, Notifying, Reaching):
    """A Model Context Protocol server for any transport, free of any framework.

    Args:
        name: who this server is to clients; further texts are options.
        options: see `Options` for all of them.

    Attributes such as `scope`, `access` and `states` implement `server.interfaces`; each starts as
    a plain implementation. `observer`, if there is one, hears of each call.
    """

    context_class: type[Context[Any]] = Context

    def __init__(self, name: str, **options: Any) -> None:
        check_options(options, OPTIONS)
        super().__init__()
        self.registry = Registry()
        self.scope: HandlerScope = ThreadScope()
        self.access: AccessPolicy = OpenAccess()
        self.counter: RateCounter = ProcessCounter()
        self.exceptions: ExceptionMapper = NoKnownExceptions()
        self.clock: Callable[[], float] = time.time
        self.sealer: Sealer = ProcessSealer()
        self.states: StateStore = ProcessStates()
        self.language: Language = OneLanguage()
        self.converter: ResultConverter = PlainConverter()
        self.observer: Observer | None = None
        self.connection_observer: ConnectionObserver = NoObserver()
        self.make_form: FormMaker = make_form
        self.turns = Turns()
        self.hub = self.make_hub()
        self._changed_lists: set[str] = set()
        self.registry.on_change(self._registry_changed)
        self.sessions: SessionStore = MemorySessions(
            self.hub, lambda: self.options, closed=self.session_closed
        )
        self.answers: AnswerBox = MemoryAnswers()
        self.events: EventLog = MemoryEvents()
        self._tasks: TaskStore | None = None
        self._runner: TaskRunner | None = None
        self._task_sweep = TaskSweep(self)
        self._options = Options(name=name, **options)
        self._derived: Derived | None = None

    def make_hub(self) -> Hub:
        """Return the hub that this server's streams belong to."""
        return Hub()

    def session_closed(self, session: Session, reason: Closing) -> None:
        """Tell who observes connections that a session is over. For the store that ended it."""
        self.connection_observer.session_closed(session, reason.value)

    def join_hub(self) -> Hub:
        """Have the hub live on the running event loop and know this server; return it."""
        hub, options = self.hub, self.options
        if not hub.is_running:
            hub.start()
        if hub.servers.get(options.name) is not self:
            hub.servers[options.name] = self
            self._task_sweep.join(hub)
        return hub

    def _now(self) -> float:
        return self.clock()

    @property
    def options(self) -> Options:
        """The settings in force now."""
        return self._options

    @property
    def name(self) -> str:
        """Who this server is to clients, and to other processes."""
        return self.options.name

    # -- the three entries for transports

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Answer what one POST, or one line, holds.

        Never raises, except `CancelledError` when the transport cancels because the client left.
        """
        return self.load_answer()(exchange)

    def load_answer(self) -> Callable[[Exchange], Coroutine[Any, Any, Reply]]:
        """Return what `answer` does, without a step in between, for who keeps it."""
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

    @property
    def is_public(self) -> bool:
        """Whether everybody is served, so that answers alike for all may be shared."""
        return True

    # -- what methods and streams need

    async def refresh_offer(self, exchange: Exchange) -> Offer:
        """Find out what there is now for the principal of an exchange, which may be an old one."""
        requirements = self.derived.requirements
        offer = self.access.find_offer(exchange, requirements)
        if offer is None:
            offer = await self.access.load_offer(exchange, requirements)
        exchange.offer = offer
        return offer

    @property
    def revisions(self) -> RevisionSet:
        """The revisions this server speaks."""
        return self.derived.revisions

    @property
    def keeps_sessions(self) -> bool:
        """Whether clients of the revisions with a handshake get a session over HTTP."""
        return self.derived.keeps_sessions

    def allowed_methods(self, headers: Headers | None, *, can_push: bool = True) -> bytes:
        """Return the HTTP methods that the endpoint serves, as the header `Allow` lists them.

        Args:
            headers: of the request, which may name a revision without sessions.
            can_push: whether a response can stay open, as a standing stream needs.

        Source: RFC 9110 section 10.2.1.
        """
        named = headers.get(PROTOCOL_VERSION) if headers is not None else None
        revision = find_revision(named)
        if not self.keeps_sessions or (revision is not None and revision.is_stateless):
            return b"POST, OPTIONS"
        return b"GET, POST, DELETE, OPTIONS" if can_push else b"POST, DELETE, OPTIONS"

    def features(self, exchange: Exchange) -> Container[str]:
        """Return what is offered on the way that an exchange came."""
        return self.derived.features_for(exchange)

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

    def capabilities_for(self, revision: Revision, exchange: Exchange) -> JSONObject:
        """Return the capabilities advertised at a revision, on the way that an exchange came."""
        features = self.features(exchange)
        hears = ("listen" if revision.is_stateless else "resources.subscribe") in features
        extra = self.extra_capabilities(
            serves_ranges="resources" in features, read_chunk_bytes=self.options.read_chunk_bytes
        )
        found = {**to_capabilities(features, hears=hears), **extra}
        # Pings go to the standing streams of sessions, which a pipe and WSGI do not have.
        can_ping = exchange.headers is not None and hears and self.keeps_sessions
        limits = self.options.limits(can_ping=can_ping)
        if limits and not revision.is_stateless:
            found["experimental"] = {**limits, **found.get("experimental", {})}
        if "tasks" in features:
            found["extensions"] = {**found.get("extensions", {}), EXTENSION: {}}
        found = lower("capabilities", found, revision)
        if "tasks" in found and self.access.identify(exchange.principal) is not None:
            found["tasks"] = {"list": {}, **found["tasks"]}
        return found

    def implementation(self, revision: Revision) -> JSONObject:
        """Return who this server is, as a revision writes it."""
        return lower("implementation", self.options.implementation(), revision)

    def encode_result(self, result: JSONObject, revision: Revision) -> bytes:
        """Return a result as JSON, with the fields a revision adds to every result."""
        if not revision.is_stateless:
            return encode(result)
        fields = self._result_fields(revision)
        meta = result.get("_meta")
        if meta is not None:
            # The handler's own keys stand beside ours.
            return encode({**result, **fields.parsed, "_meta": {**meta, **fields.meta}})
        encoded = encode(result)
        return b"{%b" % fields.encoded if not result else b"%b,%b" % (encoded[:-1], fields.encoded)

    def encode_text(self, text: str, revision: Revision) -> bytes:
        """Return what `encode_result` does for the result of a tool that is one text."""
        if not revision.is_stateless:
            return b'{"content":[{"type":"text","text":%b}]}' % encode(text)
        fields = self._result_fields(revision).encoded
        return b'{"content":[{"type":"text","text":%b}],%b' % (encode(text), fields)

    def encode_interim(self, result: JSONObject, revision: Revision) -> bytes:
        """Return a result that asks for input, as JSON."""
        meta = self._result_fields(revision).meta
        return encode({**revision.interim_fields, **result, **({"_meta": meta} if meta else {})})

    def _result_fields(self, revision: Revision) -> ResultFields:
        # As it was when the request came.
        derived = self._derived or self.derived
        language = self.language.current() if derived.has_lazy_identity else None
        key = (revision.name, language)
        found = derived.result_fields.get(key)
        if found is None:
            meta = (
                {SERVER_INFO: self.implementation(revision)}
                if derived.options.has_server_info
                else {}
            )
            found = derived.result_fields[key] = ResultFields(revision.result_fields, meta)
        return found

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

    def list_cache(self) -> BoundedCache:
        """Return the encoded lists that are still true."""
        return self.derived.lists

    def injectables(self, annotation: Any) -> Provider | None:
        """Return what provides a parameter of this annotation; None for ordinary arguments."""
        if isinstance(annotation, type) and issubclass(annotation, Context):
            return _provide_context
        return None

    @property
    def derived(self) -> Derived:
        """What follows from the registry and the options, made anew when they change."""
        derived, options = self._derived, self.options
        version = self.registry.version
        if derived is None or derived.version != version or derived.options is not options:
            derived = self._derived = Derived(self.registry, options)
        return derived


@cache
def _load_answer() -> Callable[[MCPServer, Exchange], Coroutine[Any, Any, Reply]]:
    """Load what answers requests: a process that only registers has no use for it."""
    from django_mcp.server.dispatch import answer

    return answer


def _provide_context(ctx: Context[Any]) -> Context[Any]:
    return ctx
