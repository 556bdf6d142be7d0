"""Requests that follow a stream, in this process and in the others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from django_mcp.server.exchange.timers import wait_up_to
from django_mcp.server.streams.messenger import Messenger
from django_mcp.server.streams.process_messages import LiveMessage, MoreRecorded, StreamFollowed

MAX_LIVE = 256
MAX_LIVE_BYTES = 256 * 1024
"""Unrecorded messages that wait for a follower. More are dropped: they are progress and the like."""

MAX_ELSEWHERE = 4096
"""Streams remembered as followed from other processes."""


class Follower:
    """A request that follows a stream: woken when more is recorded, and handed what is not recorded."""

    def __init__(self) -> None:
        self._more = asyncio.Event()
        self.wake = self._more.set
        self.live: list[bytes] = []
        self._live_bytes = 0

    def show(self, message: bytes) -> None:
        """Hand over a message that is not recorded."""
        size_bytes = self._live_bytes + len(message)
        # A single large message does not mean that the reader is slow.
        if len(self.live) < MAX_LIVE and (size_bytes <= MAX_LIVE_BYTES or not self.live):
            self.live.append(message)
            self._live_bytes = size_bytes
        self.wake()

    async def wait(self, timeout_s: float) -> list[bytes]:
        """Wait until there may be more, at most `timeout_s`; return the unrecorded messages."""
        await wait_up_to(timeout_s, self._more.wait())
        self._more.clear()
        live, self.live, self._live_bytes = self.live, [], 0
        return live


class Followers:
    """The followers in a process, and the messages about them between processes."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._here: dict[str, set[Follower]] = {}
        self._elsewhere: OrderedDict[str, None] = OrderedDict()
        messenger.on(StreamFollowed, self._take_followed)
        messenger.on(MoreRecorded, lambda message: self.wake(message.stream, everywhere=False))
        messenger.on(
            LiveMessage, lambda message: self._show(message.stream, message.message.encode())
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
            self._messenger.broadcast(StreamFollowed(stream=stream_id))
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
            self._messenger.broadcast(MoreRecorded(stream=stream_id))

    def show(self, stream_id: str, message: bytes) -> None:
        """Hand a message that is not recorded to the followers of a stream."""
        self._show(stream_id, message)
        if stream_id in self._elsewhere:
            self._messenger.broadcast(LiveMessage(stream=stream_id, message=message.decode()))

    def _show(self, stream_id: str, message: bytes) -> None:
        for follower in self._here.get(stream_id, ()):
            follower.show(message)

    def _take_followed(self, message: StreamFollowed) -> None:
        self._elsewhere[message.stream] = None
        if len(self._elsewhere) > MAX_ELSEWHERE:
            self._elsewhere.popitem(last=False)
