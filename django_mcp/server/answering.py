"""Answer what an exchange brings: a request, a batch, or what wants no answer."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
import uuid
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Refusal,
)
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Message,
    Request,
    RequestId,
    decode_message,
    encode_error,
    encode_result,
)
from django_mcp.server.admission import admit, refuse_batch
from django_mcp.server.admitting import refuse_rate
from django_mcp.server.connection import ConnectionState
from django_mcp.server.context import Context
from django_mcp.server.exchange import ANONYMOUS, Exchange, Reply
from django_mcp.server.interfaces import StoreUnavailable
from django_mcp.server.interrupt import TaskTimers
from django_mcp.server.methods import METHODS
from django_mcp.server.offers import NOTHING
from django_mcp.server.replay import PRIME_AFTER_S, CallStream
from django_mcp.server.sessions import (
    ALREADY_INITIALIZED,
    NO_STORE,
    Session,
    join_at_hand,
    join_session,
    may_have_session,
)
from django_mcp.server.strict import check_outcome, check_params
from django_mcp.server.taking import take

if TYPE_CHECKING:
    from django_mcp.server.derived import Derived
    from django_mcp.server.interfaces import Observer
    from django_mcp.server.server import MCPServer

logger = logging.getLogger("django_mcp")

_DUPLICATE_ID = Refusal(
    code=INVALID_REQUEST, message="A request with this id is running on this connection"
)

_EARLY = frozenset({"initialize", "ping"})
_TOO_EARLY = Refusal(code=INVALID_REQUEST, message="Send notifications/initialized first")


def answer(server: MCPServer, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
    """Answer what one POST, or one line, holds; see `MCPServer.answer`."""
    message = decode_message(exchange.body)
    headers = exchange.headers
    if (
        headers is not None
        and exchange.connection is None
        and may_have_session(headers)
        and server.keeps_sessions
    ):
        if not join_at_hand(server, exchange, headers, message):
            return _join_and_answer(server, message, exchange)
        joined: ConnectionState | None = exchange.connection
        if isinstance(joined, Session):
            return _answer_on_stream(server, message, exchange, joined)
    return _answer(server, message, exchange)


async def _join_and_answer(
    server: MCPServer, message: Message | Batch, exchange: Exchange
) -> Reply:
    """Answer what may belong to a session, as a message of that session if it does."""
    try:
        refusal = await join_session(server, exchange, message)
    except StoreUnavailable:
        refusal = NO_STORE
    if refusal is not None:
        request_id = message.id if isinstance(message, Request) else None
        return _refuse(request_id, refusal, refusal.status or 400)
    joined: ConnectionState | None = exchange.connection
    if isinstance(joined, Session):
        return await _answer_on_stream(server, message, exchange, joined)
    return await _answer(server, message, exchange)


async def _answer_on_stream(
    server: MCPServer, message: Message | Batch, exchange: Exchange, session: Session
) -> Reply:
    """Answer a message of a session in a way that lets a broken stream be resumed."""
    timers = exchange.timers or TaskTimers()
    if not exchange.is_buffered:
        # Word from other processes concerns what runs here: it may be cancelled.
        server.join_hub(timers.loop)
    sink = exchange.sink
    if sink is None or exchange.is_buffered or not isinstance(message, Request | Batch):
        return await _answer(server, message, exchange)
    request_id = message.id if type(message) is Request else None
    stream = exchange.sink = CallStream(server, session, exchange, sink, request_id)
    timer = timers.after(PRIME_AFTER_S, stream.prime_soon)
    try:
        reply = await _answer(server, message, exchange)
    except BaseException:
        stream.abandon()
        raise
    finally:
        timer.cancel()
        # They hold each other, and what they hold must not wait for the collector.
        exchange.sink = sink
    stream.finish(reply)
    return reply


def _answer(
    server: MCPServer, message: Message | Batch, exchange: Exchange
) -> Coroutine[Any, Any, Reply]:
    if type(message) is Request:
        return _answer_request(server, message, exchange)
    return _answer_others(server, message, exchange)


async def _answer_others(server: MCPServer, message: Message | Batch, exchange: Exchange) -> Reply:
    if isinstance(message, Batch):
        return await _answer_batch(server, message, exchange)
    return await _take(server, message, exchange)


async def _take(server: MCPServer, message: Message, exchange: Exchange) -> Reply:
    if isinstance(message, Malformed):
        return _refuse(message.id, message.refusal, 400)
    if isinstance(message, Request):
        raise TypeError("a request is answered")
    try:
        refusal = await take(server, message, exchange)
    except StoreUnavailable:
        refusal = NO_STORE
    if refusal is not None:
        return _refuse(None, refusal, refusal.status or 400)
    return Reply(202)


async def _answer_request(server: MCPServer, request: Request, exchange: Exchange) -> Reply:
    """Return the reply; that to a cancelled request may have no body."""
    derived = server.derived
    connection = admit(
        request,
        exchange.headers,
        exchange.connection,
        derived.revisions,
        derived.features_for(exchange),
    )
    if isinstance(connection, Refusal):
        return _refuse(request.id, connection, connection.status or 200)
    options = derived.options
    if options.require_initialized and _is_early(request, exchange, connection):
        return _refuse(request.id, _TOO_EARLY, 400)
    ctx = server.context_class(server, exchange, request, connection)
    revision = ctx.rules
    exchange.cancels_on_disconnect = revision.disconnect_cancels
    kept = exchange.connection
    again = _find_repeated(request, kept)
    if again is not None:
        return _refuse(request.id, again, 400)
    may_be_ended = kept is not None or exchange.principal is not ANONYMOUS
    if may_be_ended:
        _note_running(ctx)
    else:
        _count(ctx)
    try:
        outcome = await (_begin(ctx, derived) if not options.strict else _run_strictly(ctx))
    finally:
        ctx.finish()
        if may_be_ended:
            _note_end(ctx)
        else:
            server.hub.calls.discard(ctx)
    if outcome is None:
        return Reply(202)
    if options.strict:
        outcome = check_outcome(ctx, outcome)
    if isinstance(outcome, Refusal):
        refused = _refuse(request.id, outcome, outcome.status or revision.status(outcome.code))
        # Source: 2025-11-25 basic/utilities/cancellation: no response, where none has to be.
        refused.is_dispensable = ctx.cancelled_by == "client"
        return refused
    reply = Reply(200, encode_result(request.id, outcome))
    if request.method == "initialize" and kept is None and exchange.headers is not None:
        return await _open_session(server, exchange, request, ctx.connection, reply)
    return reply


def _find_repeated(request: Request, kept: ConnectionState | None) -> Refusal | None:
    """Return why a request of a connection cannot be made again; None: it is not."""
    if kept is None:
        return None
    if request.id in kept.in_flight:
        return _DUPLICATE_ID
    is_settled = isinstance(kept, Session) and kept.revision is not None
    return ALREADY_INITIALIZED if is_settled and request.method == "initialize" else None


def _is_early(request: Request, exchange: Exchange, connection: ConnectionState) -> bool:
    """Tell whether a request of a session comes before its client has said that it is ready.

    Source: 2025-11-25 basic/lifecycle: only pings come before `initialized`.
    """
    is_kept = connection is exchange.connection
    return is_kept and not connection.is_initialized and request.method not in _EARLY


def _note_running(ctx: Context[Any]) -> None:
    """Write a call down where it is found to be cancelled."""
    exchange, kept = ctx.exchange, ctx.exchange.connection
    if kept is not None:
        if ctx.method == "initialize":
            return
        kept.in_flight[ctx.request_id] = ctx
    elif exchange.headers is not None and not exchange.is_buffered:
        ctx.server.join_hub().calls.add(ctx)
    timers = ctx.exchange.timers
    ctx.task = timers.task if timers is not None else asyncio.current_task()


def _count(ctx: Context[Any]) -> None:
    """Write a call down that is nobody's, for those who look at what is in flight; cheaply."""
    exchange, server = ctx.exchange, ctx.server
    if exchange.headers is not None and not exchange.is_buffered:
        hub = server.hub if server.hub.loop is not None else server.join_hub()
        hub.calls.add(ctx)


def _note_end(ctx: Context[Any]) -> None:
    kept = ctx.exchange.connection
    if kept is None:
        ctx.server.hub.calls.discard(ctx)
    elif kept.in_flight.get(ctx.request_id) is ctx:
        del kept.in_flight[ctx.request_id]


async def _run_strictly(ctx: Context[Any]) -> bytes | Refusal | None:
    refusal = check_params(ctx.method, ctx.params, ctx.rules)
    return refusal or await _begin(ctx, ctx.server.derived)


def _begin(ctx: Context[Any], derived: Derived) -> Coroutine[Any, Any, bytes | Refusal | None]:
    """Return what answers a request, after a look at what there is for who asks."""
    server, exchange = ctx.server, ctx.exchange
    offer = server.access.find_offer(exchange, derived.requirements)
    if offer is not None:
        exchange.offer = offer
    may_go_on = offer is not None and not derived.rates
    observer = server.observer
    if observer is None or not observer.is_wanted:
        return _run(ctx, may_go_on=may_go_on)
    return _run_observed(ctx, observer, may_go_on=may_go_on)


async def _open_session(
    server: MCPServer,
    exchange: Exchange,
    request: Request,
    settled: ConnectionState,
    reply: Reply,
) -> Reply:
    """Return the reply to a handshake with the id of the session it opens, if it opens one."""
    if not server.keeps_sessions:
        return reply
    principal_key = getattr(exchange.principal, "key", None)
    session = Session(uuid.uuid4().hex, server.name, principal_key, settled)
    try:
        token = await server.sessions.open(session, exchange)
    except StoreUnavailable:
        token = NO_STORE
    if isinstance(token, Refusal):
        return _refuse(request.id, token, token.status or 503)
    if not exchange.is_buffered:
        # It looks after what is never heard of again.
        server.join_hub()
    server.connection_observer.session_opened(session)
    reply.headers = ((SESSION_ID.encode(), token.encode()),)
    return reply


async def _run(ctx: Context[Any], *, may_go_on: bool) -> bytes | Refusal | None:
    method = METHODS.get(ctx.method)
    if method is None:
        return Refusal(code=METHOD_NOT_FOUND, message=f"Unknown method: {ctx.method[:200]}")
    try:
        if not may_go_on:
            refusal = await _prepare(ctx)
            if refusal is not None:
                return refusal
        outcome = await method(ctx)
        if ctx.method == "initialize" and not isinstance(outcome, Refusal):
            await _settle(ctx)
        return outcome
    except asyncio.CancelledError:
        if (
            not isinstance(ctx.task, asyncio.Task)
            or not ctx.is_cancelled
            or (ctx.exchange.is_disconnected and ctx.exchange.cancels_on_disconnect)
        ):
            raise
        # Cancelled by the client's own notification, or since its user may not use it any more:
        # the task itself lives on.
        ctx.task.uncancel()
        if ctx.exchange.headers is None and ctx.cancelled_by != "server":
            return None
        return Refusal(code=REQUEST_CANCELLED, message="Cancelled")
    except StoreUnavailable:
        return NO_STORE
    except Exception:
        logger.exception("Could not answer %s", ctx.method)
        return Refusal(code=INTERNAL_ERROR, message="Internal error")


async def _prepare(ctx: Context[Any]) -> Refusal | None:
    """Do what may take a while and only some requests need, or return why they go no further."""
    rates = ctx.server.derived.rates
    refusal = await refuse_rate(ctx, rates) if rates else None
    if refusal is None and ctx.exchange.offer is NOTHING:
        await ctx.server.refresh_offer(ctx.exchange)
    return refusal


_OBSERVED = frozenset({"tools/call", "resources/read", "prompts/get"})


async def _run_observed(
    ctx: Context[Any], observer: Observer, *, may_go_on: bool
) -> bytes | Refusal | None:
    if ctx.method not in _OBSERVED:
        return await _run(ctx, may_go_on=may_go_on)
    started = time.perf_counter()
    outcome = None
    try:
        outcome = await _run(ctx, may_go_on=may_go_on)
        return outcome
    finally:
        # Cancelled ones are heard of as well; a task is when it ends.
        if not ctx.is_task:
            observer.answered(ctx, outcome, time.perf_counter() - started)


async def _answer_batch(server: MCPServer, batch: Batch, exchange: Exchange) -> Reply:
    refusal = refuse_batch(
        batch, exchange.headers, exchange.connection, server.revisions, server.options.max_batch
    )
    if refusal is not None:
        return _refuse(None, refusal, refusal.status or 400)
    members = (_answer(server, each, _part_of(exchange)) for each in batch.messages)
    replies = await asyncio.gather(*members)
    bodies = [reply.body for reply in replies if reply.body is not None]
    return Reply(200, b"[%b]" % b",".join(bodies)) if bodies else Reply(202)


def _part_of(exchange: Exchange) -> Exchange:
    """Return the exchange of one member of a batch, which runs and is cancelled by itself."""
    part = copy.copy(exchange)
    part.timers = None
    return part


async def _settle(ctx: Context[Any]) -> None:
    """Write the outcome of a handshake onto the connection that outlives it, if one does."""
    kept, settled = ctx.exchange.connection, ctx.connection
    if kept is not None:
        kept.revision = settled.revision
        kept.client_info = settled.client_info
        kept.client_capabilities = settled.client_capabilities
    if isinstance(kept, Session):
        # It was opened by its stream, before anything was known of the client.
        for stream in ctx.server.hub.streams_of(kept.key):
            stream.client_info, stream.revision_name = kept.client_info, ctx.revision
        await ctx.server.sessions.settle(kept)


def _refuse(request_id: RequestId | None, refusal: Refusal, status: int) -> Reply:
    return Reply(status, encode_error(request_id, refusal), refusal.headers)
