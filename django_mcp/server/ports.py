"""Ports: what the server needs from a site.

`django_mcp.memory_ports` makes all of them in memory; `django_mcp.site_ports` makes those of a site.
Methods without `async` run on the event loop and must not block.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, TypeVar

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import Refusal, try_later
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Batch, Message, Response
from django_mcp.registry.entries import Entry
from django_mcp.registry.forms import FormMaker
from django_mcp.registry.options import Atomic
from django_mcp.registry.returns import ResultConverter
from django_mcp.server.exchange.call import AskFailed, Call, Failure
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.exchange.visibility import Requirements, VisibleEntries
from django_mcp.server.operations import Instrument
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.stream import PushStream

T = TypeVar("T")


class HandlerScope(Protocol):
    """Where synchronous handlers run."""

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        """Run `function` off the event loop and return its value.

        If the awaiting task is cancelled, the function runs to its end, and its value is dropped.
        While it waits for a thread, `call.exchange.channel.waits_for_thread` is true. It runs in a
        transaction on the databases of `atomic`, which is committed only if the function returned
        and `call.is_cancelled` is false by then.
        """


class AccessPolicy(Protocol):
    """What principals may see and use."""

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        """Return what the exchange's principal can see; None if that has to be loaded."""

    async def load_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        """Load what the exchange's principal can see."""

    def check_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        """Return the refusal of a token that lacks one of the scopes, or None."""

    async def give_links(self, exchange: Exchange, tool: str, uris: Collection[str]) -> None:
        """Let a principal with restricted credentials read what a tool's result links to."""

    async def was_given(self, exchange: Exchange, uri: str) -> bool:
        """Return whether a result of a tool that the credentials name linked to a URI before."""

    def describe(self, principal: Any) -> JSONObject | None:
        """Return what `revive` needs to run something for a principal in another process."""

    async def revive(self, described: JSONObject | None) -> Any | None:
        """Return the described principal; None if it may do nothing now."""


RateCounter: TypeAlias = Callable[[Sequence[tuple[str, int]]], Awaitable[list[int]]]
"""Counts one more event for each key, kept for so many seconds at least, and returns the counts, which are
those of all processes together or of one."""


Observer: TypeAlias = Callable[[Call, bytes | Refusal | None, float], None]
"""Observes a finished tool call, resource read or prompt: the call, its answer (None: it was cancelled), and
its duration in seconds. It must not block or raise."""


class ExceptionMapper(Protocol):
    """Recognizes exceptions of the framework that are expected failures."""

    def map(self, error: Exception) -> Failure | None:
        """Return the failure that `error` means; None: an unexpected error."""

    def is_conflict(self, error: Exception) -> bool:
        """Return whether a transaction lost against another one, so that a second run may succeed."""

    def missing(self) -> Failure:
        """Return the failure for what is missing or invisible to the principal."""


class Signer(Protocol):
    """Signs values that travel through a client, for all processes."""

    def sign(self, value: bytes) -> str:
        """Return `value` signed, as visible ASCII."""

    def unsign(self, text: str) -> bytes | None:
        """Return the signed value, or None if the signature is wrong."""


class StateStore(Protocol):
    """Stores states that are too large to travel through a client, and which states were used.

    It is shared by all processes. Times are those of the server's clock. `keep` and `use` raise
    `StateStoreFull` if the caller, or all callers together, have too much stored.
    """

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        """Store a value for one principal, and return its reference."""

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """Return the value of a principal's reference; None if unknown, or another principal's."""

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        """Return the value of a principal's reference, and delete it."""

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        """Mark a token as used; return False if it was used before, in any process.

        The mark may be forgotten after `until_s`, when the token has expired.
        """


class StateStoreFull(Exception):
    """A limit of a `StateStore` is reached; the text names the limit and the remedy."""


STATE_STORE_FULL = (
    "Too many questions wait for an answer: answer some of them, or try again when they have "
    "expired (STATE_TTL_S)"
)


class StoreUnavailable(Exception):
    """A store of sessions or counts does not respond; the client may try again."""

    message = "The server cannot look this up now: try again"

    def to_refusal(self) -> Refusal:
        """Return the refusal for the client."""
        return try_later(self.message, 2)


BUSY = (
    "The server is busy with other calls, so this one ended early; it may have had effects already"
)
"""For a call that had begun."""


class NoThread(StoreUnavailable):
    """A call got no thread in time, or too many calls wait for one."""

    message = "The server is busy with other calls, and this one was not begun: try again"


class SessionStore(Protocol):
    """Stores sessions so that every process of the site finds them.

    When one ends, one process notifies its server's `ConnectionObserver`, once. The store sets the
    sessions that a process uses in `hub.sessions`, and calls `hub.forget_session` for one that it
    finds to have ended. It adds itself to `hub.stores`, so that its `recheck(hub)` is called regularly.
    """

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        """Store a new session, and return its secret id.

        The id has 128 random bits or more, and is stored as a digest only.
        """

    def peek(self, token: str) -> Session | None:
        """Return the session with this id if this process has read it within the last 2 s."""

    async def find(self, token: str) -> Session | None:
        """Return the current session with this id; None: unknown or ended."""

    async def get(self, key: str) -> Session | None:
        """Return the current session with this public key; None: unknown or ended."""

    async def has_stream(self, session: Session) -> bool:
        """Return whether a stream of the session is open in any process, or may just have been opened."""

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        """Set attributes on the object and in the store.

        They are `is_initialized`, `log_level`, or all that a handshake has settled.
        """

    async def end(self, keys: Collection[str], reason: Closing) -> list[str]:
        """End sessions and delete their data; return the keys of those that existed."""

    async def subscribe(self, session: Session, uri: str) -> Refusal | None:
        """Add a URI to the session's subscriptions, in the store and on the object."""

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """Remove a URI from the session's subscriptions, in the store and on the object."""

    async def read_subscriptions(self, session: Session) -> set[str]:
        """Return the session's subscriptions from the store, and set them on the object."""

    def data(self, session: Session, call: Call) -> Any:
        """Return `ctx.session`: the user's own data of this session, like a dict."""


class PendingResponses(Protocol):
    """Counts the responses that clients still have to send to requests of the server."""

    @property
    def relay(self) -> ResponseRelay | None:
        """None: a response always reaches the process that waits for it."""

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        """Expect a response, unless one with this id is expected already. May raise `QuotaReached`."""

    async def forget(self, session: Session, ask_id: str) -> None:
        """Stop expecting a response; a later one is ignored."""


class ResponseRelay(Protocol):
    """Passes responses from the process that receives them to the one that waits for them."""

    async def put(self, session: Session, ask_id: str, response: JSONObject) -> bool:
        """Store the first response to a request if it is expected. May raise `QuotaReached`."""

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """Return the response if it has arrived."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One recorded event of a stream: its number there (from 1 on), and its message."""

    number: int
    message: bytes
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumption:
    """The recorded events of a stream after some number, and whether its call still runs."""

    events: Sequence[Event]
    is_running: bool


class EventLog(Protocol):
    """Records the events of streams that can be resumed, bounded in number, size and age.

    Writing never waits: records are stored soon after, in batches.
    """

    def open(self, stream_id: str, session: Session) -> None:
        """Record the start of a stream whose call runs in this process."""

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        """Record an event. After the last one, the call has ended."""

    def close(self, stream_id: str, session: Session) -> None:
        """Record that a stream's call has ended without an answer."""

    async def read(self, stream_id: str, session: Session, after: int) -> Resumption | None:
        """Return what was recorded after event `after`; None: no such stream of this session."""


class Handshakes(Protocol):
    """What only the revisions with a handshake need: sessions, their streams, and requests to the client.

    A server that offers none of these revisions only calls `join`. `server` is its `Services`, and
    `call` a `ServedCall`.
    """

    def dispatch(
        self, server: Any, message: Message | Batch, exchange: Exchange, dispatch: Dispatch
    ) -> Coroutine[Any, Any, Reply]:
        """Return the reply to a message over HTTP that may belong to a session.

        `dispatch` is called when the session is known.
        """

    async def complete(self, call: Any, reply: Reply) -> Reply | Refusal:
        """Store what an `initialize` has settled; return the reply, with the id of a new session."""

    def open_stream(self, server: Any, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Open the standalone stream of a session, or resume a broken stream; return at its end."""

    async def close_stream(self, call: Any, retry_ms: int) -> None:
        """Close the connection of a call that goes on, if the client can resume its stream."""

    def end_session(self, server: Any, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """End the session that the exchange names."""

    async def ask(
        self, call: Any, asks: Mapping[str, Ask], meta: JSONObject | None = None
    ) -> tuple[dict[str, Any], dict[str, AskFailed]]:
        """Ask the client all questions at once; return its answers, and why there are none, by key."""

    async def request(
        self, call: Any, method: str, params: JSONObject | None, *, timeout_s: float
    ) -> JSONObject:
        """Send the client a request on the stream of a call, and return its response.

        Raises `NoAnswer` if none came in time.
        """

    async def ping(self, server: Any, session: Session, timeout_s: float) -> bool:
        """Ping the client of a session on its standalone stream; return whether it answered in time."""

    async def withdraw(
        self, server: Any, connection: ConnectionState, request_id: str, reason: str
    ) -> bool:
        """Cancel a request to the client, in any process; return whether it waited for an answer."""

    async def take_response(
        self, server: Any, response: Response, exchange: Exchange
    ) -> Refusal | None:
        """Pass a response to the request that waits for it, or return a refusal."""

    def join(self, hub: Hub[Any]) -> None:
        """Have a hub receive what other processes send about these revisions."""


Dispatch: TypeAlias = Callable[[Any, Message | Batch, Exchange], Awaitable[Reply]]
"""Returns the reply to a message of an exchange; the first argument is the `Services`."""


class ConnectionObserver(Protocol):
    """Observes sessions and streams. Must not block or raise."""

    def session_opened(self, session: Session) -> None: ...

    def session_closed(self, session: Session, reason: str) -> None:
        """Observe the end of a session, in any thread of the process that ended it.

        The object may be a copy, made from what was stored.
        """

    def stream_opened(self, stream: PushStream) -> None: ...

    def stream_closed(self, stream: PushStream, reason: str) -> None: ...

    def client_notification(
        self, connection: ConnectionState | None, method: str, params: JSONObject, quota_key: str
    ) -> None:
        """Observe a client's notification; `connection` is None outside of a lasting connection.

        `quota_key` is that of the caller.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Today:
    """A day: a sentence with its date and the time zone, and in how many seconds it ends."""

    text: str
    ends_in_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """All ports of one server. They are made before its engine, and none is replaced afterwards.

    Attributes:
        hub: passes changes to open streams, and messages between processes.
        find_observer: returns the observer of a call that starts now, if any.
        find_language: returns the code of the active language; None if texts are not translated.
        find_toolset: returns the toolset of an entry; None: it is in none.
        find_today: returns the day of a time of the clock, in the time zone and the language of the caller.
        make_context: makes what handlers get of a `ServedCall`.
        clock: the seconds since 1970.
        watch_async: given the run of an asynchronous handler, its call, and what the log calls it, returns
            the same run, whose mistakes are logged; None: it is not watched.
        trace_error: given a call and the exception that its handler ended with, returns what the observer needs of
            it; None: nothing.
        shows_faults: whether clients are told the class and the text of an unexpected exception.
        instrument: watches the operations of the server; None: nothing does.
    """

    hub: Hub[Any]
    scope: HandlerScope
    access: AccessPolicy
    counter: RateCounter
    exceptions: ExceptionMapper
    signer: Signer
    states: StateStore
    handshakes: Handshakes
    sessions: SessionStore
    pending_responses: PendingResponses
    events: EventLog
    connection_observer: ConnectionObserver
    find_observer: Callable[[], Observer | None]
    find_language: Callable[[], str | None]
    find_today: Callable[[float], Today]
    converter: ResultConverter
    make_form: FormMaker
    make_context: Callable[[Any], Any]
    find_toolset: Callable[[Entry], str | None] = attrgetter("toolset")
    clock: Callable[[], float] = time.time
    watch_async: Callable[[Awaitable[Any], Call, str], Awaitable[Any]] | None = None
    trace_error: Callable[[Call, BaseException], Any] | None = None
    shows_faults: bool = False
    instrument: Instrument | None = None
