"""Reach the clients of all processes, from synchronous code too: a view, a command, a queue's worker.

What other processes have open stands in the database, two seconds later at most.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import async_to_sync

from django_mcp.conf import settings
from django_mcp.handlers.threads import run_in_pool
from django_mcp.push.stream_rows import is_any_listening
from django_mcp.server.asking.clients import PING_TIMEOUT_S, SessionHandle, StreamHandle
from django_mcp.server.server import MCPServer

__all__ = ["Reaches"]

P = ParamSpec("P")
T = TypeVar("T")


class Reaches(MCPServer):
    """A server whose clients can be reached from anywhere on the site.

    The methods raise `RuntimeError` where an event loop runs: there, await their twins. What they
    write is written on connections of their own, for other processes to see at once: inside of a
    transaction that has written to the same rows, or to SQLite at all, call them after the commit
    (`transaction.on_commit`), or they wait for it in vain, and fail after five seconds.
    """

    def open_streams(self) -> list[StreamHandle]:
        """Return this server's open streams in all processes; with `SESSION_STORE` "memory" in this."""
        return _wait(self.aopen_streams)

    def connected_sessions(self) -> list[SessionHandle]:
        """Return the sessions that have a standing stream; in the processes of `open_streams`."""
        return _wait(self.aconnected_sessions)

    def close_stream(self, stream_id: str) -> None:
        """Close a stream, in whichever process it is. Its client may open another."""
        _wait(self.aclose_stream, stream_id)

    def close_session(self, key: str) -> bool:
        """End a session with all that runs and streams for it; return whether there was one."""
        return _wait(self.aclose_session, key)

    def is_subscribed(self, uri: str) -> bool:
        """Return whether a client is subscribed to a resource now; see `ais_subscribed`."""
        return _wait(self.ais_subscribed, uri)

    async def is_subscribed_elsewhere(self, uri: str) -> bool:
        """See `Reaching.is_subscribed_elsewhere`: for streams, beside what sessions subscribe to."""
        if settings.SESSION_STORE != "model":
            return False
        return await super().is_subscribed_elsewhere(uri) or await run_in_pool(
            lambda: is_any_listening(self.name, uri)
        )

    def ping_client(
        self, session_key: str | None = None, timeout_s: float = PING_TIMEOUT_S
    ) -> float | None:
        """Ping a client on its session's standing stream, or all that have one; see `aping_client`."""
        return _wait(self.aping_client, session_key, timeout_s)

    def cancel_request(self, session_key: str, request_id: str, reason: str = "Cancelled") -> bool:
        """Cancel a request of ours to a client; see `acancel_request`."""
        return _wait(self.acancel_request, session_key, request_id, reason)

    async def find_elsewhere(self) -> list[tuple[StreamHandle, SessionHandle | None]]:
        """See `Reaching.find_elsewhere`."""
        if settings.SESSION_STORE != "model":
            return []
        return await run_in_pool(lambda: _read(self.name))


def _wait(function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    return async_to_sync(function)(*args, **kwargs)


def _read(server: str) -> list[tuple[StreamHandle, SessionHandle | None]]:
    # Loads models, which importing a server must not.
    from django.utils import timezone

    from django_mcp.models.sessions import Stream
    from django_mcp.workers import worker_id

    rows = (
        Stream.objects.filter(server=server, worker__lease_until__gt=timezone.now())
        .exclude(kind=Stream.Kind.CALL)
        .exclude(worker_id=worker_id())
        .select_related("session")
        .order_by("opened_at", "pk")
    )
    return [(_to_stream(row), _to_session(row.session)) for row in rows]


def _to_stream(row: Any) -> StreamHandle:
    return StreamHandle(
        id=row.pk.hex,
        kind=row.kind,
        server=row.server,
        principal=row.principal_key or None,
        session=row.session_id.hex if row.session_id is not None else None,
        client_info={"name": row.client_name, "version": row.client_version},
        revision=row.revision,
        uris=row.uri_count,
        queued_events=row.queued_events,
        queued_bytes=0,
    )


def _to_session(row: Any) -> SessionHandle | None:
    if row is None:
        return None
    return SessionHandle(
        key=row.pk.hex,
        server=row.server,
        principal=row.principal_key or None,
        client_info=row.client_info,
        revision=row.revision,
        has_stream=True,
    )
