"""CallTable: the calls that are in flight in a process, where a cancellation finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mcp.protocol.messages import RequestId
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.connection import ConnectionState

__all__ = ["CallTable"]


class CallTable:
    """The calls in flight: requests of connections by their id, and all others."""

    def __init__(self) -> None:
        self._others: dict[Call, None] = {}
        # A call holds its connection, so no other object has that identity meanwhile.
        self._requests: dict[tuple[int, RequestId], Call] = {}

    def add(self, call: Call) -> None:
        """Add a call of no connection that outlives it, or the call of a task."""
        self._others[call] = None

    def discard(self, call: Call) -> None:
        """Remove a call that `add` has added."""
        self._others.pop(call, None)

    def add_request(self, call: Call, connection: ConnectionState) -> None:
        """Add a request of a connection that outlives it."""
        self._requests[id(connection), call.message.id] = call

    def end_request(self, call: Call, connection: ConnectionState) -> None:
        """Remove a call that `add_request` has added; another one with the same id stays."""
        key = (id(connection), call.message.id)
        if self._requests.get(key) is call:
            del self._requests[key]

    def find(self, connection: ConnectionState, request_id: RequestId) -> Call | None:
        """Return the request of a connection with an id, if it is in flight."""
        return self._requests.get((id(connection), request_id))

    def of(self, connection: ConnectionState) -> list[Call]:
        """Return the requests of a connection that are in flight."""
        wanted = id(connection)
        return [call for key, call in list(self._requests.items()) if key[0] == wanted]

    def has_any_of(self, connections: Iterable[ConnectionState]) -> bool:
        """Return whether a request of one of the connections is in flight."""
        return not {key[0] for key in list(self._requests)}.isdisjoint(map(id, connections))

    def __iter__(self) -> Iterator[Call]:
        """Iterate over all calls, as they are now."""
        return iter([*self._others, *list(self._requests.values())])

    def __len__(self) -> int:
        """Return how many calls are in flight."""
        return len(self._others) + len(self._requests)

    def clear(self) -> None:
        """Forget all calls."""
        self._others.clear()
        self._requests.clear()
