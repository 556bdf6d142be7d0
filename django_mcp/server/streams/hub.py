"""The hub: knows the open streams of a process and links them to those of other processes.

Everything here runs on one event loop. A change costs one message to the other processes, whatever
the number of streams, and one entry in the queue of each subscribed stream.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from django_mcp.log import logger
from django_mcp.protocol.messages import RequestId, encode_notification_head, encode_request
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.quotas import QuotaMeter
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.timers import wait_up_to
from django_mcp.server.options import Options
from django_mcp.server.streams import process_messages as messages
from django_mcp.server.streams.followers import Followers
from django_mcp.server.streams.messenger import Bus, Messenger, Outbox
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamIndex, topics_of

TICK_S = 1.5
"""Period of the maintenance of streams. With its duration, what a process knows is at most 2 s old."""

JOIN_S = 1.0
"""How long the first streams of a process wait until the bus receives messages."""


class CallTable:
    """The calls in flight, by what they belong to and their request ids.

    A call belongs to a connection that outlives it, to the run of a task, or to nothing.
    """

    def __init__(self) -> None:
        # A call holds its connection and its run, so no other object has their identity meanwhile.
        self._calls: dict[tuple[int, RequestId], Call] = {}

    def add(self, call: Call, owner: object = None) -> bool:
        """Add a call; return False if its owner has one with the same id, which then stays."""
        return self._calls.setdefault((id(owner or call), call.message.id), call) is call

    def discard(self, call: Call, owner: object = None) -> None:
        """Remove a call; another one of the same owner with the same id stays."""
        key = (id(owner or call), call.message.id)
        if self._calls.get(key) is call:
            del self._calls[key]

    def find(self, connection: ConnectionState, request_id: RequestId) -> Call | None:
        return self._calls.get((id(connection), request_id))

    def of(self, connection: ConnectionState) -> list[Call]:
        wanted = id(connection)
        return [call for key, call in list(self._calls.items()) if key[0] == wanted]

    def has_any_of(self, connections: Iterable[ConnectionState]) -> bool:
        return not {key[0] for key in list(self._calls)}.isdisjoint(map(id, connections))

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def __len__(self) -> int:
        return len(self._calls)

    def clear(self) -> None:
        self._calls.clear()


@dataclass(slots=True)
class _SubscriptionsReading:
    """The reading of a session's subscriptions: whether to read, and whether a resource changed meanwhile."""

    is_again: bool = True
    has_missed: bool = False


class StreamPolicy(Protocol):
    """What a hub needs of the servers whose streams it has."""

    @property
    def options(self) -> Options:
        """The settings of the server."""

    async def read_subscriptions(self, session: Session) -> set[str]:
        """Return the subscriptions of a session from the store, and set them on the object."""

    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return a function that returns whether a stream receives a change; None: each does."""


ServerT = TypeVar("ServerT", bound=StreamPolicy)


class Hub(Messenger, Generic[ServerT]):
    """Passes changes to the open streams of this process, and messages between processes.

    Attributes:
        uris: counts the URIs that listening streams subscribed to.
        sessions: those that this process holds objects of, by key.
        on_start: functions called when the hub starts on an event loop.
        on_tick: functions called every `TICK_S`; what they return is awaited if it is a coroutine.
        stores: those of sessions, whose `recheck` is called so too, for as long as they live.
        on_stop: functions awaited when the process is about to end.
    """

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.streams: dict[str, PushStream] = {}
        self.sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self.servers: WeakValueDictionary[str, ServerT] = WeakValueDictionary()
        self.calls = CallTable()
        self.on_start: list[Callable[[Hub[Any]], Any]] = []
        self.on_tick: list[Callable[[Hub[Any]], Any]] = []
        self.stores: WeakSet[Any] = WeakSet()
        self.on_stop: list[Callable[[Hub[Any]], Awaitable[None]]] = []
        self.on(Change, self.publish)
        self.on(messages.CloseStream, self._close)
        self.on(messages.PingClient, self._ping)
        self.on(messages.Pong, self._take_pong)
        self.on(messages.SessionEnded, lambda message: self.forget_session(message.session))
        self.on(messages.StreamOpened, self._take_claim)
        self.on(messages.StreamGone, self._take_gone)
        self.on(messages.SubscriptionsChanged, self._take_subscriptions)
        self.on(messages.CallCancelled, self._take_cancelled)
        self.followers = Followers(self)
        self._by_session: dict[str, list[PushStream]] = {}
        # By the keys of sessions whose subscriptions are being read.
        self._reading: dict[str, _SubscriptionsReading] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._joined: asyncio.Event | None = None
        self.reset()

    def start(self) -> None:
        """Start on the running event loop, unless the hub runs."""
        if self.is_running:
            return
        if self.loop is not None:
            self.reset()
        self.loop = asyncio.get_running_loop()
        # The request that starts the hub ends, and its trace and its language must not stay current here.
        contextvars.Context().run(self._begin, self.loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticker = loop.create_task(self._tick())
        self._joined = self.bus.start(self.receive)
        for function in self.on_start:
            function(self)

    async def wait_for_bus(self) -> None:
        """Wait until the bus receives messages, up to `JOIN_S`."""
        if self._joined is not None and not self._joined.is_set():
            # A stream with the changes of this process only is better than none.
            await wait_up_to(JOIN_S, self._joined.wait())

    @property
    def is_busy(self) -> bool:
        """Whether messages of other processes can concern anything here."""
        return bool(
            self.streams
            or self.followers.count
            or self.calls.has_any_of(list(self.sessions.values()))
            or any(session.asked for session in list(self.sessions.values()))
        )

    def reset(self) -> None:
        """Forget what belongs to another event loop, or to the process this one was forked from."""
        self.is_closing = False
        self.streams.clear()
        self.quotas = QuotaMeter()
        self.uris = QuotaMeter()
        self.calls.clear()
        self.index = StreamIndex()
        self._by_session.clear()
        self._reading.clear()
        self._ticker = None
        self.loop = None
        self._outbox = Outbox(self.send)

    async def stop(self) -> None:
        """End every stream, receive no more messages, and forget what belongs to this event loop."""
        self.end_streams(Ending.SHUTDOWN)
        if self._ticker is not None:
            self._ticker.cancel()
        await self.flush()
        await self._outbox.stop()
        await self.bus.stop()
        is_closing = self.is_closing
        self.reset()
        self.is_closing = is_closing

    async def prepare_to_stop(self) -> None:
        """Run the `on_stop` functions, which write what must be written before the process ends."""
        await self._run_all(self.on_stop, "Could not finish before the process ends")

    def end_streams(self, reason: Ending) -> None:
        for stream in list(self.streams.values()):
            stream.end(reason)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            # Not held in a variable, which would keep the stores alive.
            await self._run_all(
                [*self.on_tick, *(store.recheck for store in self.stores)],
                "Could not look after the open streams",
            )

    async def _run_all(self, functions: Iterable[Callable[[Hub[Any]], Any]], failed: str) -> None:
        for function in functions:
            try:
                result = function(self)
                if asyncio.iscoroutine(result):
                    await result
            except Exception:
                logger.exception(failed)

    def attach(self, stream: PushStream) -> None:
        """Let a stream receive changes, in place of an older one of the same session."""
        self.start()
        server = self.servers.get(stream.server_name)
        if server is not None and server.options.strict:
            stream.validate_messages()
        if self.is_closing:
            # Its request came before that.
            stream.end(Ending.SHUTDOWN)
        self.streams[stream.id] = stream
        self.quotas.add(stream.quota_key, 0, count=1)
        key = stream.session_key
        if key is not None:
            others = self._by_session.setdefault(key, [])
            for other in others:
                self.index.discard(other)
            others.append(stream)
            if stream.session is not None:
                self._claim(key, stream)
        self.index.add(stream)

    def detach(self, stream: PushStream) -> None:
        """Remove a stream; if it was the active one, an older one of its session receives changes again."""
        if self.streams.pop(stream.id, None) is None:
            return
        was_active = stream.is_active
        self.quotas.give_back(stream.quota_key, 0)
        self.index.discard(stream)
        key = stream.session_key
        if key is None:
            return
        others = self._by_session[key]
        others.remove(stream)
        if others:
            if was_active:
                self.index.add(others[-1])
            return
        del self._by_session[key]
        if stream.session is not None:
            self.broadcast(messages.StreamGone(session=key))

    def _claim(self, session_key: str, stream: PushStream) -> None:
        """Have the newest stream of a session receive its messages, in whichever process that is."""
        self.broadcast(messages.StreamOpened(session=session_key, at=stream.opened_at))

    def streams_of(self, session_key: str) -> list[PushStream]:
        """Return the open streams of a session (or pipe) in this process, oldest first."""
        return list(self._by_session.get(session_key, ()))

    def find_active(self, session_key: str) -> PushStream | None:
        """Return the stream of a session that receives changes, if it is in this process."""
        streams = self._by_session.get(session_key)
        return streams[-1] if streams and streams[-1].is_active else None

    def set_subscriptions(
        self, connection: ConnectionState, uris: Iterable[str], *, version: int | None = None
    ) -> None:
        """Subscribe the streams of a session or pipe to these resources, and to no others.

        Args:
            version: how often the stored ones had changed. If those that are known are newer, as when
                another process is told late, nothing changes. None: they are the newest.
        """
        if version is not None:
            if version < connection.subscriptions_version:
                return
            connection.subscriptions_version = version
        key = connection.key if isinstance(connection, Session) else connection.stream_id
        streams = self.streams_of(key or "")
        active = [stream for stream in streams if stream.is_active]
        for stream in active:
            self.index.discard(stream)
        if connection.subscriptions is None:
            connection.subscriptions = set()
        # The set is shared with the streams, also with one that is about to open.
        connection.subscriptions.clear()
        connection.subscriptions.update(uris)
        for stream in streams:
            stream.uris = connection.subscriptions
        for stream in active:
            self.index.add(stream)

    def publish(self, change: Change, to: PushStream | None = None) -> int:
        """Send a change to the streams of this process, or to one; return how many will be sent it."""
        method, params = change.notification()
        server = self.servers.get(change.server)
        if server is None and change.uri is not None:
            # Nothing says who may read it.
            return 0
        if change.uri is not None and to is None:
            for reading in self._reading.values():
                reading.has_missed = True
        may_receive = None if server is None else server.may_receive(change)
        topic = change.topic
        if to is not None:
            receivers = [to]
        elif topic is not None:
            receivers = list(self.index.find(change.server, topic))
        else:
            # One of each session.
            keys = self._by_session if change.session is None else (change.session,)
            active = [stream for stream in map(self.find_active, keys) if stream is not None]
            receivers = [stream for stream in active if stream.server_name == change.server]
        shared, head, reached = b"", b"", 0
        for stream in receivers:
            if may_receive is not None and not may_receive(stream):
                continue
            if stream.tail:
                head = head or encode_notification_head(method, params)
                reached += stream.offer(head + stream.tail, topic)
            else:
                shared = shared or stream.encode(method, params)
                reached += stream.offer(shared, topic)
        return reached

    def announce(self, change: Change) -> int:
        """Publish a change here and in every other process; return how many streams it reaches here."""
        if change.method is not None or self.loop is not asyncio.get_running_loop():
            self.broadcast(change)
        elif self.bus.is_shared:
            self._outbox.put_notice(change)
        return self.publish(change)

    def claim_sessions(self) -> None:
        """Let inactive streams receive their sessions' messages, unless other processes have newer ones.

        A message that a newer stream has ended may have been lost.
        """
        for key, newest in self.find_inactive().items():
            self.index.add(newest)
            self._claim(key, newest)

    def find_inactive(self) -> dict[str, PushStream]:
        """Return the newest stream of each session whose messages another process sends, by key."""
        by_session = self._by_session.items()
        return {key: streams[-1] for key, streams in by_session if not streams[-1].is_active}

    def take_over(self, key: str, stream: PushStream) -> None:
        """Let an inactive stream receive its session's messages, and announce what it subscribed to."""
        if self.streams_of(key)[-1:] == [stream] and not stream.is_active:
            self.index.add(stream)
            self._claim(key, stream)
            for server_name, (list_name, uri) in topics_of(stream):
                self.publish(Change(server=server_name, list=list_name, uri=uri), to=stream)

    def _close(self, message: messages.CloseStream) -> bool:
        stream = self.streams.get(message.stream)
        if stream is not None:
            stream.end(Ending.CLOSED)
        return stream is not None

    def _ping(self, message: messages.PingClient) -> bool:
        stream = self.find_active(message.session)
        return stream is not None and stream.offer(encode_request(message.id, "ping"))

    def _take_pong(self, message: messages.Pong) -> bool:
        return any(stream.take_pong(message.id) for stream in self.streams_of(message.session))

    def end_session(self, key: str) -> None:
        """Cancel the calls and end the streams of a session, in every process."""
        self.broadcast(messages.SessionEnded(session=key))
        self.forget_session(key)

    def forget_session(self, key: str) -> None:
        """Cancel the calls and end the streams of a session in this process."""
        session = self.sessions.get(key)
        if session is not None:
            session.is_ended = True
            for call in self.calls.of(session):
                call.cancel()
        for stream in self.streams_of(key):
            stream.end(Ending.SESSION)

    def _take_claim(self, message: messages.StreamOpened) -> None:
        """Leave a session's messages to a newer stream of another process."""
        for stream in self._by_session.get(message.session, ()):
            if stream.opened_at < message.at:
                stream.claimed_s = asyncio.get_running_loop().time()
                self.index.discard(stream)
            elif stream.is_active and stream.opened_at > message.at:
                self._claim(message.session, stream)

    def _take_gone(self, message: messages.StreamGone) -> None:
        for stream in self._by_session.get(message.session, ())[-1:]:
            self.index.add(stream)
            self._claim(message.session, stream)

    def _take_subscriptions(self, message: messages.SubscriptionsChanged) -> None:
        session = self.sessions.get(message.session)
        if session is None:
            return
        if message.uris is not None:
            self.set_subscriptions(session, message.uris, version=message.version)
        elif message.session in self._reading:
            self._reading[message.session].is_again = True
        elif message.version >= session.subscriptions_version and self.streams_of(message.session):
            reading = self._reading[message.session] = _SubscriptionsReading()
            self.spawn(self._read_subscriptions(session, reading))

    async def _read_subscriptions(self, session: Session, reading: _SubscriptionsReading) -> None:
        server = self.servers.get(session.server_name)
        before = set(session.subscriptions or ())
        try:
            while server is not None and reading.is_again:
                reading.is_again = False
                await server.read_subscriptions(session)
        except Exception as error:  # noqa: BLE001 - the next recheck reads them
            logger.debug("Could not read the subscriptions of a session: %r", error)
        finally:
            self._reading.pop(session.key, None)
        stream = self.find_active(session.key)
        if reading.has_missed and stream is not None:
            for uri in stream.uris - before:
                self.publish(Change(server=session.server_name, uri=uri), to=stream)

    def _take_cancelled(self, message: messages.CallCancelled) -> None:
        session = self.sessions.get(message.session)
        call = None if session is None else self.calls.find(session, message.id)
        if call is not None:
            call.cancel("client")
