"""Who follows the stream of a call that runs elsewhere: another request here, or another process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django_mcp.protocol.json import JSONObject

if TYPE_CHECKING:
    from django_mcp.server.streams.messenger import Messenger

MAX_LIVE = 256
"""Messages that wait for a follower. More are dropped: they are progress and the like."""

MAX_ELSEWHERE = 4096
"""Streams remembered as followed from another process."""


class Follower:
    """One resumed stream: woken when there is more, with what is not recorded handed over."""

    def __init__(self) -> None:
        self._more = asyncio.Event()
        self.live: list[bytes] = []

    def wake(self) -> None:
        """Have it look at what is recorded."""
        self._more.set()

    def show(self, message: bytes) -> None:
        """Hand a message over that is not recorded."""
        if len(self.live) < MAX_LIVE:
            self.live.append(message)
        self._more.set()

    async def wait(self, timeout_s: float) -> list[bytes]:
        """Wait until there may be more, at most `timeout_s`; return what is not recorded."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._more.wait()
        except TimeoutError:
            pass
        self._more.clear()
        live, self.live = self.live, []
        return live


class Followers:
    """The resumed streams of a process, and the hub's messages about them."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._here: dict[str, set[Follower]] = {}
        self._elsewhere: OrderedDict[str, None] = OrderedDict()
        messenger.on("follow", self._take_follow)
        messenger.on("more", self._take_more)
        messenger.on("live", self._take_live)

    @property
    def count(self) -> int:
        """How many streams are followed here."""
        return len(self._here)

    @contextmanager
    def follow(self, *stream_ids: str) -> Iterator[Follower]:
        """Follow streams while the block runs, wherever their calls do."""
        follower = Follower()
        for stream_id in stream_ids:
            self._here.setdefault(stream_id, set()).add(follower)
            self._messenger.tell("follow", stream=stream_id)
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
        """Tell followers that more was recorded."""
        for follower in self._here.get(stream_id, ()):
            follower.wake()
        if everywhere:
            self._messenger.tell("more", stream=stream_id)

    def show(self, stream_id: str, message: bytes) -> None:
        """Hand followers, if there are any, a message that is not recorded."""
        for follower in self._here.get(stream_id, ()):
            follower.show(message)
        if stream_id in self._elsewhere:
            self._messenger.tell("live", stream=stream_id, message=message.decode())

    def _take_follow(self, message: JSONObject) -> None:
        self._elsewhere[message["stream"]] = None
        if len(self._elsewhere) > MAX_ELSEWHERE:
            self._elsewhere.popitem(last=False)

    def _take_more(self, message: JSONObject) -> None:
        self.wake(message["stream"], everywhere=False)

    def _take_live(self, message: JSONObject) -> None:
        for follower in self._here.get(message["stream"], ()):
            follower.show(message["message"].encode())
