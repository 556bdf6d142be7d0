"""The changes that clients are notified of, and the open streams that carry them."""

from __future__ import annotations

import asyncio
import contextvars
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from msgspec import field

from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import RequestId, encode_notification, encode_notification_head
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision, find_revision
from django_mcp.server.exchange.channel import Sink
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.pending import PART_BYTES, PendingBytes
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.visibility import VisibleEntries
from django_mcp.server.streams.process_messages import ProcessMessage

MAX_QUEUED_EVENTS = 256
MAX_QUEUED_BYTES = 256 * 1024
"""Maximum queue of a slow reader. Further change notices wait as the names of what changed; any other message
closes the stream."""

LISTS = ("tools", "prompts", "resources")

ELICITATION_COMPLETE = "notifications/elicitation/complete"
"""Only for revisions in which a client can be asked to visit a page."""

Topic: TypeAlias = tuple[str | None, str | None]
"""The name of a list, or the URI of a resource."""


class Change(ProcessMessage, tag="change"):
    """A change, or another notification, for open streams.

    Attributes:
        method, params: another notification, for sessions only.
        session: the key of the only session that receives it; None: all do.
        level: the level of a log message; only sessions whose log level admits it receive it.
    """

    server: str
    list: str | None = None
    uri: str | None = None
    method: str | None = None
    params: JSONObject | None = None
    session: str | None = None
    level: str | None = None

    def __post_init__(self) -> None:
        named = (self.list, self.uri, self.method)
        if sum(type(name) is str and name != "" for name in named) != 1:
            raise TypeError(
                "A notification needs one text that is not empty: the URI of a resource, or a method"
            )
        if self.params is not None and not isinstance(self.params, dict):
            raise TypeError(f"The params of a notification are a dict, not {self.params!r:.60}")

    @property
    def topic(self) -> Topic | None:
        """What a client should read again; None: this is no change notice."""
        return None if self.method is not None else (self.list, self.uri)

    def notification(self) -> tuple[str, JSONObject | None]:
        """Return the method and the params of the notification."""
        if self.list is not None:
            return f"notifications/{self.list}/list_changed", None
        if self.uri is not None:
            return "notifications/resources/updated", {"uri": self.uri}
        return self.method or "", self.params


class StreamKind(Enum):
    """What opened a stream."""

    STANDALONE = "get"
    LISTEN = "listen"
    LEGACY = "sse"
    STDIO = "stdio"


class Ending(Enum):
    """Why a stream has ended."""

    CLIENT = "the client has gone"
    AGE = "it was open for long enough"
    SLOW = "its reader was too slow"
    SESSION = "its session is over"
    PRINCIPAL = "its user may not use it any more"
    SHUTDOWN = "the server is shutting down"
    CLOSED = "it was closed by the site"
    SILENT = "its client did not answer pings"


class PushStream(Record, kw_only=True, weakref=True):
    """One open stream on which a client receives changes.

    Attributes:
        uris: the resources whose changes it receives. A session's streams share the session's set.
        watches: what runs beside it, by the keys of extensions that it listens to; None: nothing does.
        subscription_id: the id of the request that opened it, if its messages must contain that.
        tail: the end of all its messages that contains this id; see `encode_notification_head`.
        opened_at: seconds since the epoch, to compare with streams of other processes.
        claimed_s: when another process last claimed its session for a newer stream, by the loop's clock.
        closes_s: when it reaches its maximum age, by the loop's clock; 0: not set yet.
        context: the context variables of that request, such as its tenant.
        rights: what its principal could see when that was last determined; None: not yet.
    """

    kind: StreamKind
    server_name: str
    sink: Sink
    principal: Any
    lists: frozenset[str] = frozenset(LISTS)
    uris: set[str] = field(default_factory=set)
    watches: Mapping[str, Callable[[PushStream], Coroutine[Any, Any, None]] | None] = field(
        default_factory=dict
    )
    session: Session | None = None
    subscription_id: RequestId | None = None
    client_info: JSONObject | None = None
    revision_name: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    opened_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    opened_at: float = field(default_factory=time.time)
    exchange: Exchange | None = None
    quota_key: str = ""
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    rights: VisibleEntries | None = None
    claimed_s: float = 0.0
    closes_s: float = 0.0
    pinged_s: float = 0.0
    ping_id: str | None = None
    ping_failures: int = 0
    queued_bytes: int = 0
    pending: PendingBytes | None = None
    """What counts of its large messages; None until it runs."""
    is_active: bool = False
    tail: bytes = b""
    _queue: dict[Topic | object, bytes] = field(default_factory=dict)
    _late: dict[Topic, None] = field(default_factory=dict)
    _flusher: asyncio.Task[None] | None = None
    _watching: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ended: asyncio.Future[Ending] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def __post_init__(self) -> None:
        self.pinged_s = self.opened_s
        if self.subscription_id is not None:
            self.tail = b'"_meta":%b}}' % encode({SUBSCRIPTION_ID: self.subscription_id})

    @property
    def queued_events(self) -> int:
        """The number of messages that wait for its reader."""
        return len(self._queue) + len(self._late)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.done()

    @property
    def session_key(self) -> str | None:
        """The public key of its session. A pipe is one session with one stream, whose id is its key."""
        if self.kind is StreamKind.STDIO:
            return self.id
        return None if self.session is None else self.session.key

    def encode(self, method: str, params: JSONObject | None) -> bytes:
        """Return a notification in the form of this stream."""
        if self.tail:
            return encode_notification_head(method, params) + self.tail
        return encode_notification(method, params)

    def notify(self, change: Change) -> bool:
        """Queue the notification of a change; see `offer`."""
        return self.offer(self.encode(*change.notification()), change.topic)

    def offer(self, message: bytes, topic: Topic | None = None) -> bool:
        """Queue a message for the reader; return whether it will be sent.

        A change notice is merged with one of the same topic that waits, since it says "read again".
        When the queue is full, only its topic waits. Any other message then closes the stream.
        """
        if not self.is_open:
            return False
        if topic is not None and (topic in self._queue or topic in self._late):
            return True
        size_bytes = self.queued_bytes + len(message)
        # A single large message does not mean that the reader is slow.
        is_over = len(self._queue) >= MAX_QUEUED_EVENTS or size_bytes > MAX_QUEUED_BYTES
        if is_over and self._queue:
            if topic is None:
                logger.warning("Closed stream %s: %s", self.id, Ending.SLOW.value)
                self.end(Ending.SLOW)
                return False
            self._late[topic] = None
            return True
        pending = self.pending if len(message) > PART_BYTES else None
        if pending is not None and pending.add(len(message)) is not None:
            logger.warning("Closed stream %s: its user has too many unread bytes", self.id)
            self.end(Ending.SLOW)
            return False
        self.queued_bytes = size_bytes
        self._queue[object() if topic is None else topic] = message
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush())
        return True

    def validate_messages(self) -> None:
        """From now on, send only what is valid in its revision."""
        from django_mcp.server.exchange.strict import StrictSink

        if not isinstance(self.sink, StrictSink):
            self.sink = StrictSink(self._find_revision, self.sink)

    def _find_revision(self) -> Revision | None:
        settled = None if self.session is None else self.session.revision
        return settled or find_revision(self.revision_name)

    async def _flush(self) -> None:
        try:
            while self.is_open:
                message = self._take_next()
                if message is None:
                    break
                await self.sink.send(message)
                self.queued_bytes -= len(message)
                if len(message) > PART_BYTES and self.pending is not None:
                    self.pending.give_back(len(message))
        except Exception:
            logger.exception("Could not write to stream %s", self.id)
            self.end(Ending.CLIENT)
        finally:
            self._flusher = None

    def _take_next(self) -> bytes | None:
        """Return the next message; an equal change that comes from now on is queued again."""
        if self._queue:
            return self._queue.pop(next(iter(self._queue)))
        if not self._late:
            return None
        topic = next(iter(self._late))
        del self._late[topic]
        changed = Change(server=self.server_name, list=topic[0], uri=topic[1])
        message = self.encode(*changed.notification())
        self.queued_bytes += len(message)
        return message

    async def drain(self) -> None:
        """Wait until the queue is empty, or the stream has ended."""
        while self._flusher is not None and self.is_open:
            await asyncio.wait((self._flusher, self._ended), return_when=asyncio.FIRST_COMPLETED)

    def start_watch(self, key: str) -> None:
        """Run what an extension does beside this stream, unless it runs or has run."""
        watch = self.watches[key]
        # Who checked the rights of a stream may not know that it has ended.
        if watch is not None and self.is_open and key not in self._watching:
            self._watching[key] = asyncio.get_running_loop().create_task(
                self._watch(watch), context=self.context.copy()
            )

    def stop_watch(self, key: str) -> None:
        """Stop what an extension does beside this stream. It can be started again."""
        watching = self._watching.pop(key, None)
        if watching is not None:
            watching.cancel()

    async def _watch(self, watch: Callable[[PushStream], Coroutine[Any, Any, None]]) -> None:
        try:
            await watch(self)
        except Exception:
            logger.exception("An extension failed beside a listening stream, which ends")
            self.end(Ending.CLOSED)

    def take_pong(self, ping_id: object) -> bool:
        """Record the answer to a ping; return whether it was the open one."""
        if ping_id != self.ping_id or ping_id is None:
            return False
        self.ping_id = None
        self.ping_failures = 0
        return True

    def end(self, reason: Ending) -> None:
        """End the stream; queued messages are not sent any more."""
        if not self._ended.done():
            self._ended.set_result(reason)

    async def run(self) -> Ending:
        """Wait until the stream ends, and return the reason."""
        try:
            return await self._ended
        finally:
            self.end(Ending.CLIENT)
            if self._flusher is not None:
                self._flusher.cancel()
            if self.pending is not None:
                self.pending.close()


class StreamIndex:
    """The active streams of a process by server and topic, in the order in which they opened."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, Topic], dict[PushStream, None]] = {}

    def add(self, stream: PushStream) -> None:
        """Add a stream and mark it as active, unless it is."""
        if not stream.is_active:
            stream.is_active = True
            for key in topics_of(stream):
                self._streams.setdefault(key, {})[stream] = None

    def discard(self, stream: PushStream) -> None:
        """Remove a stream if it is active."""
        if not stream.is_active:
            return
        stream.is_active = False
        for key in topics_of(stream):
            streams = self._streams.get(key, {})
            streams.pop(stream, None)
            if not streams:
                self._streams.pop(key, None)

    def find(self, server: str, topic: Topic) -> Collection[PushStream]:
        return self._streams.get((server, topic), {})

    def uris(self) -> list[tuple[str, str]]:
        """Return the resources with a subscribed stream: names of servers, and URIs."""
        return [(server, uri) for server, (_list, uri) in self._streams if uri is not None]


def topics_of(stream: PushStream) -> Iterator[tuple[str, Topic]]:
    """Yield what a stream subscribed to, with the name of its server."""
    for name in stream.lists:
        yield stream.server_name, (name, None)
    for uri in stream.uris:
        yield stream.server_name, (None, uri)
