"""The hub: knows the open streams of a process and links them to those of other processes.

Everything here runs on one event loop. A change costs one message to the other processes, whatever
the number of streams, and one entry in the queue of each subscribed stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification_head, encode_request
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.quotas import URI_LIMITS, QuotaMeter
from django_mcp.server.options import Options
from django_mcp.server.streams.followers import Followers
from django_mcp.server.streams.index import CallTable, StreamIndex
from django_mcp.server.streams.messenger import Bus, Messenger, Outbox
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamKind

logger = logging.getLogger("django_mcp")

TICK_S = 1.5
"""Period of the maintenance of streams. With its duration, what a process knows is at most 2 s old."""

JOIN_S = 1.0
"""How long the first streams of a process wait until the bus receives messages. Our own choice."""


class StreamPolicy(Protocol):
    """What a hub needs of the servers whose streams it has."""

    @property
    def options(self) -> Options:
        """The settings of the server."""

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
        self.on_stop: list[Callable[[Hub[Any]], Awaitable[None]]] = []
        self.on("change", lambda message: self.publish(Change(**message["change"])))
        self.on("session", self._take_session)
        self.on("close", lambda message: self._close(message["stream"]))
        self.on("request", self._request)
        self.on("pong", self._take_pong)
        self.followers = Followers(self)
        self._by_session: dict[str, list[PushStream]] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._joined: asyncio.Event | None = None
        self.reset()

    def start(self) -> None:
        """Start on the running event loop, unless the hub runs."""
        if self.is_running:
            return
        if self.loop is not None:
            self.reset()
        loop = asyncio.get_running_loop()
        self.loop = loop
        self._ticker = loop.create_task(self._tick())
        self._joined = self.bus.start(self.receive)
        for function in self.on_start:
            function(self)

    async def wait_for_bus(self) -> None:
        """Wait until the bus receives messages, up to `JOIN_S`."""
        if self._joined is not None and not self._joined.is_set():
            # A stream with the changes of this process only is better than none.
            with suppress(TimeoutError):
                async with asyncio.timeout(JOIN_S):
                    await self._joined.wait()

    @property
    def is_busy(self) -> bool:
        """Whether messages of other processes can concern anything here."""
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
        self.quotas = QuotaMeter()
        self.uris = QuotaMeter(URI_LIMITS)
        self.calls.clear()
        self.index = StreamIndex()
        self._by_session.clear()
        self._ticker = None
        self.loop = None
        self._outbox = Outbox(self.send)

    async def stop(self) -> None:
        """End every stream, and receive no more messages."""
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

    def attach(self, stream: PushStream) -> None:
        """Let a stream receive changes, in place of an older one of the same session."""
        self.start()
        server = self.servers.get(stream.server_name)
        if server is not None and server.options.strict:
            stream.validate_messages()
        self.streams[stream.id] = stream
        self.quotas.add(stream.quota_key, 0, count=1)
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
        self.quotas.give_back(stream.quota_key, 0)
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
            self.broadcast("session", key=stream.session.key, event="stream-gone")

    def _claim(self, session_key: str, stream: PushStream) -> None:
        """Have the newest stream of a session receive its messages, in whichever process that is."""
        self.broadcast("session", key=session_key, event="stream", at=stream.opened_at)

    def streams_of(self, session_key: str) -> list[PushStream]:
        """Return the open streams of a session in this process, oldest first."""
        return list(self._by_session.get(session_key, ()))

    def find_active(self, session_key: str) -> PushStream | None:
        """Return the stream of a session that receives changes, if it is in this process."""
        streams = self._by_session.get(session_key)
        return streams[-1] if streams and streams[-1].is_active else None

    def set_subscriptions(
        self, session: Session, uris: Iterable[str], *, as_of_s: float | None = None
    ) -> None:
        """Subscribe a session's streams to these resources, and to no others.

        Args:
            as_of_s: the wall clock's time from which they are. If those that are known are newer, as when
                another process is told late, nothing changes. None: they are the newest.
        """
        if as_of_s is not None:
            if as_of_s < session.subscribed_as_of_s:
                return
            session.subscribed_as_of_s = as_of_s
        streams = self.streams_of(session.key)
        active = [each for each in streams if each.is_active]
        for stream in active:
            self.index.discard(stream)
        if session.subscriptions is None:
            session.subscriptions = set()
        # The set is shared with the streams.
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        for stream in streams:
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

    def publish(self, change: Change) -> int:
        """Send a change to the streams of this process; return how many will be sent it."""
        method, params = change.notification()
        server = self.servers.get(change.server)
        may_receive = None if server is None else server.may_receive(change)
        topic = change.topic
        found = (
            self._find_sessions(change) if topic is None else self.index.find(change.server, topic)
        )
        shared, head, reached = b"", b"", 0
        for stream in list(found):
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
            self.broadcast("change", change=change.to_wire())
        elif self.bus.is_shared:
            self._outbox.put_notice(change.server, change.list, change.uri)
        return self.publish(change)

    def _find_sessions(self, change: Change) -> list[PushStream]:
        """Return the streams for a notification that is no change notice: one of each session."""
        if change.session is not None:
            own = [self.streams.get(change.session), self.find_active(change.session)]
            found = [each for each in own if each is not None and each.session_key]
        else:
            found = [each[-1] for each in self._by_session.values() if each[-1].is_active]
            found += [each for each in self.streams.values() if each.kind is StreamKind.STDIO]
        return [each for each in found if each.server_name == change.server]

    def claim_sessions(self) -> None:
        """Let inactive streams receive their sessions' messages, unless other processes have newer ones.

        A message that a newer stream has ended may have been lost.
        """
        for key, (*_, newest) in list(self._by_session.items()):
            if not newest.is_active:
                self.index.add(newest)
                self._claim(key, newest)

    def close_stream(self, stream_id: str) -> None:
        """Close a stream, in whichever process it is."""
        if not self._close(stream_id):
            self.broadcast("close", stream=stream_id)

    def _close(self, stream_id: str) -> bool:
        stream = self.streams.get(stream_id)
        if stream is not None:
            stream.end(Ending.CLOSED)
        return stream is not None

    def send_request(self, session_key: str, request_id: str, method: str) -> None:
        """Send a request on a session's standalone stream, in whichever process that is."""
        message = {"session": session_key, "id": request_id, "method": method}
        if not self._request(message):
            self.broadcast("request", **message)

    def _request(self, message: JSONObject) -> bool:
        stream = self.find_active(message["session"])
        if stream is not None:
            stream.offer(encode_request(message["id"], message["method"]))
        return stream is not None

    def _take_pong(self, message: JSONObject) -> None:
        for stream in self._by_session.get(message["session"], ()):
            stream.take_pong(message["id"])

    def end_session(self, key: str) -> None:
        """Cancel the calls and end the streams of a session, in every process."""
        self.broadcast("session", key=key, event="ended")
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

    def _take_claim(self, key: str, opened_at: float) -> None:
        """Leave a session's messages to a newer stream of another process."""
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
            self.set_subscriptions(session, message["uris"], as_of_s=message["as_of"])
        elif event == "cancel" and session is not None:
            call = self.calls.find(session, message["id"])
            if call is not None:
                call.cancel("client")
