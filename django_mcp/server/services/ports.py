"""Ports: what the server needs from its surroundings. `memory` has a plain implementation of each.

The Django side implements them on threads, transactions, permissions and settings. A method
without `async` in front is called on the event loop and must not block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.atomic import Atomic

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call, Failure
    from django_mcp.server.exchange.connection import Closing, ConnectionState, Session
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.exchange.visibility import Offer, Requirements
    from django_mcp.server.streams.stream import PushStream

T = TypeVar("T")


class HandlerScope(Protocol):
    """Where synchronous handlers run."""

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        """Run `function` off the event loop and return what it returns.

        When the awaiting task is cancelled the function runs on to its end, unheard. While it waits
        for others to end, `call.exchange.waits_for_thread` is true.

        Args:
            function: takes nothing.
            call: the request.
            atomic: on which databases it runs in a transaction. What it wrote there is kept only
                if it returned and `call.is_cancelled` is false by then.
        """
        ...


class AccessPolicy(Protocol):
    """Who may see and use what; `offers` acts on it."""

    def find_offer(self, exchange: Exchange, requirements: Requirements) -> Offer | None:
        """Return what there is for the exchange's principal; None when that has to be loaded.

        Args:
            exchange: the request, or the stream.
            requirements: of the server's entries.
        """
        ...

    async def load_offer(self, exchange: Exchange, requirements: Requirements) -> Offer:
        """Find out what there is for the exchange's principal, where it takes a query."""
        ...

    def refuse_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        """Return the challenge when the principal's token lacks one of the scopes."""
        ...

    def identify(self, principal: Any) -> str | None:
        """Return who a principal is, equal for all of their requests; None: nobody knows."""
        ...

    def describe(self, principal: Any) -> JSONObject | None:
        """Return what `revive` needs to have a task run for a principal in another process."""
        ...

    async def revive(self, described: JSONObject | None) -> Any | None:
        """Return the principal that was described; None when nothing may be done for it now."""
        ...


class RateCounter(Protocol):
    """Counts what happens, for all processes together or for one."""

    async def add(self, keys: Sequence[tuple[str, int]]) -> list[int]:
        """Count one more under each key, and return the counts.

        Args:
            keys: each with the seconds after which its count may be forgotten.
        """
        ...


class Observer(Protocol):
    """Hears of each tool called, resource read and prompt filled in."""

    def answered(self, call: Call, answer: bytes | Refusal | None, duration_s: float) -> None:
        """Take note of a request that was answered. On the event loop; must not block or raise.

        What was called, how it failed and whether it asked are in `call`.

        Args:
            call: the request.
            answer: the encoded result or the refusal; None: it was cancelled.
            duration_s: how long it took, waiting for a thread and being cancelled included.
        """
        ...


class ExceptionMapper(Protocol):
    """Knows which exceptions of the framework are expected failures."""

    def map(self, error: Exception) -> Failure | None:
        """Return what `error` means to the client; None: it is a fault of ours."""
        ...

    def missing(self) -> Failure:
        """Return the failure for something that is missing, or that the principal may not see."""
        ...


class Sealer(Protocol):
    """Makes values tamper-proof on their way through a client and back, across workers."""

    def seal(self, value: bytes) -> str:
        """Return `value` signed, as visible ASCII."""
        ...

    def unseal(self, text: str) -> bytes | None:
        """Return the value that was sealed; None when the text is not one of ours."""
        ...


class StateStore(Protocol):
    """Keeps what is too large to travel through a client, and knows which states were used.

    Every process that serves the site has the same one. Times are by the server's clock.
    """

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        """Keep a value for one principal, and return the reference that leads to it.

        Raises:
            StateStoreFull: the caller, or all callers together, have too much stored already.
        """
        ...

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """Return what a principal's reference leads to; None when it is not kept, or not theirs."""
        ...

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        """Return what a principal's reference leads to, and keep it no longer."""
        ...

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        """Note that something is used; False when it was used before, in whichever process.

        Who uses it after `until_s` is refused elsewhere, so the note need not be kept for longer.

        Raises:
            StateStoreFull: the caller, or all callers together, have too much stored already.
        """
        ...


class StateStoreFull(Exception):
    """The limits of a `StateStore` are reached; its text names the limit and the remedy."""


STATE_STORE_FULL = (
    "Too many questions wait for an answer: answer some of them, or try again when they have "
    "expired (STATE_TTL_S)"
)


class Language(Protocol):
    """The language that lazy texts are read in now."""

    def current(self) -> str | None:
        """Return its code; None where texts are not translated."""
        ...


class StoreUnavailable(Exception):
    """What sessions or counts are kept in does not answer now; the client is told to come again."""


class SessionStore(Protocol):
    """Where sessions are kept, so that any process that serves the site finds them.

    However one ends, the store of one process says so to its server's `ConnectionObserver`, once.
    """

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        """Keep a session that a handshake has just opened, and return its secret id.

        The id has 128 random bits or more and is kept as a digest only.
        """
        ...

    def peek(self, token: str) -> Session | None:
        """Return the session with this id if it is known here and was read within the last 2 s."""
        ...

    async def find(self, token: str) -> Session | None:
        """Return the session with this id, as it is now; None when there is none, or no longer."""
        ...

    async def get(self, key: str) -> Session | None:
        """Return the session with this public key, as it is now; None when it is over."""
        ...

    async def has_stream(self, session: Session) -> bool:
        """Return whether a stream of the session is open, or may have been opened just now, anywhere."""
        ...

    async def settle(self, session: Session) -> None:
        """Keep what the handshake settled, of a session that was opened before it."""
        ...

    async def save(self, session: Session) -> None:
        """Keep `is_initialized` and `log_level` as they are on the object."""
        ...

    async def end(self, key: str, reason: Closing) -> bool:
        """End a session and forget what belongs to it; return whether there was one."""
        ...

    async def subscribe(self, session: Session, uri: str) -> Refusal | None:
        """Add a URI to the session's subscriptions, in the store and on the object."""
        ...

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """Take a URI from the session's subscriptions, if it is one of them."""
        ...

    async def read_subscriptions(self, session: Session) -> set[str]:
        """Return the URIs the session is subscribed to, read anew, and set them on the object."""
        ...

    def data(self, session: Session, call: Call) -> Any:
        """Return what `ctx.session` is: the user's own data of this session, like a dict."""
        ...


class AnswerBox(Protocol):
    """Answers to questions that were asked on a stream, from whichever process they arrive at."""

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        """Note that an answer is waited for; False when one under this id is waited for already.

        Raises:
            QuotaReached: too many are waited for.
        """
        ...

    async def put(self, session: Session, ask_id: str, answer: JSONObject) -> bool:
        """Keep the first answer to a question of this session; return whether it was waited for.

        Raises:
            QuotaReached: too many bytes of answers wait to be taken.
        """
        ...

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """Return the answer if it has come."""
        ...

    async def forget(self, session: Session, ask_id: str) -> None:
        """Wait no longer; what comes now is ignored."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One recorded event of a stream: its place there (from 1 on), and the message it carries."""

    number: int
    message: bytes
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What is recorded of a stream behind some place, and whether its call still runs somewhere."""

    events: Sequence[Event]
    is_running: bool


class EventLog(Protocol):
    """What was sent on streams that can be resumed, within bounds of number, size and age.

    Writing never waits: records reach the store soon after, in batches.
    """

    def open(self, stream_id: str, session: Session) -> None:
        """Note that a stream has begun whose call runs in this process."""
        ...

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        """Record an event. After the last one, the call runs no more."""
        ...

    def close(self, stream_id: str, session: Session) -> None:
        """Note that a stream's call runs no more, and that there is no answer to record."""
        ...

    async def read(self, stream_id: str, session: Session, after: int) -> Replay | None:
        """Return what was recorded behind event `after`; None for a stream not of this session."""
        ...


class ConnectionObserver(Protocol):
    """Is told what happens; must not block, and what it raises is logged and otherwise ignored."""

    def session_opened(self, session: Session) -> None: ...

    def session_closed(self, session: Session, reason: str) -> None:
        """Hear of a session that is over, in any thread of the process that ended it.

        The session may be an object of its own, made from what was kept.
        """
        ...

    def stream_opened(self, stream: PushStream) -> None: ...

    def stream_closed(self, stream: PushStream, reason: str) -> None: ...

    def client_notification(
        self, connection: ConnectionState | None, method: str, params: JSONObject
    ) -> None:
        """Hear of a notification of a client; `connection` is None outside of a connection."""
