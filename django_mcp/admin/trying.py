"""Try an entry from the catalogue: call it with one's own rights, and tell all that is exchanged.

The answer is a stream of JSON lines: each has `at`, which is `sent`, `ahead` (of the answer) or
`answer`, and `text`, the message as it went over the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_action
from django_mcp.admin.pages import needs
from django_mcp.admin.texts import inert
from django_mcp.inprocess.calling import principal_of
from django_mcp.inprocess.questions import ALL_CAPABILITIES
from django_mcp.models import DisabledEntry
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode
from django_mcp.server.connection import ConnectionState
from django_mcp.server.exchange import Exchange
from django_mcp.servers import MCPServer, all_servers

if TYPE_CHECKING:
    from django_mcp.admin.pages import Page

__all__ = ["TryView"]

METHODS = {
    "tools": ("tools/call", "name"),
    "prompts": ("prompts/get", "name"),
    "resources": ("resources/read", "uri"),
    "templates": ("resources/read", "uri"),
}
PASSED_ON = ("arguments", "inputResponses", "requestState")
"""Params that the page may set besides."""

_ids = itertools.count(1)


class TryView:
    """The address that the form sends to."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Call what the request's body names, and stream what comes of it."""
        needs(request, "view_disabledentry", "try_entry")
        try:
            given = decode(request.body)
        except JSONDecodeError:
            given = None
        kind = given.get("kind") if isinstance(given, dict) else None
        if not isinstance(kind, str) or kind not in METHODS:
            return JsonResponse({"error": "not a call"}, status=400)
        server = _find_server(given.get("server"))
        method, name = METHODS[kind]
        # Of a template it is any URI that matches.
        target = given.get("uri", given.get("key")) if name == "uri" else given.get("key")
        if not isinstance(target, str):
            return JsonResponse({"error": "not a call"}, status=400)
        params = {name: target, **{key: given[key] for key in PASSED_ON if key in given}}
        note_action(request, DisabledEntry, inert(target, 200), _t("Called from the catalogue."))
        lines = _exchange(server, method, params, request)
        return StreamingHttpResponse(
            # Under WSGI there is no event loop to go on with while the lines are sent.
            lines if isinstance(request, ASGIRequest) else async_to_sync(_collect)(lines),
            content_type="application/x-ndjson",
            # Nginx would hold the lines back.
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _find_server(name: object) -> MCPServer:
    for server in all_servers():
        if server.public_name == name:
            return server
    raise Http404


class _Wire:
    """Takes what the server sends ahead of its answer."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`: the stream is open already."""

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`: nobody would come back."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`."""
        self.queue.put_nowait(message)


async def _exchange(
    server: MCPServer, method: str, params: JSONObject, request: HttpRequest
) -> AsyncIterator[bytes]:
    wire = _Wire()
    message, connection = _write(server, method, params)
    exchange = Exchange(
        body=encode(message),
        principal=principal_of(request.user),
        can_stream=True,
        sink=wire,
        build_request=lambda: request,
        connection=connection,
    )
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
            # The page was left.
            exchange.disconnected()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _write(
    server: MCPServer, method: str, params: JSONObject
) -> tuple[JSONObject, ConnectionState | None]:
    """Return the message as a client of the newest revision writes it, and its connection."""
    meta: JSONObject = {keys.PROGRESS_TOKEN: "try"}
    connection = None
    if server.revisions.stateless:
        meta[keys.PROTOCOL_VERSION] = server.revisions.stateless[-1].name
        meta[keys.CLIENT_INFO] = {"name": "django-admin", "version": "1"}
        meta[keys.CLIENT_CAPABILITIES] = ALL_CAPABILITIES
        meta[keys.LOG_LEVEL] = "debug"
    else:
        connection = ConnectionState(server.revisions.handshake[-1], log_level="debug")
    params = {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}, connection


def _line(at: str, message: bytes) -> bytes:
    return encode({"at": at, "text": message.decode()}) + b"\n"


async def _collect(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]
