"""What the hub of a process looks up: streams by subscription, calls in flight, and requests that follow a stream."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.streams.messenger import Messenger
from django_mcp.server.streams.stream import PushStream, Topic


class StreamIndex:
    """The active streams of a process by server and topic, in the order in which they opened."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, Topic], dict[PushStream, None]] = {}

    def add(self, stream: PushStream) -> None:
        """Add a stream and mark it as active, unless it is."""
        if not stream.is_active:
            stream.is_active = True
            for key in _keys_of(stream):
                self._streams.setdefault(key, {})[stream] = None

    def discard(self, stream: PushStream) -> None:
        """Remove a stream if it is active."""
        if not stream.is_active:
            return
        stream.is_active = False
        for key in _keys_of(stream):
            found = self._streams.get(key, {})
            found.pop(stream, None)
            if not found:
                self._streams.pop(key, None)

    def find(self, server: str, topic: Topic) -> Collection[PushStream]:
        return self._streams.get((server, topic), {})

    def uris(self) -> list[tuple[str, str]]:
        """Return the resources with a subscribed stream: names of servers, and URIs."""
        return [(server, uri) for server, (_list, uri) in self._streams if uri is not None]


def _keys_of(stream: PushStream) -> Iterator[tuple[str, Topic]]:
    for name in stream.lists:
        yield stream.server_name, (name, None)
    for uri in stream.uris:
        yield stream.server_name, (None, uri)


class CallTable:
    """The calls in flight, by what they belong to and their request ids.

    A call belongs to a connection that outlives it, to the run of a task, or to nothing.
    """

    def __init__(self) -> None:
        # A call holds its connection and its run, so no other object has their identity meanwhile.
        self._calls: dict[tuple[int, RequestId], Call] = {}

    def add(self, call: Call, owner: object = None) -> None:
        self._calls[id(owner or call), call.message.id] = call

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


MAX_LIVE = 256
"""Unrecorded messages that wait for a follower. More are dropped: they are progress and the like."""

MAX_ELSEWHERE = 4096
"""Streams remembered as followed from other processes."""


class Follower:
    """A request that follows a stream: woken when more is recorded, and handed what is not recorded."""

    def __init__(self) -> None:
        self._more = asyncio.Event()
        self.wake = self._more.set
        self.live: list[bytes] = []

    def show(self, message: bytes) -> None:
        """Hand over a message that is not recorded."""
        if len(self.live) < MAX_LIVE:
            self.live.append(message)
        self.wake()

    async def wait(self, timeout_s: float) -> list[bytes]:
        """Wait until there may be more, at most `timeout_s`; return the unrecorded messages."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._more.wait()
        self._more.clear()
        live, self.live = self.live, []
        return live


class Followers:
    """The followers in a process, and the messages about them between processes."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._here: dict[str, set[Follower]] = {}
        self._elsewhere: OrderedDict[str, None] = OrderedDict()
        messenger.on("follow", self._take_follow)
        messenger.on("more", lambda message: self.wake(message["stream"], everywhere=False))
        messenger.on(
            "live", lambda message: self._show(message["stream"], message["message"].encode())
        )

    @property
    def count(self) -> int:
        """The number of streams followed here."""
        return len(self._here)

    @contextmanager
    def follow(self, *stream_ids: str) -> Iterator[Follower]:
        """Follow streams while the block runs, in whichever process their calls run."""
        follower = Follower()
        for stream_id in stream_ids:
            self._here.setdefault(stream_id, set()).add(follower)
            self._messenger.broadcast("follow", stream=stream_id)
        try:
            yield follower
        finally:
            for stream_id in stream_ids:
                followers = self._here[stream_id]
                followers.discard(follower)
                if not followers:
                    del self._here[stream_id]

    def has(self, stream_id: str) -> bool:
        """Return whether a stream has followers, as far as this process knows."""
        return stream_id in self._here or stream_id in self._elsewhere

    def wake(self, stream_id: str, *, everywhere: bool) -> None:
        """Wake the followers of a stream, since more is recorded."""
        for follower in self._here.get(stream_id, ()):
            follower.wake()
        if everywhere:
            self._messenger.broadcast("more", stream=stream_id)

    def show(self, stream_id: str, message: bytes) -> None:
        """Hand a message that is not recorded to the followers of a stream."""
        self._show(stream_id, message)
        if stream_id in self._elsewhere:
            self._messenger.broadcast("live", stream=stream_id, message=message.decode())

    def _show(self, stream_id: str, message: bytes) -> None:
        for follower in self._here.get(stream_id, ()):
            follower.show(message)

    def _take_follow(self, message: JSONObject) -> None:
        self._elsewhere[message["stream"]] = None
        if len(self._elsewhere) > MAX_ELSEWHERE:
            self._elsewhere.popitem(last=False)
