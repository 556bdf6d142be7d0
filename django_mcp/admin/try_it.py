"""Try an entry from the catalogue: call it with the user's own rights, and show all messages.

The response is a stream of JSON lines: each has `at`, which is `sent`, `received` (in a handshake),
`ahead` (of the response) or `answer`, and `text`, the message on the wire. If questions before the
response can be answered, a line at `session` has the session's id as its text: the answer is posted
as a `response` to the same URL.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_action
from django_mcp.admin.lookup import get_server
from django_mcp.admin.pages import needs
from django_mcp.admin.texts import inert
from django_mcp.admin.try_session import (
    CLIENT_INFO,
    Conversation,
    can_answer,
    next_id,
    session_headers,
)
from django_mcp.inprocess.call import principal_of
from django_mcp.inprocess.questions import ALL_CAPABILITIES
from django_mcp.models import DisabledEntry
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.servers import MCPServer

if TYPE_CHECKING:
    from django_mcp.admin.pages import Page
    from django_mcp.protocol.revisions import Revision

__all__ = ["TryView", "revision_tried"]

METHODS = {
    "tools": ("tools/call", "name"),
    "prompts": ("prompts/get", "name"),
    "resources": ("resources/read", "uri"),
    "templates": ("resources/read", "uri"),
}
PASSED_ON = ("arguments", "inputResponses", "requestState")
"""Params that the page may set as well."""


class TryView:
    """The view that the form posts to."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Call the entry in the request's body, and stream the messages."""
        needs(request, "view_disabledentry", "try_entry")
        try:
            given = decode(request.body)
        except JSONDecodeError:
            given = None
        kind = given.get("kind") if isinstance(given, dict) else None
        if not isinstance(kind, str) or kind not in METHODS:
            return JsonResponse({"error": "not a call"}, status=400)
        server = get_server(given.get("server"))
        revision = revision_tried(server, given.get("revision"))
        if "response" in given:
            return _respond(server, revision, given, request)
        method, name = METHODS[kind]
        # For a template, any URI that matches.
        target = given.get("uri", given.get("key")) if name == "uri" else given.get("key")
        if not isinstance(target, str):
            return JsonResponse({"error": "not a call"}, status=400)
        params = {name: target, **{key: given[key] for key in PASSED_ON if key in given}}
        note_action(request, DisabledEntry, inert(target, 200), _t("Called from the catalogue."))
        lines = _exchange(server, method, params, revision, request)
        return StreamingHttpResponse(
            # Under WSGI there is no event loop that runs while the lines are sent.
            lines if isinstance(request, ASGIRequest) else async_to_sync(_collect)(lines),
            content_type="application/x-ndjson",
            # Prevents buffering by nginx.
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


class _Wire:
    """Collects what the server sends before its response."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`: the stream is open already."""

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`: a page does not reconnect."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`."""
        self.queue.put_nowait(message)


def _respond(
    server: MCPServer, revision: Revision, given: JSONObject, request: HttpRequest
) -> HttpResponseBase:
    """Pass on the answer to a question of a call, in any worker."""
    token, response = given.get("session"), given.get("response")
    if not isinstance(token, str) or not isinstance(response, dict) or "method" in response:
        return JsonResponse({"error": "not an answer"}, status=400)
    exchange = Exchange(
        body=encode({"jsonrpc": "2.0", **response}),
        headers=session_headers(revision, token),
        principal=principal_of(request.user),
    )
    reply = async_to_sync(_answer)(server, exchange)
    sent = {"at": "sent", "text": exchange.body.decode()}
    return JsonResponse(sent, status=200 if reply.body is None else reply.status)


async def _answer(server: MCPServer, exchange: Exchange) -> Reply:
    return await server.answer(exchange)


async def _exchange(
    server: MCPServer, method: str, params: JSONObject, revision: Revision, request: HttpRequest
) -> AsyncIterator[bytes]:
    principal = principal_of(request.user)
    talk, wire = Conversation(server, revision, principal), _Wire()
    exchange = Exchange(
        principal=principal, can_stream=True, sink=wire, build_request=lambda: request
    )
    try:
        if not revision.is_stateless and can_answer(server, revision, request):
            await talk.open()
            for at, message in talk.exchanged[: None if talk.token else -1]:
                yield _line(at, message)
            if not talk.token:
                yield _line("answer", talk.exchanged[-1][1])
                return
            yield _line("session", talk.token.encode())
            exchange.headers = talk.headers
        elif not revision.is_stateless:
            # No capability is declared, since questions could not be answered.
            exchange.connection = ConnectionState(revision, log_level="debug")
        exchange.body = encode(_write(revision, method, params))
        async for line in _call(server, exchange, wire):
            yield line
    finally:
        await talk.close()


async def _call(server: MCPServer, exchange: Exchange, wire: _Wire) -> AsyncIterator[bytes]:
    yield _line("sent", exchange.body)
    task = asyncio.ensure_future(server.answer(exchange))
    task.add_done_callback(lambda _task: wire.queue.put_nowait(None))
    try:
        while (ahead := await wire.queue.get()) is not None:
            yield _line("ahead", ahead)
        reply = await task
        yield _line("answer", reply.body or b"")
    finally:
        if not task.done():
            # The page was closed.
            exchange.disconnected()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def revision_tried(server: MCPServer, name: object) -> Revision:
    """Return the requested revision, else the newest that the server has enabled."""
    found = server.revisions.find(name) if isinstance(name, str) else None
    return found or (server.revisions.stateless or server.revisions.handshake)[-1]


def _write(revision: Revision, method: str, params: JSONObject) -> JSONObject:
    """Return the message in the form of a client of a revision."""
    meta: JSONObject = {keys.PROGRESS_TOKEN: "try"}
    if revision.is_stateless:
        meta[keys.PROTOCOL_VERSION] = revision.name
        meta[keys.CLIENT_INFO] = CLIENT_INFO
        meta[keys.CLIENT_CAPABILITIES] = ALL_CAPABILITIES
        meta[keys.LOG_LEVEL] = "debug"
    params = {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": next_id(), "method": method, "params": params}


def _line(at: str, message: bytes) -> bytes:
    return encode({"at": at, "text": message.decode()}) + b"\n"


async def _collect(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]
