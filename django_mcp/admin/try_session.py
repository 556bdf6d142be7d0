"""A session of the page that tries entries, so that questions can be answered.

Before questions were part of results, they were sent on the stream of a call, and the answer in a
request of its own, to any worker: that needs a session, as for any client. It lasts for the one
call.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.core.handlers.asgi import ASGIRequest

from django_mcp.inprocess.questions import ALL_CAPABILITIES
from django_mcp.protocol.headers import PROTOCOL_VERSION, SESSION_ID, Headers
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mcp.protocol.revisions import Revision
    from django_mcp.servers import MCPServer

CLIENT_INFO = {"name": "django-admin", "version": "1"}

next_id = itertools.count(1).__next__


def can_answer(server: MCPServer, revision: Revision, request: HttpRequest) -> bool:
    """Return whether a question of a call at this revision could be answered on the page.

    Before 2026-07-28 that needs a session, and a server that can stream.
    """
    if revision.is_stateless:
        return True
    return server.keeps_sessions and isinstance(request, ASGIRequest)


def session_headers(revision: Revision, token: str) -> Headers:
    """Return the headers of a message in a session."""
    return Headers.from_mapping({SESSION_ID: token, PROTOCOL_VERSION: revision.name})


def line(at: str, message: bytes) -> JSONObject:
    """Return a message for the page: where it is on its way, its text, and the time."""
    return {"at": at, "text": message.decode(), "time": time.time()}


class Conversation:
    """One session, from its handshake to its end.

    Attributes:
        token: the id of the session; empty if there is none.
        exchanged: all messages on the wire, as made by `line`: at `sent` or `received`.
    """

    def __init__(self, server: MCPServer, revision: Revision, principal: Any) -> None:
        self.token = ""
        self.exchanged: list[JSONObject] = []
        self._server = server
        self._revision = revision
        self._principal = principal

    async def open(self) -> None:
        """Do the handshake; if it fails there is no `token`."""
        declared = {
            "protocolVersion": self._revision.name,
            "capabilities": ALL_CAPABILITIES,
            "clientInfo": CLIENT_INFO,
        }
        headers = {PROTOCOL_VERSION: self._revision.name}
        answer, found = await self._send(
            {"id": next_id(), "method": "initialize", "params": declared},
            Headers.from_mapping(headers),
        )
        self.token = next(
            (value.decode() for name, value in found if name == SESSION_ID.encode()), ""
        )
        if not self.token:
            return
        await self._send({"method": "notifications/initialized"}, self.headers)
        if "logging" in answer.get("result", {}).get("capabilities", {}):
            level = {"id": next_id(), "method": "logging/setLevel", "params": {"level": "debug"}}
            await self._send(level, self.headers)

    @property
    def headers(self) -> Headers:
        """The headers of every message of the session."""
        return session_headers(self._revision, self.token)

    async def close(self) -> None:
        """End the session, and its calls."""
        if self.token:
            await self._server.end_session(
                Exchange(headers=self.headers, principal=self._principal)
            )

    async def _send(
        self, message: JSONObject, headers: Headers
    ) -> tuple[JSONObject, Iterable[tuple[bytes, bytes]]]:
        body = encode({"jsonrpc": "2.0", **message})
        self.exchanged.append(line("sent", body))
        reply = await self._server.answer(
            Exchange(body=body, headers=headers, principal=self._principal, can_stream=True)
        )
        if reply.body is None:
            return {}, reply.headers
        self.exchanged.append(line("received", reply.body))
        found: JSONObject = decode(reply.body)
        return found, reply.headers
