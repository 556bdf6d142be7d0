"""The hub: the one place in a process that knows its open streams and links them to other processes.

Everything here runs on one event loop. A change costs one message on the bus, whatever the number
of streams, and each subscribed stream one entry in its queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification_head, encode_request
from django_mcp.server.exchange.quotas import QuotaCounter, QuotaMeter
from django_mcp.server.exchange.subscription_limits import URI_LIMITS
from django_mcp.server.streams.calls import CallTable
from django_mcp.server.streams.conditions import find_condition
from django_mcp.server.streams.followers import Followers
from django_mcp.server.streams.messenger import Messenger
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamKind, read_change
from django_mcp.server.streams.stream_index import StreamIndex

if TYPE_CHECKING:
    from django_mcp.server.exchange.connection import Session
    from django_mcp.server.options import Options
    from django_mcp.server.streams.bus import Bus

logger = logging.getLogger("django_mcp")

TICK_S = 1.5
"""How often streams are looked at. What a process believes is not older than 2 s with the time it takes."""


class StreamPolicy(Protocol):
    """What a hub asks of the servers whose streams it has."""

    @property
    def options(self) -> Options:
        """The settings of the server."""
        ...

    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return what tells whether a stream is sent the change of a resource; None: each is."""
        ...


ServerT = TypeVar("ServerT", bound=StreamPolicy)


class Hub(Messenger, Generic[ServerT]):
    """Fan changes out to the open streams of this process, and pass word between processes.

    Attributes:
        streams: what is open here, by id.
        quotas: counts the streams that are open here, by quota key.
        uris: counts the URIs that listening streams subscribed to here.
        sessions: those that this process holds objects of, by key.
        servers: those whose clients it knows, by name.
        calls: the calls that are in flight here.
        on_start: called when it begins to live on an event loop.
        on_tick: called every `TICK_S`.
        on_stop: awaited when the process is about to end.
        is_closing: no further stream is opened, since the process is about to end.
        followers: of streams that were resumed.
        index: finds the streams that subscribed to something.
    """

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.streams: dict[str, PushStream] = {}
        self.quotas = QuotaCounter()
        self.uris = QuotaMeter(URI_LIMITS)
        self.sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self.servers: WeakValueDictionary[str, ServerT] = WeakValueDictionary()
        self.calls = CallTable()
        self.on_start: list[Callable[[Hub[Any]], Any]] = []
        self.on_tick: list[Callable[[Hub[Any]], Any]] = []
        self.on_stop: list[Callable[[Hub[Any]], Awaitable[None]]] = []
        self.is_closing = False
        self.on("change", self._take_change)
        self.on("session", self._take_session)
        self.on("close", self._take_close)
        self.on("request", self._take_request)
        self.on("pong", self._take_pong)
        self.followers = Followers(self)
        self.index = StreamIndex()
        self._by_session: dict[str, list[PushStream]] = {}
        self._ticker: asyncio.Task[None] | None = None

    # -- its life

    def start(self) -> None:
        """Live on the running event loop, unless on one that runs."""
        if self.is_running:
            return
        if self.loop is not None:
            self.reset()
        loop = asyncio.get_running_loop()
        self.loop = loop
        self._ticker = loop.create_task(self._tick())
        self.bus.start(self.receive)
        for function in self.on_start:
            function(self)

    @property
    def is_busy(self) -> bool:
        """Whether anything here could have use for word from another process."""
        return bool(
            self.streams
            or self.followers.count
            or self.calls.has_any_of(list(self.sessions.values()))
            or any(each.asked for each in list(self.sessions.values()))
        )

    def reset(self) -> None:
        """Forget what belongs to another event loop, or to the process this one was forked from."""
        self.is_closing = False
        self.streams.clear()
        self.quotas = QuotaCounter()
        self.uris = QuotaMeter(URI_LIMITS)
        self.calls.clear()
        self.index = StreamIndex()
        self._by_session.clear()
        self._ticker = None
        self.forget_messages()

    async def stop(self) -> None:
        """End every stream politely, and listen to the bus no longer."""
        self.end_streams(Ending.SHUTDOWN)
        if self._ticker is not None:
            self._ticker.cancel()
        await self.prepare_to_stop()
        await self.bus.stop()
        self.loop = None

    async def prepare_to_stop(self) -> None:
        """Run the `on_stop` functions, which write what must be written before the process ends."""
        for function in self.on_stop:
            try:
                await function(self)
            except Exception:
                logger.exception("Could not finish before the process ends")

    def end_streams(self, reason: Ending) -> None:
        """End every stream of this process."""
        for stream in list(self.streams.values()):
            stream.end(reason)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for function in self.on_tick:
                try:
                    result = function(self)
                    if asyncio.iscoroutine(result):
                        await result
                except Exception:
                    logger.exception("Could not look after the open streams")

    # -- streams

    def attach(self, stream: PushStream) -> None:
        """Let a stream receive changes, in place of an older one of the same session."""
        self.start()
        server = self.servers.get(stream.server_name)
        if server is not None and server.options.strict:
            stream.hold_strictly()
        self.streams[stream.id] = stream
        self.quotas.add(stream.quota_key)
        if stream.session is not None:
            others = self._by_session.setdefault(stream.session.key, [])
            for other in others:
                self.index.discard(other)
            others.append(stream)
            self._claim(stream.session.key, stream)
        self.index.add(stream)

    def detach(self, stream: PushStream) -> None:
        """Remove a stream; an older one of its session receives changes again."""
        if self.streams.pop(stream.id, None) is None:
            return
        self.quotas.discard(stream.quota_key)
        self.index.discard(stream)
        if stream.session is None:
            return
        others = self._by_session.get(stream.session.key, [])
        if stream in others:
            others.remove(stream)
        if others:
            self.index.add(others[-1])
        else:
            self._by_session.pop(stream.session.key, None)
            self.tell("session", key=stream.session.key, event="stream-gone")

    def _claim(self, session_key: str, stream: PushStream) -> None:
        """Tell other processes that this stream gets the session's messages, unless theirs is newer."""
        self.tell("session", key=session_key, event="stream", at=stream.opened_at)

    def streams_of(self, session_key: str) -> list[PushStream]:
        """Return the open streams of a session in this process, oldest first."""
        return list(self._by_session.get(session_key, ()))

    def set_subscriptions(self, session: Session, uris: Iterable[str]) -> None:
        """Subscribe a session's streams to these resources, and to no others."""
        active = [each for each in self._by_session.get(session.key, ()) if each.is_active]
        for stream in active:
            self.index.discard(stream)
        if session.subscriptions is None:
            session.subscriptions = set()
        # The set is shared with the streams.
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        for stream in self._by_session.get(session.key, ()):
            stream.uris = session.subscriptions
        for stream in active:
            self.index.add(stream)

    def set_uris(self, stream: PushStream, uris: Iterable[str]) -> None:
        """Subscribe a stream without a session to these resources, and to no others."""
        is_active = stream.is_active
        self.index.discard(stream)
        stream.uris = set(uris)
        if is_active:
            self.index.add(stream)

    # -- changes

    def publish(self, change: Change) -> int:
        """Offer a change to the streams of this process; return how many will be sent it."""
        method, params = change.notification()
        server = self.servers.get(change.server)
        is_receiver = None if server is None else _find_condition(server, change)
        topic = change.topic
        shared, head, reached = b"", b"", 0
        for stream in self._audience(change):
            if is_receiver is not None and not is_receiver(stream):
                continue
            if stream.tail:
                head = head or encode_notification_head(method, params)
                reached += stream.offer(head + stream.tail, topic)
            else:
                shared = shared or stream.encode(method, params)
                reached += stream.offer(shared, topic)
        return reached

    def announce(self, change: Change) -> int:
        """Publish a change here and in every other process; return how many were reached here."""
        if change.method is not None or self.loop is not asyncio.get_running_loop():
            self.tell("change", change=change.to_wire())
        elif self.bus.is_shared:
            self._outbox.put_notice(change.server, change.list, change.uri)
        return self.publish(change)

    def _audience(self, change: Change) -> list[PushStream]:
        if change.list is not None:
            found = self.index.of_list(change.server, change.list)
        elif change.uri is not None:
            found = self.index.of_uri(change.server, change.uri)
        else:
            found = self._find_sessions(change)
        return list(found)

    def _find_sessions(self, change: Change) -> list[PushStream]:
        """Return the streams for a notification of the site's own: a listener did not ask for it."""
        if change.session is not None:
            own = [self.streams.get(change.session), self.find_active(change.session)]
            found = [each for each in own if each is not None and each.session_key]
        else:
            found = [each[-1] for each in self._by_session.values() if each[-1].is_active]
            found += [each for each in self.streams.values() if each.kind is StreamKind.STDIO]
        return [each for each in found if each.server_name == change.server]

    def _take_change(self, message: JSONObject) -> None:
        self.publish(read_change(message["change"]))

    def claim_sessions(self) -> None:
        """Claim the sessions that streams of this process may receive the messages of again.

        A notice that a newer stream elsewhere has ended may have been lost.
        """
        for key, (*_, newest) in list(self._by_session.items()):
            if not newest.is_active:
                self.index.add(newest)
                self._claim(key, newest)

    # -- single streams and sessions

    def close_stream(self, stream_id: str) -> bool:
        """Close a stream, in any process; return whether it was in this one."""
        stream = self.streams.get(stream_id)
        if stream is None:
            self.tell("close", stream=stream_id)
            return False
        stream.end(Ending.CLOSED)
        return True

    def _take_close(self, message: JSONObject) -> None:
        stream = self.streams.get(message["stream"])
        if stream is not None:
            stream.end(Ending.CLOSED)

    def send_request(self, session_key: str, request_id: str, method: str) -> bool:
        """Send a request on a session's standalone stream; return whether that is in this process."""
        stream = self.find_active(session_key)
        if stream is None:
            self.tell("request", session=session_key, id=request_id, method=method)
            return False
        return stream.offer(encode_request(request_id, method))

    def _take_request(self, message: JSONObject) -> None:
        stream = self.find_active(message["session"])
        if stream is not None:
            stream.offer(encode_request(message["id"], message["method"]))

    def _take_pong(self, message: JSONObject) -> None:
        for stream in self._by_session.get(message["session"], ()):
            stream.take_pong(message["id"])

    def find_active(self, session_key: str) -> PushStream | None:
        """Return the stream of a session that receives changes, if it is in this process."""
        streams = self._by_session.get(session_key)
        return streams[-1] if streams and streams[-1].is_active else None

    def end_session(self, key: str) -> None:
        """Stop what runs and streams for a session, here and in every other process."""
        self.tell("session", key=key, event="ended")
        self.forget_session(key)

    def forget_session(self, key: str) -> None:
        """Stop what runs and streams for a session in this process."""
        session = self.sessions.get(key)
        if session is not None:
            session.is_ended = True
            for running in self.calls.of(session):
                running.cancel()
        for stream in self.streams_of(key):
            stream.end(Ending.SESSION)

    def _take_claim(self, key: str, opened_at: float) -> None:
        """Leave a session to a newer stream of another process: each message goes to one stream."""
        for stream in self._by_session.get(key, ()):
            if stream.opened_at < opened_at:
                self.index.discard(stream)
            elif stream.is_active and stream.opened_at > opened_at:
                self._claim(key, stream)

    def _take_session(self, message: JSONObject) -> None:
        key, event = message["key"], message["event"]
        session = self.sessions.get(key)
        if event == "ended":
            self.forget_session(key)
        elif event == "stream":
            self._take_claim(key, message["at"])
        elif event == "stream-gone":
            for stream in self._by_session.get(key, ())[-1:]:
                self.index.add(stream)
                self._claim(key, stream)
        elif event == "subscriptions" and session is not None:
            self.set_subscriptions(session, message["uris"])
        elif event == "cancel" and session is not None:
            running = self.calls.find(session, message["id"])
            if running is not None:
                running.cancel("client")


def _find_condition(server: StreamPolicy, change: Change) -> Callable[[PushStream], bool] | None:
    if change.uri is not None:
        return server.may_receive(change)
    return find_condition(server.options, change)
