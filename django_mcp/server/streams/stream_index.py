"""StreamIndex: finds the open streams that subscribed to a list or resource."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mcp.server.streams.stream import PushStream

__all__ = ["StreamIndex"]


class StreamIndex:
    """The active streams of a process by subscription, in the order in which they opened."""

    def __init__(self) -> None:
        self._by_list: dict[tuple[str, str], dict[PushStream, None]] = {}
        self._by_uri: dict[tuple[str, str], dict[PushStream, None]] = {}

    def add(self, stream: PushStream) -> None:
        """Find a stream from now on, and call it active."""
        if stream.is_active:
            return
        stream.is_active = True
        for name in stream.lists:
            self._by_list.setdefault((stream.server_name, name), {})[stream] = None
        for uri in stream.uris:
            self._by_uri.setdefault((stream.server_name, uri), {})[stream] = None

    def discard(self, stream: PushStream) -> None:
        """Find a stream no longer, if it is active."""
        if not stream.is_active:
            return
        stream.is_active = False
        for name in stream.lists:
            _discard(self._by_list, (stream.server_name, name), stream)
        for uri in stream.uris:
            _discard(self._by_uri, (stream.server_name, uri), stream)

    def of_list(self, server: str, name: str) -> Collection[PushStream]:
        """Return the streams that subscribed to a list of a server."""
        return self._by_list.get((server, name), {})

    def of_uri(self, server: str, uri: str) -> Collection[PushStream]:
        """Return the streams that subscribed to a resource of a server."""
        return self._by_uri.get((server, uri), {})

    def uris(self) -> list[tuple[str, str]]:
        """Return the resources with a subscribed stream: names of servers, and URIs."""
        return list(self._by_uri)


def _discard(
    index: dict[tuple[str, str], dict[PushStream, None]], key: tuple[str, str], stream: PushStream
) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(stream, None)
        if not found:
            del index[key]
