"""The open streams and sessions of a server: list them, ping their clients, and close them.

They may belong to any process. Sessions are named by their public keys, which give no access. Each
method may be awaited on any event loop: what concerns open streams runs on the hub's.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.exchange.session_keys import SESSION_KEY
from django_mcp.server.services import Services
from django_mcp.server.streams.process_messages import CloseStream, SessionEnded
from django_mcp.server.streams.stream import PushStream

PINGS_AT_ONCE = 32
"""Clients that are pinged at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHandle:
    """The public properties of a session.

    Attributes:
        key: its public key, which gives no access.
        server: the name of its server.
        principal: the key of its principal; None: anonymous.
        client_info: how the client describes itself.
        revision: its protocol revision.
    """

    key: str
    server: str
    principal: str | None
    client_info: JSONObject | None
    revision: str

    @classmethod
    def of(cls, session: Session) -> SessionHandle:
        return cls(
            key=session.key,
            server=session.server_name,
            principal=session.principal_key,
            client_info=session.client_info,
            revision=session.revision.name if session.revision is not None else "",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamHandle:
    """The public properties of an open stream.

    Attributes:
        id: its id.
        kind: what opened it: `get`, `listen`, `sse` or `stdio`.
        server: the name of its server.
        principal: the key of its principal; None: anonymous.
        session: the key of its session; None: it has none.
        client_info: how the client describes itself; for other processes, name and version.
        revision: the protocol revision of its messages.
        uris: the number of resources it is subscribed to.
        queued_events: messages that wait for its reader.
        queued_bytes: their size; 0 for other processes.
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
        return cls(
            id=stream.id,
            kind=stream.kind.value,
            server=stream.server_name,
            principal=key_of(stream.principal),
            session=stream.session_key,
            client_info=stream.client_info,
            revision=stream.revision_name,
            uris=len(stream.uris),
            queued_events=stream.queued_events,
            queued_bytes=stream.queued_bytes,
        )


class ClientMethods(ABC):
    """The part of a server that pings single clients, and lists and closes streams and sessions."""

    @property
    @abstractmethod
    def engine(self) -> Services:
        """What the package's own code uses of the server; it may change in any version."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of this server, for clients and other processes."""

    async def aopen_streams(self) -> list[StreamHandle]:
        """Return this server's open streams in all processes that share a store."""
        return [StreamHandle.of(stream) for stream in self._streams_here()] + [
            stream for stream, _ in await self._find_elsewhere()
        ]

    async def aconnected_sessions(self) -> list[SessionHandle]:
        """Return the sessions of this server that have a standalone stream, in whichever process."""
        sessions = {
            session.key: session
            for _, session in await self._find_elsewhere()
            if session is not None
        }
        for stream in self._streams_here():
            if stream.session is not None:
                sessions[stream.session.key] = SessionHandle.of(stream.session)
        return list(sessions.values())

    def _streams_here(self) -> list[PushStream]:
        streams = list(self.engine.hub.streams.values())
        return [stream for stream in streams if stream.server_name == self.name]

    async def _find_elsewhere(self) -> list[tuple[StreamHandle, SessionHandle | None]]:
        """Return this server's open streams in other processes, with their sessions."""
        return []

    async def ais_subscribed(self, uri: str) -> bool:
        """Return whether a client is subscribed to a resource now.

        That is a session, or the client of a listening stream (`subscriptions/listen`) or a pipe, in
        whichever process. A stream of another process counts two seconds after it opened at the latest.
        """
        return (
            bool(self.engine.hub.index.find(self.name, (None, uri)))
            or any(
                uri in (session.subscriptions or ())
                for session in list(self.engine.hub.sessions.values())
                if session.server_name == self.name and not session.is_ended
            )
            or await self._is_subscribed_elsewhere(uri)
        )

    async def _is_subscribed_elsewhere(self, uri: str) -> bool:
        """Return whether a stream or session in the store is subscribed to a resource."""
        return False

    async def aclose_stream(self, stream_id: str) -> None:
        """Close a stream, in whichever process it is. Its client may open another one."""
        await self.engine.hub.run(self._close_stream, stream_id)

    async def _close_stream(self, stream_id: str) -> None:
        hub, message = self.engine.hub, CloseStream(stream=stream_id)
        if hub.is_running:
            hub.hand_over(message)
        else:
            # This process may end as soon as this returns.
            await hub.send(message)

    async def aclose_session(self, key: str) -> bool:
        """End a session with its calls and streams; return whether there was one."""
        return bool(await self.aclose_sessions([key]))

    async def aclose_sessions(self, keys: Iterable[str]) -> list[str]:
        """End sessions, in one transaction; return the keys of those that existed."""
        return await self.engine.hub.run(
            self._close_sessions, [key for key in keys if SESSION_KEY.fullmatch(key)]
        )

    async def _close_sessions(self, keys: list[str]) -> list[str]:
        ended = await self.engine.ports.sessions.end(keys, Closing.SITE) if keys else []
        if self.engine.hub.is_running:
            for key in ended:
                self.engine.hub.end_session(key)
        elif ended:
            await self.engine.hub.send(*(SessionEnded(session=key) for key in ended))
        return ended

    async def aping_client(
        self, session_key: str | None = None, timeout_s: float = 10.0
    ) -> float | None:
        """Ping a client on its session's standalone stream, or the clients of all standalone streams.

        Args:
            session_key: the public key of the session; None: all that have a standalone stream.
            timeout_s: how long to wait for an answer.

        Returns:
            The seconds until the first answer; None if none came in time, or there is no session
            with a standalone stream.

        Source: 2025-11-25 basic/utilities/ping.
        """
        if session_key is not None:
            return await self.engine.hub.run(self._ping_client, session_key, timeout_s)
        keys = [session.key for session in await self.aconnected_sessions()]
        return await self.engine.hub.run(self._ping_any, keys, timeout_s)

    async def _ping_any(self, keys: list[str], timeout_s: float) -> float | None:
        """Ping several clients, a few at a time; return the seconds until the first answer."""
        loop = asyncio.get_running_loop()
        begun_s, slots = loop.time(), asyncio.Semaphore(PINGS_AT_ONCE)

        async def ping(key: str) -> float | None:
            async with slots:
                return await self._ping_client(key, timeout_s)

        pinging = [loop.create_task(ping(key)) for key in keys]
        try:
            for answered in asyncio.as_completed(pinging, timeout=timeout_s):
                if await answered is not None:
                    return loop.time() - begun_s
        except TimeoutError:
            pass
        finally:
            for pinging_task in pinging:
                pinging_task.cancel()
            await asyncio.gather(*pinging, return_exceptions=True)
        return None

    async def _ping_client(self, session_key: str, timeout_s: float) -> float | None:
        session = await self._find_session(session_key)
        if session is None:
            return None
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        handshakes = self.engine.ports.handshakes
        if not await handshakes.ping(self.engine, session, timeout_s):
            return None
        return loop.time() - begun_s

    async def _find_session(self, key: str) -> Session | None:
        return await self.engine.ports.sessions.get(key) if SESSION_KEY.fullmatch(key) else None

    async def acancel_request(
        self, session_key: str, request_id: str, reason: str = "Cancelled"
    ) -> bool:
        """Cancel a server's request to a client, in whichever process it waits for its answer.

        The client is sent the cancellation, and the handler that asked gets `AskFailed`.

        Args:
            session_key: the public key of the client's session.
            request_id: the `request_id` that the handler gave to `ctx.sample`.
            reason: for the client.

        Returns:
            Whether the request waited for its answer.

        Source: 2025-11-25 basic/utilities/cancellation.
        """
        return await self.engine.hub.run(self._cancel_request, session_key, request_id, reason)

    async def _cancel_request(self, session_key: str, request_id: str, reason: str) -> bool:
        session = await self._find_session(session_key)
        if session is None:
            return False
        handshakes = self.engine.ports.handshakes
        return await handshakes.withdraw(self.engine, session, request_id, reason)
