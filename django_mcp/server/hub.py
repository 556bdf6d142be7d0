"""The hub: the one place in a process that knows its open streams and links them to other processes.

Everything here runs on one event loop. A change costs one message on the bus, whatever the number
of streams, and each stream that hears of it one entry in its queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification_head, encode_request
from django_mcp.server.following import Followers
from django_mcp.server.hearing import may_hear
from django_mcp.server.memory_state import LocalBus
from django_mcp.server.push import Change, Ending, PushStream, StreamKind, read_change
from django_mcp.server.upkeep import close_old_streams, ping_streams, wants_level

if TYPE_CHECKING:
    from django_mcp.server.context import Context
    from django_mcp.server.interfaces import Bus
    from django_mcp.server.server import MCPServer
    from django_mcp.server.sessions import Session

logger = logging.getLogger("django_mcp")

TICK_S = 1.5
"""How often streams are looked at. What a process believes is not older than 2 s with the time it takes."""


class Hub:
    """Fan changes out to the open streams of this process, and pass word between processes.

    Attributes:
        bus: leads to the hubs of other processes.
        streams: what is open here, by id.
        sessions: those that this process holds objects of, by key.
        servers: those whose clients it knows, by name.
        calls: what runs here, apart from what runs in sessions.
        on_start: called when it begins to live on an event loop.
        on_tick: called every `TICK_S`.
        is_closing: no further stream is opened, since the process is about to end.
        loop: the event loop it lives on; None until first used.
        followers: of streams that were resumed.
    """

    def __init__(self, bus: Bus | None = None) -> None:
        self.bus: Bus = bus or LocalBus()
        self.streams: dict[str, PushStream] = {}
        self.sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self.servers: WeakValueDictionary[str, MCPServer] = WeakValueDictionary()
        self.calls: set[Context[Any]] = set()
        self.on_start: list[Callable[[Hub], Any]] = []
        self.on_tick: list[Callable[[Hub], Any]] = [close_old_streams, ping_streams]
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_closing = False
        self._handlers: dict[str, Callable[[JSONObject], None]] = {
            "change": self._take_change,
            "session": self._take_session,
            "close": self._take_close,
            "request": self._take_request,
            "pong": self._take_pong,
        }
        self.followers = Followers(self)
        self._by_list: dict[tuple[str, str], dict[PushStream, None]] = {}
        self._by_uri: dict[tuple[str, str], dict[PushStream, None]] = {}
        self._by_session: dict[str, list[PushStream]] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    # -- its life

    def start(self) -> None:
        """Live on the running event loop, unless on one that runs."""
        if self.is_running:
            return
        self.reset()
        loop = asyncio.get_running_loop()
        self.loop = loop
        self._ticker = loop.create_task(self._tick())
        self.bus.start(self.receive)
        for function in self.on_start:
            function(self)

    @property
    def is_running(self) -> bool:
        """Whether it lives on an event loop that runs."""
        return self.loop is not None and self.loop.is_running()

    @property
    def is_busy(self) -> bool:
        """Whether anything here could have use for word from another process."""
        return bool(
            self.streams
            or self.followers.count
            or any(each.in_flight or each.asked for each in list(self.sessions.values()))
        )

    def reset(self) -> None:
        """Forget what belongs to another event loop, or to the process this one was forked from."""
        self.loop = None
        self.is_closing = False
        self.streams.clear()
        self.calls.clear()
        self._by_list.clear()
        self._by_uri.clear()
        self._by_session.clear()
        self._ticker = None
        self._sending = set()

    async def stop(self) -> None:
        """End every stream politely, and listen to the bus no longer."""
        self.end_streams(Ending.SHUTDOWN)
        if self._ticker is not None:
            self._ticker.cancel()
        await self.bus.stop()
        self.loop = None

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

    # -- the bus

    def on(self, kind: str, handler: Callable[[JSONObject], None]) -> None:
        """Have `handler` called with each message of a kind from another process."""
        self._handlers[kind] = handler

    def receive(self, message: JSONObject) -> None:
        """Take a message of another process."""
        handler = self._handlers.get(message.get("kind", ""))
        if handler is None:
            return
        try:
            handler(message)
        except Exception:
            logger.exception("Could not take a message of another process")

    def tell(self, kind: str, **message: Any) -> None:
        """Send word to the other processes, without waiting for it to go out."""
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            # Under WSGI a loop lasts for one request, and a task of it no longer.
            self.bus.send_now({"kind": kind, **message})
            return
        if not self.bus.is_shared:
            return
        task = loop.create_task(self.send({"kind": kind, **message}))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def flush(self) -> None:
        """Wait until what was told on this event loop has gone out, for a second at most."""
        if self.loop is asyncio.get_running_loop():
            await asyncio.wait({*self._sending, asyncio.create_task(asyncio.sleep(0))}, timeout=1.0)

    async def send(self, message: JSONObject) -> None:
        """Send word to the other processes, and wait until it has gone out, or cannot."""
        try:
            await self.bus.send(message)
        except Exception as error:  # noqa: BLE001 - what the bus raises is its library's business
            # The store is the truth: whoever misses this finds it there within seconds.
            logger.warning("Could not reach the other processes: %r", error)

    # -- streams

    def attach(self, stream: PushStream) -> None:
        """Have a stream hear of changes, in place of an older one of the same session."""
        self.start()
        server = self.servers.get(stream.server_name)
        if server is not None and server.options.strict:
            stream.hold_strictly()
        self.streams[stream.id] = stream
        if stream.session is not None:
            others = self._by_session.setdefault(stream.session.key, [])
            for other in others:
                self._deactivate(other)
            others.append(stream)
            self._claim(stream.session.key, stream)
        self._activate(stream)

    def detach(self, stream: PushStream) -> None:
        """Forget a stream; an older one of its session hears of changes again."""
        if self.streams.pop(stream.id, None) is None:
            return
        self._deactivate(stream)
        if stream.session is None:
            return
        others = self._by_session.get(stream.session.key, [])
        if stream in others:
            others.remove(stream)
        if others:
            self._activate(others[-1])
        else:
            self._by_session.pop(stream.session.key, None)
            self.tell("session", key=stream.session.key, event="stream-gone")

    def _claim(self, session_key: str, stream: PushStream) -> None:
        """Say that a session is heard of on this stream; a newer one elsewhere has its way."""
        self.tell("session", key=session_key, event="stream", at=stream.opened_at)

    def streams_of(self, session_key: str) -> list[PushStream]:
        """Return the open streams of a session in this process, oldest first."""
        return list(self._by_session.get(session_key, ()))

    def _activate(self, stream: PushStream) -> None:
        if stream.is_active:
            return
        stream.is_active = True
        for name in stream.lists:
            self._by_list.setdefault((stream.server_name, name), {})[stream] = None
        for uri in stream.uris:
            self._by_uri.setdefault((stream.server_name, uri), {})[stream] = None

    def _deactivate(self, stream: PushStream) -> None:
        if not stream.is_active:
            return
        stream.is_active = False
        for name in stream.lists:
            _discard(self._by_list, (stream.server_name, name), stream)
        for uri in stream.uris:
            _discard(self._by_uri, (stream.server_name, uri), stream)

    def set_subscriptions(self, session: Session, uris: Iterable[str]) -> None:
        """Have a session's streams hear of these resources, and no others."""
        active = [each for each in self._by_session.get(session.key, ()) if each.is_active]
        for stream in active:
            self._deactivate(stream)
        if session.subscriptions is None:
            session.subscriptions = set()
        # The set is shared with the streams.
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        for stream in self._by_session.get(session.key, ()):
            stream.uris = session.subscriptions
        for stream in active:
            self._activate(stream)

    def set_uris(self, stream: PushStream, uris: Iterable[str]) -> None:
        """Have a stream without a session hear of these resources, and no others."""
        is_active = stream.is_active
        self._deactivate(stream)
        stream.uris = set(uris)
        if is_active:
            self._activate(stream)

    # -- changes

    def publish(self, change: Change) -> int:
        """Offer a change to the streams of this process; return how many will be sent it."""
        method, params = change.notification()
        judge = self._find_judge(change)
        shared, head, reached = b"", b"", 0
        for stream in self._audience(change):
            if judge is not None and not judge(stream):
                continue
            if stream.tail:
                head = head or encode_notification_head(method, params)
                reached += stream.offer(head + stream.tail)
            else:
                shared = shared or stream.encode(method, params)
                reached += stream.offer(shared)
        return reached

    def announce(self, change: Change) -> int:
        """Publish a change here and in every other process; return how many were reached here."""
        self.tell("change", change=change.to_wire())
        return self.publish(change)

    def _find_judge(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return what tells whether a stream may hear of a change; None: whoever wants to."""
        server = self.servers.get(change.server)
        if server is None:
            return None
        if change.uri is not None:
            return may_hear(server, change)
        return None if change.level is None else wants_level(server, change.level)

    def _audience(self, change: Change) -> list[PushStream]:
        if change.list is not None:
            found = self._by_list.get((change.server, change.list), {})
        elif change.uri is not None:
            found = self._by_uri.get((change.server, change.uri), {})
        else:
            # A site's own notifications are for sessions: a listener did not ask for them.
            found = {
                streams[-1]: None
                for streams in self._by_session.values()
                if streams[-1].is_active and streams[-1].server_name == change.server
            }
            for stream in self.streams.values():
                if stream.kind is StreamKind.STDIO and stream.server_name == change.server:
                    found[stream] = None
        if change.session is None:
            return list(found)
        return [each for each in found if each.session_key == change.session]

    def _take_change(self, message: JSONObject) -> None:
        self.publish(read_change(message["change"]))

    # -- single streams and sessions

    def close_stream(self, stream_id: str) -> bool:
        """Close a stream, in whichever process it is; tell whether it was in this one."""
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
        """Send a request on a session's standing stream; tell whether that is in this process."""
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
        """Return the stream of a session that hears of changes, if it is in this process."""
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
            for running in list(session.in_flight.values()):
                running.cancel()
        for stream in self.streams_of(key):
            stream.end(Ending.SESSION)

    def _take_session(self, message: JSONObject) -> None:
        key, event = message["key"], message["event"]
        session = self.sessions.get(key)
        if event == "ended":
            self.forget_session(key)
        elif event == "stream":
            # Another process may have the newer stream: each message goes to one stream only.
            for stream in self._by_session.get(key, ()):
                if stream.opened_at < message["at"]:
                    self._deactivate(stream)
        elif event == "stream-gone":
            if key in self._by_session:
                stream = self._by_session[key][-1]
                self._activate(stream)
                self._claim(key, stream)
        elif event == "subscriptions" and session is not None:
            self.set_subscriptions(session, message["uris"])
        elif event == "cancel" and session is not None:
            running = session.in_flight.get(message["id"])
            if running is not None:
                running.cancel("client")


def _discard(
    index: dict[tuple[str, str], dict[PushStream, None]], key: tuple[str, str], stream: PushStream
) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(stream, None)
        if not found:
            del index[key]
