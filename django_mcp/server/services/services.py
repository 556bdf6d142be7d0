"""Services: the ports of a server, and what its own code asks of the server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.meta import SERVER_INFO
from django_mcp.protocol.revisions import Revision, RevisionSet, lower
from django_mcp.protocol.tasks import EXTENSION
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.cache import BoundedCache
from django_mcp.server.exchange.capabilities import to_capabilities
from django_mcp.server.exchange.derived import Derived, ResultFields
from django_mcp.server.exchange.visibility import Offer
from django_mcp.server.services.advertising import Advertising
from django_mcp.server.streams.hub import Hub

if TYPE_CHECKING:
    from django_mcp.protocol.messages import Request
    from django_mcp.registry.forms import FormMaker
    from django_mcp.registry.returns import ResultConverter
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.options import Options
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
    from django_mcp.server.services.task_ports import TaskRunner, TaskStore
    from django_mcp.server.services.turns import Turns
    from django_mcp.server.streams.stream import Change, PushStream

__all__ = ["ServerHub", "Services"]

ServerHub: TypeAlias = "Hub[Services]"
"""A hub, with the servers whose streams it has."""


class Services(Advertising):
    """What the parts of a server use of it: its ports, its registry, and what follows from both.

    Attributes such as `scope`, `access` and `states` implement `services.ports`.
    """

    context_class: ClassVar[type[Any]]
    """A subclass of `Call`, which handlers get as their context."""
    registry: Registry
    hub: ServerHub
    scope: HandlerScope
    access: AccessPolicy
    counter: RateCounter
    exceptions: ExceptionMapper
    clock: Callable[[], float]
    sealer: Sealer
    states: StateStore
    language: Language
    converter: ResultConverter
    observer: Observer | None
    connection_observer: ConnectionObserver
    make_form: FormMaker
    turns: Turns
    sessions: SessionStore
    answers: AnswerBox
    events: EventLog
    error_handlers: tuple[Callable[[BaseException, Any, str | None], Any], ...]
    _derived: Derived | None = None

    @property
    @abstractmethod
    def options(self) -> Options:
        """The settings in force now."""

    @property
    @abstractmethod
    def tasks(self) -> TaskStore:
        """What tasks are kept in; made when first asked for."""

    @property
    @abstractmethod
    def runner(self) -> TaskRunner:
        """What has tasks run; made when first asked for."""

    def make_call(self, exchange: Exchange, message: Request, connection: ConnectionState) -> Call:
        """Return the call of a request on a connection whose revision is settled.

        It is the context that the handler of the request gets.
        """
        rules = connection.revision
        if rules is None:
            raise ValueError("a call needs a connection with a revision")
        meta = message.params.get("_meta")
        found: Call = self.context_class(
            exchange,
            message,
            connection,
            rules,
            self.options,
            message.method,
            meta if type(meta) is dict else {},
            server=self,
        )
        return found

    @abstractmethod
    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return what tells whether a stream is sent the change of a resource; None: each is."""

    @property
    def name(self) -> str:
        """Who this server is to clients, and to other processes."""
        return self.options.name

    @property
    def is_public(self) -> bool:
        """Whether everybody is served, so that results alike for all may be shared."""
        return True

    def find_observer(self) -> Observer | None:
        """Return the observer if it wants to be told of calls now; asked when a call begins."""
        return self.observer

    @property
    def derived(self) -> Derived:
        """What follows from the registry and the options, made anew when they change."""
        derived, options = self._derived, self.options
        version = self.registry.version
        if derived is None or derived.version != version or derived.options is not options:
            derived = self._derived = Derived(self.registry, options)
        return derived

    @property
    def revisions(self) -> RevisionSet:
        """The revisions this server speaks."""
        return self.derived.revisions

    @property
    def keeps_sessions(self) -> bool:
        """Whether clients of the revisions with a handshake get a session over HTTP."""
        return self.derived.keeps_sessions

    def list_cache(self) -> BoundedCache:
        """Return the encoded lists that are still true."""
        return self.derived.lists

    # -- the hub

    def join_hub(self) -> ServerHub:
        """Start the hub on the running event loop, add this server to it, and return it."""
        hub, name = self.hub, self.options.name
        if not hub.is_running:
            hub.start()
        if hub.servers.get(name) is not self:
            hub.servers[name] = self
            self.joined(hub)
        return hub

    def joined(self, hub: ServerHub) -> None:
        """Have the hub look after what this server keeps; called when it is added to the hub."""

    # -- what a principal sees

    async def refresh_offer(self, exchange: Exchange) -> Offer:
        """Find out what there is now for the principal of an exchange, which may be an old one."""
        requirements = self.derived.requirements
        offer = self.access.find_offer(exchange, requirements)
        if offer is None:
            offer = await self.access.load_offer(exchange, requirements)
        exchange.offer = offer
        return offer

    def features(self, exchange: Exchange) -> Container[str]:
        """Return what is offered on the way that an exchange came."""
        way = (exchange.can_stream, exchange.is_buffered, exchange.connection is None)
        return self.derived.offered[way]

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

    # -- results

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
