"""Reach single clients: who is there, whether they answer, and the end of their streams and sessions.

What is named here may belong to any process. Sessions go by their public keys, which open nothing.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django_mcp.protocol.json import JSONObject

if TYPE_CHECKING:
    from django_mcp.server.hub import Hub
    from django_mcp.server.interfaces import AnswerBox, ConnectionObserver, SessionStore
    from django_mcp.server.push import PushStream
    from django_mcp.server.sessions import Session

__all__ = ["Reaching", "SessionHandle", "StreamHandle"]

PING_TIMEOUT_S = 10.0


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
        client_info: what the client says it is.
        revision: the protocol revision of its messages.
        uris: how many resources it hears of.
        queued_events, queued_bytes: what waits for its reader.
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


class Reaching:
    """The part of a server that reaches single clients. On an event loop only."""

    hub: Hub
    sessions: SessionStore
    answers: AnswerBox
    connection_observer: ConnectionObserver
    name: str

    def join_hub(self) -> Hub:
        """See `MCPServer.join_hub`."""
        raise NotImplementedError

    def open_streams(self) -> list[StreamHandle]:
        """Return this server's open streams in this process."""
        streams = self.hub.streams.values()
        return [StreamHandle.of(each) for each in streams if each.server_name == self.name]

    def connected_sessions(self) -> list[SessionHandle]:
        """Return the sessions of this server that have a standing stream in this process."""
        found = {
            stream.session.key: stream.session
            for stream in self.hub.streams.values()
            if stream.session is not None and stream.server_name == self.name
        }
        return [SessionHandle.of(session, has_stream=True) for session in found.values()]

    async def aclose_stream(self, stream_id: str) -> None:
        """Close a stream, in whichever process it is. Its client may open another."""
        self.join_hub().close_stream(stream_id)

    async def aclose_session(self, key: str) -> bool:
        """End a session with all that runs and streams for it; tell whether there was one."""
        session = await self.sessions.get(key)
        found = await self.sessions.end(key)
        if found:
            self.join_hub().end_session(key)
            if session is not None:
                self.connection_observer.session_closed(session, "the site ended it")
        return found

    async def aping_client(
        self, session_key: str, timeout_s: float = PING_TIMEOUT_S
    ) -> float | None:
        """Ping a client on its session's standing stream.

        Returns the seconds until it answered; None when it has not in time, has no stream to ask on
        or no session.

        Source: 2025-11-25 basic/utilities/ping.
        """
        from django_mcp.server.back_channel import POLL_S, take_answered

        hub = self.join_hub()
        hub.on("answered", partial(take_answered, hub))
        session = await self.sessions.get(session_key)
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
        except TimeoutError:
            return None
        finally:
            del session.asked[ask_id]
            await self.answers.forget(session, ask_id)
        return loop.time() - begun_s
