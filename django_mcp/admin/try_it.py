"""Try an entry from the catalogue: call it with the user's own rights, and show all messages.

The page posts a `server`, a `revision`, and the `method` and `params` of a request. The response is a
stream of JSON lines: each has `at`, which is `sent`, `received` (in a handshake), `ahead` (of the
response) or `answer`; `text`, the message on the wire; and `time`, in seconds since the epoch. If
questions before the response can be answered, a line at `session` has the session's id as its text:
the answer is posted as a `response` to the same URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any

from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.utils.translation import gettext as _t

from django_mcp.admin.base import get_server_or_404, note_actions, require_permissions
from django_mcp.admin.texts import escape_invisible
from django_mcp.extension_packages import load_parts
from django_mcp.inprocess.call import ALL_CAPABILITIES, principal_of, write_request
from django_mcp.models import DisabledEntry
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.headers import PROTOCOL_VERSION, SESSION_ID, Headers
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.extension import ask
from django_mcp.servers import MCPServer

CLIENT_INFO = {"name": "django-admin", "version": "1"}

EXTENSIONS: JSONObject = {
    identifier: declared
    for part in load_parts("admin")
    for identifier, declared in getattr(part, "CLIENT_EXTENSIONS", {}).items()
}
"""What the client declares of extensions, also where no question can be answered."""

CAPABILITIES: JSONObject = {**ALL_CAPABILITIES, "extensions": EXTENSIONS}

FOLLOWING: dict[str, Collection[str]] = {
    method: params
    for part in load_parts("admin")
    for method, params in getattr(part, "FOLLOWING", {}).items()
}
"""The methods that go on with a call, and the params of theirs that the page may set."""

next_id = itertools.count(1).__next__


def can_answer(server: MCPServer, revision: Revision, request: HttpRequest) -> bool:
    """Return whether a question of a call at this revision could be answered on the page.

    Before 2026-07-28 that needs a session, and a server that can stream.
    """
    can_push = isinstance(request, ASGIRequest)
    return revision.is_stateless or (can_push and server.engine.keeps_sessions)


def session_headers(revision: Revision, token: str) -> Headers:
    """Return the headers of a message in a session."""
    return Headers.from_mapping({SESSION_ID: token, PROTOCOL_VERSION: revision.name})


def line(at: str, message: bytes) -> JSONObject:
    """Return a message for the page: where it is on its way, its text, and the time."""
    return {"at": at, "text": message.decode(), "time": time.time()}


class Conversation:
    """A session that lasts for one call, so that questions can be answered, as for any client.

    Before questions were part of results, they were sent on the stream of a call, and the answer in a
    request of its own, to any worker.

    Attributes:
        token: the id of the session; empty if there is none.
        headers: of every message of the session.
        exchanged: all messages on the wire, as made by `line`: at `sent` or `received`.
    """

    def __init__(self, server: MCPServer, revision: Revision, principal: Any) -> None:
        self.token = ""
        self.headers = Headers.from_mapping({PROTOCOL_VERSION: revision.name})
        self.exchanged: list[JSONObject] = []
        self._server = server
        self._revision = revision
        self._principal = principal

    async def open(self) -> None:
        """Do the handshake; if it fails there is no `token`."""
        declared = {
            "protocolVersion": self._revision.name,
            "capabilities": CAPABILITIES,
            "clientInfo": CLIENT_INFO,
        }
        handshake = {"id": next_id(), "method": "initialize", "params": declared}
        answer, outcome = await self._send(handshake)
        self.token = dict(outcome).get(SESSION_ID.encode(), b"").decode()
        if not self.token:
            return
        self.headers = session_headers(self._revision, self.token)
        await self._send({"method": "notifications/initialized"})
        if "logging" in answer.get("result", {}).get("capabilities", {}):
            level = {"id": next_id(), "method": "logging/setLevel", "params": {"level": "debug"}}
            await self._send(level)

    async def close(self) -> None:
        if self.token:
            await self._server.engine.end_session(
                Exchange(headers=self.headers, caller=Caller(principal=self._principal))
            )

    async def _send(self, message: JSONObject) -> tuple[JSONObject, Iterable[tuple[bytes, bytes]]]:
        body = encode({"jsonrpc": "2.0", **message})
        self.exchanged.append(line("sent", body))
        reply = await self._server.engine.answer(
            Exchange(
                body=body,
                headers=self.headers,
                caller=Caller(principal=self._principal),
                channel=Channel(can_stream=True),
            )
        )
        content: JSONObject = {}
        if reply.body is not None:
            self.exchanged.append(line("received", reply.body))
            content = decode(reply.body)
        return content, reply.headers


COMPLETE = "completion/complete"
"""The method that proposes values for a field. It calls no entry."""

TARGETS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods that call an entry, and the param that names it."""

PASSED_ON = frozenset(
    {"name", "uri", "arguments", "inputResponses", "requestState", "ref", "argument", "context"}
)
"""The params that the page may set of calls."""


def declare(server: MCPServer, method: str, params: JSONObject) -> JSONObject:
    """Return the capabilities of a client that can send this, also of extensions that it needs."""
    tools = server.registry.registered["tools"]
    tool = tools.get(str(params.get("name"))) if method == "tools/call" else None
    needed: JSONObject = {
        identifier: {}
        for identifier, extension in server.engine.extensions.items()
        if (tool is not None and ask(extension, "is_required_by", False, tool))
        or (method in FOLLOWING and method in extension.methods())
    }
    return {**CAPABILITIES, "extensions": {**EXTENSIONS, **needed}}


def try_view(request: HttpRequest) -> HttpResponseBase:
    """Call the entry in the request's body, and stream the messages."""
    require_permissions(request, "view_disabledentry", "try_entry")
    names = ("server", "revision", "method", "params", "session", "response")
    given = read_body(request, names)
    if given is None:
        return JsonResponse({"error": "not a call"}, status=400)
    server = get_server_or_404(given.get("server"))
    revision = revision_tried(server, given.get("revision"))
    if "response" in given:
        return _respond(server, revision, given, request)
    method, params = str(given.get("method")), given.get("params")
    if not isinstance(params, dict) or method not in (*TARGETS, *FOLLOWING, COMPLETE):
        return JsonResponse({"error": "not a call"}, status=400)
    target = params.get(TARGETS.get(method))
    if isinstance(target, str):
        note = escape_invisible(target, 200), _t("Called from the catalogue."), None
        note_actions(request, DisabledEntry, note)
    elif method in TARGETS:
        return JsonResponse({"error": "not a call"}, status=400)
    passed_on = FOLLOWING.get(method, PASSED_ON)
    params = {key: value for key, value in params.items() if key in passed_on}
    caller = Caller(principal=principal_of(request.user), build_request=lambda: request)
    may_ask = method in TARGETS and can_answer(server, revision, request)
    return stream_call(request, server, method, params, revision, caller=caller, may_ask=may_ask)


def read_body(request: HttpRequest, names: Collection[str]) -> JSONObject | None:
    """Return the object in the body of a request; None if it is none, or has other members than these."""
    try:
        given = decode(request.body)
    except JSONDecodeError:
        return None
    is_known = isinstance(given, dict) and given.keys() <= set(names)
    return given if is_known else None


def stream_call(
    request: HttpRequest,
    server: MCPServer,
    method: str,
    params: JSONObject,
    revision: Revision,
    *,
    caller: Caller,
    may_ask: bool,
) -> StreamingHttpResponse:
    """Call an entry, and return the response with the messages.

    Args:
        request: the one to respond to.
        method, params: of the call.
        revision: at which it is called.
        caller: who calls.
        may_ask: whether questions of the call can be answered.
    """
    wire = _Wire()
    exchange = Exchange(caller=caller, channel=Channel(can_stream=True, sink=wire))
    lines = _exchange(server, method, params, revision, exchange, wire, may_ask=may_ask)
    return StreamingHttpResponse(
        # Under WSGI there is no event loop that runs while the lines are sent.
        lines if isinstance(request, ASGIRequest) else async_to_sync(_collect)(lines),
        content_type=_LINES,
        # Prevents buffering by nginx.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def refuse_call(refusal: Refusal) -> HttpResponse:
    """Return the response of a call that is refused before it reaches the server."""
    body = encode({"jsonrpc": "2.0", "id": next_id(), "error": refusal.to_error()})
    return HttpResponse(_encode(line("answer", body)), content_type=_LINES)


_LINES = "application/x-ndjson"


class _Wire(asyncio.Queue[bytes | None]):
    """Collects what the server sends before its response."""

    async def send(self, message: bytes) -> None:
        self.put_nowait(message)


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
        caller=Caller(principal=principal_of(request.user)),
    )
    reply = async_to_sync(_answer)(server, exchange)
    return JsonResponse(
        line("sent", exchange.body), status=200 if reply.body is None else reply.status
    )


async def _answer(server: MCPServer, exchange: Exchange) -> Reply:
    return await server.engine.answer(exchange)


async def _exchange(
    server: MCPServer,
    method: str,
    params: JSONObject,
    revision: Revision,
    exchange: Exchange,
    wire: _Wire,
    *,
    may_ask: bool,
) -> AsyncIterator[bytes]:
    talk = Conversation(server, revision, exchange.caller.principal)
    try:
        if not revision.is_stateless and may_ask:
            await talk.open()
            if not talk.token:
                talk.exchanged[-1]["at"] = "answer"
            for exchanged in talk.exchanged:
                yield _encode(exchanged)
            if not talk.token:
                return
            yield _encode(line("session", talk.token.encode()))
            exchange.headers = talk.headers
        elif not revision.is_stateless:
            # Questions could not be answered.
            exchange.connection = ConnectionState(
                revision, client_capabilities={"extensions": EXTENSIONS}, log_level="debug"
            )
        declared = declare(server, method, params)
        capabilities = declared if may_ask else {"extensions": declared["extensions"]}
        sent = write_request(
            method, params, revision, capabilities=capabilities, client_info=CLIENT_INFO
        )
        exchange.body = encode(sent)
        async for message in _call(server, exchange, wire):
            yield message
    finally:
        await talk.close()


async def _call(server: MCPServer, exchange: Exchange, wire: _Wire) -> AsyncIterator[bytes]:
    yield _encode(line("sent", exchange.body))
    task = asyncio.ensure_future(server.engine.answer(exchange))
    task.add_done_callback(lambda _task: wire.put_nowait(None))
    try:
        while (ahead := await wire.get()) is not None:
            yield _encode(line("ahead", ahead))
        reply = await task
        yield _encode(line("answer", reply.body or b""))
    finally:
        if not task.done():
            # The page was closed.
            exchange.channel.is_disconnected = True
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def revision_tried(server: MCPServer, name: object) -> Revision:
    """Return the requested revision, else the newest that the server has enabled."""
    revision = server.engine.revisions.find(name) if isinstance(name, str) else None
    return revision or (server.engine.revisions.stateless or server.engine.revisions.handshake)[-1]


def _encode(message: JSONObject) -> bytes:
    return encode(message) + b"\n"


async def _collect(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]
