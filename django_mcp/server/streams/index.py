"""What the hub of a process looks up: streams by subscription, and calls in flight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from django_mcp.protocol.messages import RequestId
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.connection import ConnectionState
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
