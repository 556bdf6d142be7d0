"""Reach single clients: who is there, whether they answer, and the end of their streams and sessions.

What is named here may belong to any process. Sessions go by their public keys, which open nothing.
Each method may be awaited on any event loop: what concerns open streams is done on the hub's.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.protocol.json import JSONObject
from django_mcp.server.delivery.notify import NotifyMethods
from django_mcp.server.exchange.connection import Closing
from django_mcp.server.exchange.quotas import QuotaReached

if TYPE_CHECKING:
    from django_mcp.server.exchange.connection import Session
    from django_mcp.server.streams.stream import PushStream

__all__ = ["ClientMethods", "SessionHandle", "StreamHandle"]

T = TypeVar("T")

PING_TIMEOUT_S = 10.0

PINGS_AT_ONCE = 32
"""Clients that are asked at once whether any of them is there. Our own limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHandle:
    """What may be told of a session.

    Attributes:
        key: names it. It opens nothing.
        server: the name of the server it was opened at.
        principal: the key of whose it is; None: nobody's.
        client_info: what the client says it is.
        revision: the protocol revision it settled on.
        has_stream: whether it has a standing stream, so that it can be sent something.
    """

    key: str
    server: str
    principal: str | None
    client_info: JSONObject | None
    revision: str
    has_stream: bool

    @classmethod
    def of(cls, session: Session, *, has_stream: bool) -> SessionHandle:
        """Return the handle of a session."""
        return cls(
            key=session.key,
            server=session.server_name,
            principal=session.principal_key,
            client_info=session.client_info,
            revision=session.revision.name if session.revision is not None else "",
            has_stream=has_stream,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamHandle:
    """What may be told of an open stream.

    Attributes:
        id: names it.
        kind: what opened it: `get`, `listen`, `sse` or `stdio`.
        server: the name of the server it is open at.
        principal: the key of whose it is; None: nobody's.
        session: the key of its session; None: it has none.
        client_info: what the client says it is; of a stream in another process, name and version.
        revision: the protocol revision of its messages.
        uris: how many resources it is subscribed to.
        queued_events: messages that wait for its reader.
        queued_bytes: how large they are; 0 of a stream in another process.
    """

    id: str
    kind: str
    server: str
    principal: str | None
    session: str | None
    client_info: JSONObject | None
    revision: str
    uris: int
    queued_events: int
    queued_bytes: int

    @classmethod
    def of(cls, stream: PushStream) -> StreamHandle:
        """Return the handle of a stream."""
        return cls(
            id=stream.id,
            kind=stream.kind.value,
            server=stream.server_name,
            principal=getattr(stream.principal, "key", None),
            session=stream.session_key,
            client_info=stream.client_info,
            revision=stream.revision_name,
            uris=len(stream.uris),
            queued_events=stream.queued_events,
            queued_bytes=stream.queued_bytes,
        )


class ClientMethods(NotifyMethods):
    """The part of a server that reaches single clients."""

    async def aopen_streams(self) -> list[StreamHandle]:
        """Return this server's open streams in all processes, as far as they are kept together."""
        return [StreamHandle.of(each) for each in self._streams_here()] + [
            stream for stream, _ in await self.find_elsewhere()
        ]

    async def aconnected_sessions(self) -> list[SessionHandle]:
        """Return the sessions of this server that have a standing stream, in whichever process."""
        found = {
            session.key: session
            for _, session in await self.find_elsewhere()
            if session is not None
        }
        for stream in self._streams_here():
            if stream.session is not None:
                found[stream.session.key] = SessionHandle.of(stream.session, has_stream=True)
        return list(found.values())

    def _streams_here(self) -> list[PushStream]:
        return [each for each in list(self.hub.streams.values()) if each.server_name == self.name]

    async def find_elsewhere(self) -> list[tuple[StreamHandle, SessionHandle | None]]:
        """Return this server's open streams in other processes, with their sessions."""
        return []

    async def ais_subscribed(self, uri: str) -> bool:
        """Return whether a client is subscribed to a resource now.

        That is a session, or the client of a listening stream (`subscriptions/listen`) or a pipe, in
        whichever process. What another process has opened is known two seconds later at most.
        """
        return self.has_subscriber(uri) or await self.is_subscribed_elsewhere(uri)

    def has_subscriber(self, uri: str) -> bool:
        """Return whether a stream or a session that this process knows is subscribed to a resource."""
        return bool(self.hub.index.of_uri(self.name, uri)) or any(
            uri in (each.subscriptions or ())
            for each in list(self.hub.sessions.values())
            if each.server_name == self.name and not each.is_ended
        )

    async def is_subscribed_elsewhere(self, uri: str) -> bool:
        """Return whether a client that is known to all processes is subscribed to a resource."""
        return False

    def is_subscribed(self, uri: str) -> bool:
        """Return whether a client is subscribed to a resource; see `ais_subscribed`."""
        return self.has_subscriber(uri)

    async def aclose_stream(self, stream_id: str) -> None:
        """Close a stream, in whichever process it is. Its client may open another."""
        await self._on_hub(self._close_stream, stream_id)

    async def _close_stream(self, stream_id: str) -> None:
        if self.hub.is_running:
            self.hub.close_stream(stream_id)
        else:
            # Nothing is open here, and this process may end as soon as this returns.
            await self.hub.send({"kind": "close", "stream": stream_id})

    async def aclose_session(self, key: str) -> bool:
        """End a session with all that runs and streams for it; return whether there was one."""
        return await self._on_hub(self._close_session, key)

    async def _close_session(self, key: str) -> bool:
        if not is_key(key) or not await self.sessions.end(key, Closing.SITE):
            return False
        if self.hub.is_running:
            self.hub.end_session(key)
        else:
            await self.hub.send({"kind": "session", "key": key, "event": "ended"})
        return True

    async def aping_client(
        self, session_key: str | None = None, timeout_s: float = PING_TIMEOUT_S
    ) -> float | None:
        """Ping a client on its session's standing stream, or the clients of all standing streams.

        Args:
            session_key: the public key of the session; None: all that have a standing stream.
            timeout_s: how long to wait for an answer.

        Returns:
            The seconds until it, or the first of them, answered. None when none did in time, or
            there is no session with a stream to ask on.

        Source: 2025-11-25 basic/utilities/ping.
        """
        if session_key is not None:
            return await self._on_hub(self._ping_client, session_key, timeout_s)
        keys = [each.key for each in await self.aconnected_sessions()]
        return await self._on_hub(self._ping_any, keys, timeout_s)

    async def _ping_any(self, keys: list[str], timeout_s: float) -> float | None:
        """Ping several clients, a few at a time; return the seconds until the first one answered."""
        loop = asyncio.get_running_loop()
        begun_s, left = loop.time(), iter(keys)

        async def ping_in_turn() -> bool:
            for key in left:
                if await self._ping_client(key, timeout_s) is not None:
                    return True
            return False

        pinging = {loop.create_task(ping_in_turn()) for _ in range(min(len(keys), PINGS_AT_ONCE))}
        try:
            while pinging and (left_s := begun_s + timeout_s - loop.time()) > 0:
                done, pinging = await asyncio.wait(
                    pinging, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
                if any(each.result() for each in done):
                    return loop.time() - begun_s
            return None
        finally:
            for each in pinging:
                each.cancel()
            await asyncio.gather(*pinging, return_exceptions=True)

    async def _ping_client(self, session_key: str, timeout_s: float) -> float | None:
        from django_mcp.server.asking.back_channel import POLL_S, take_answered

        hub = self.join_hub()
        hub.on("answered", partial(take_answered, hub))
        session = await self.sessions.get(session_key) if is_key(session_key) else None
        if session is None:
            return None
        ask_id = f"ask-{uuid.uuid4().hex}"
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[JSONObject] = loop.create_future()
        session.asked[ask_id] = waiting
        begun_s = loop.time()
        try:
            await self.answers.expect(session, ask_id, timeout_s)
            hub.send_request(session_key, ask_id, "ping")
            async with asyncio.timeout(timeout_s):
                while not (await asyncio.wait((waiting,), timeout=POLL_S))[0]:
                    if await self.answers.take(session, ask_id) is not None:
                        break
        except (TimeoutError, QuotaReached):
            return None
        finally:
            del session.asked[ask_id]
            await self.answers.forget(session, ask_id)
        return loop.time() - begun_s

    async def acancel_request(
        self, session_key: str, request_id: str, reason: str = "Cancelled"
    ) -> bool:
        """Cancel a request of ours to a client, in whichever process its answer is waited for.

        The client is told so, and the handler that asked gets `AskFailed`.

        Args:
            session_key: the public key of the client's session.
            request_id: what the handler gave to `ctx.sample`.
            reason: for the client.

        Returns:
            Whether its answer was waited for.

        Source: 2025-11-25 basic/utilities/cancellation.
        """
        return await self._on_hub(self._cancel_request, session_key, request_id, reason)

    async def _cancel_request(self, session_key: str, request_id: str, reason: str) -> bool:
        from django_mcp.server.asking.back_channel import withdraw

        session = await self.sessions.get(session_key) if is_key(session_key) else None
        return session is not None and await withdraw(self, session, request_id, reason)

    async def _on_hub(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        loop = self.hub.loop
        if loop is None or not loop.is_running() or loop is asyncio.get_running_loop():
            return await function(*args)
        there = asyncio.run_coroutine_threadsafe(function(*args), loop)
        return await asyncio.wrap_future(there)


_KEY = re.compile("[0-9a-f]{32}")


def is_key(text: str) -> bool:
    """Return whether a text may be the public key of a session."""
    return _KEY.fullmatch(text) is not None
