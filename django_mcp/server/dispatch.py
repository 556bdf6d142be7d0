"""Dispatch the message of an exchange: a request, a batch, a notification or a response."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from django_mcp.protocol.errors import (
    FAULT,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Refusal,
)
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
from django_mcp.server.delivery.resumption import PRIME_AFTER_S, CallStream
from django_mcp.server.exchange.admission import admit, may_have_session, refuse_batch
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange, Reply
from django_mcp.server.exchange.strict import check_outcome, check_params
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.exchange.visibility import NOTHING
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.error_handlers import report_error
from django_mcp.server.handshake import complete_handshake
from django_mcp.server.inbound import take
from django_mcp.server.methods import METHODS, Method
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.scopes_and_rates import refuse_rate
from django_mcp.server.services.session_lookup import (
    ALREADY_INITIALIZED,
    NO_STORE,
    join_at_hand,
    join_session,
)

if TYPE_CHECKING:
    from django_mcp.server.exchange.derived import Derived
    from django_mcp.server.services.services import Services

logger = logging.getLogger("django_mcp")

_DUPLICATE_ID = Refusal(
    code=INVALID_REQUEST, message="A request with this id is running on this connection"
)

_EARLY = frozenset({"initialize", "ping"})
_TOO_EARLY = Refusal(code=INVALID_REQUEST, message="Send notifications/initialized first")


def answer(server: Services, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
    """Answer what one POST, or one line, holds; see `MCPServer.answer`."""
    if exchange.timers is None:
        return _answer_timed(server, exchange)
    message = decode_message(exchange.body, server.options.max_body_values)
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
    if type(message) is Request:
        return _answer_request(server, message, exchange)
    return _answer_others(server, message, exchange)


async def _answer_timed(server: Services, exchange: Exchange) -> Reply:
    timers = exchange.timers = TaskTimers()
    try:
        return await timers.drive(answer(server, exchange))
    finally:
        # The caller may hand over the same exchange again in another task.
        exchange.timers = None


async def _join_and_answer(server: Services, message: Message | Batch, exchange: Exchange) -> Reply:
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
    server: Services, message: Message | Batch, exchange: Exchange, session: Session
) -> Reply:
    """Answer a message of a session in a way that lets a broken stream be resumed."""
    if not exchange.is_buffered:
        # Word from other processes concerns what runs here: it may be cancelled.
        server.join_hub()
    sink = exchange.sink
    if sink is None or exchange.is_buffered or not isinstance(message, Request | Batch):
        return await _answer(server, message, exchange)
    request_id = message.id if type(message) is Request else None
    stream = exchange.sink = CallStream(server, session, exchange, sink, request_id)
    timers = exchange.timers or TaskTimers()
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
    server: Services, message: Message | Batch, exchange: Exchange
) -> Coroutine[Any, Any, Reply]:
    if type(message) is Request:
        return _answer_request(server, message, exchange)
    return _answer_others(server, message, exchange)


async def _answer_others(server: Services, message: Message | Batch, exchange: Exchange) -> Reply:
    if isinstance(message, Batch):
        return await _answer_batch(server, message, exchange)
    return await _take(server, message, exchange)


async def _take(server: Services, message: Message, exchange: Exchange) -> Reply:
    if isinstance(message, Malformed):
        return _refuse(message.id, message.refusal, message.refusal.status or 400)
    if isinstance(message, Request):
        raise TypeError("a request is answered")
    try:
        refusal = await take(server, message, exchange)
    except StoreUnavailable:
        refusal = NO_STORE
    if refusal is not None:
        return _refuse(None, refusal, refusal.status or 400)
    return Reply(202)


def _answer_request(
    server: Services, request: Request, exchange: Exchange
) -> Coroutine[Any, Any, Reply]:
    derived = server.derived
    connection = admit(
        request,
        exchange.headers,
        exchange.connection,
        derived.revisions,
        derived.offered[exchange.can_stream, exchange.is_buffered, exchange.connection is None],
    )
    if isinstance(connection, Refusal):
        return _refuse_later(request.id, connection, connection.status or 200)
    if derived.options.require_initialized and _is_early(request, exchange, connection):
        return _refuse_later(request.id, _TOO_EARLY, 400)
    ctx = cast("Context[Any]", server.make_call(exchange, request, connection))
    exchange.cancels_on_disconnect = ctx.rules.disconnect_cancels
    return _answer_admitted(ctx, derived)


async def _refuse_later(request_id: RequestId, refusal: Refusal, status: int) -> Reply:
    return _refuse(request_id, refusal, status)


async def _answer_admitted(ctx: Context[Any], derived: Derived) -> Reply:
    """Return the reply; that to a cancelled request may have no body."""
    server, kept = ctx.server, ctx.exchange.connection
    again = None if kept is None else _find_repeated(ctx, kept)
    if again is not None:
        return _refuse(ctx.request_id, again, 400)
    observer = server.find_observer() if ctx.method in _OBSERVED else None
    started_s = 0.0 if observer is None else time.perf_counter()
    may_be_ended = kept is not None or ctx.exchange.principal is not ANONYMOUS
    if may_be_ended:
        _note_running(ctx)
    else:
        _note_anonymous(ctx)
    outcome: bytes | Refusal | None = None
    try:
        is_strict = derived.options.strict
        outcome = await (_begin(ctx, derived) if not is_strict else _run_strictly(ctx, derived))
    except asyncio.CancelledError:
        if not _is_ours(ctx):
            raise
        outcome = _end_cancelled(ctx)
    except StoreUnavailable:
        outcome = NO_STORE
    except Exception as error:
        logger.exception("Could not answer %s", ctx.method)
        await report_error(ctx, error, None)
        outcome = FAULT
    finally:
        ctx.is_finished = ctx.run is None
        if may_be_ended:
            _note_end(ctx)
        else:
            server.hub.calls.discard(ctx)
        # Cancelled ones are heard of as well; a task is when it ends.
        if observer is not None and not ctx.is_task:
            observer.answered(ctx, outcome, time.perf_counter() - started_s)
    if not isinstance(outcome, bytes):
        return _to_error(ctx, outcome)
    reply = Reply(200, encode_result(ctx.message.id, outcome))
    return reply if ctx.method != "initialize" else await _complete_handshake(ctx, reply)


async def _complete_handshake(ctx: Context[Any], reply: Reply) -> Reply:
    completed = await complete_handshake(ctx, reply)
    return completed if isinstance(completed, Reply) else _to_error(ctx, completed)


def _to_error(ctx: Context[Any], outcome: Refusal | None) -> Reply:
    if outcome is None:
        return Reply(202)
    status = outcome.status or ctx.rules.status(outcome.code)
    refused = _refuse(ctx.message.id, outcome, status)
    # Source: 2025-11-25 basic/utilities/cancellation: no response, where none has to be.
    refused.is_dispensable = ctx.cancelled_by == "client"
    return refused


def _find_repeated(ctx: Context[Any], kept: ConnectionState) -> Refusal | None:
    """Return why a request of a connection cannot be made again; None: it is not."""
    if ctx.server.hub.calls.find(kept, ctx.message.id) is not None:
        return _DUPLICATE_ID
    if ctx.method != "initialize" or not isinstance(kept, Session) or kept.revision is None:
        return None
    return ALREADY_INITIALIZED


def _is_early(request: Request, exchange: Exchange, connection: ConnectionState) -> bool:
    """Return whether a request of a session comes before its client has said that it is ready.

    Source: 2025-11-25 basic/lifecycle: only pings come before `initialized`.
    """
    is_kept = connection is exchange.connection
    return is_kept and not connection.is_initialized and request.method not in _EARLY


def _note_running(ctx: Context[Any]) -> None:
    """Register a call so that it can be cancelled."""
    exchange, kept = ctx.exchange, ctx.exchange.connection
    if kept is not None:
        if ctx.method == "initialize":
            return
        ctx.server.hub.calls.add_request(ctx, kept)
    elif exchange.headers is not None and not exchange.is_buffered:
        ctx.server.join_hub().calls.add(ctx)
    timers = ctx.task = exchange.timers
    if exchange.is_buffered and timers is not None:
        # Under WSGI, other threads may look before this one waits.
        _ = timers.task


def _note_anonymous(ctx: Context[Any]) -> None:
    """Register an anonymous call without a connection, for the list of calls in flight."""
    exchange, server = ctx.exchange, ctx.server
    if exchange.headers is not None and not exchange.is_buffered:
        hub = server.hub if server.hub.loop is not None else server.join_hub()
        hub.calls.add(ctx)


def _note_end(ctx: Context[Any]) -> None:
    kept = ctx.exchange.connection
    if kept is None:
        ctx.server.hub.calls.discard(ctx)
    else:
        ctx.server.hub.calls.end_request(ctx, kept)


async def _run_strictly(ctx: Context[Any], derived: Derived) -> bytes | Refusal | None:
    refusal = check_params(ctx.method, ctx.params, ctx.rules)
    outcome = refusal or await _begin(ctx, derived)
    return None if outcome is None else check_outcome(ctx, outcome)


def _begin(ctx: Context[Any], derived: Derived) -> Awaitable[bytes | Refusal | None]:
    """Return what answers a request, after finding out what its principal may see."""
    exchange, method = ctx.exchange, METHODS.get(ctx.method)
    offer = ctx.server.access.find_offer(exchange, derived.requirements)
    if offer is not None:
        exchange.offer = offer
    if method is None or offer is None or derived.rates:
        return _prepare_and_run(ctx, method)
    return method(ctx)


_OBSERVED = frozenset({"tools/call", "resources/read", "prompts/get"})


def _is_ours(ctx: Context[Any]) -> bool:
    """Return whether a cancellation concerns the call alone, while its task goes on."""
    return (
        isinstance(ctx.task, TaskTimers)
        and ctx.is_cancelled
        and not (ctx.exchange.is_disconnected and ctx.exchange.cancels_on_disconnect)
    )


def _end_cancelled(ctx: Context[Any]) -> Refusal | None:
    """Take the cancellation back: it was the client's own wish, or its user may not go on."""
    if isinstance(ctx.task, TaskTimers):
        ctx.task.uncancel()
    if ctx.exchange.headers is None and ctx.cancelled_by != "server":
        return None
    return Refusal(code=REQUEST_CANCELLED, message="Cancelled")


async def _prepare_and_run(ctx: Context[Any], method: Method | None) -> bytes | Refusal | None:
    if method is None:
        return Refusal(code=METHOD_NOT_FOUND, message=f"Unknown method: {ctx.method[:200]}")
    return await _prepare(ctx) or await method(ctx)


async def _prepare(ctx: Context[Any]) -> Refusal | None:
    """Do what may take a while and only some requests need, or return why they go no further."""
    rates = ctx.server.derived.rates
    refusal = await refuse_rate(ctx.server, ctx, rates) if rates else None
    if refusal is None and ctx.exchange.offer is NOTHING:
        await ctx.server.refresh_offer(ctx.exchange)
    return refusal


async def _answer_batch(server: Services, batch: Batch, exchange: Exchange) -> Reply:
    refusal = refuse_batch(
        batch, exchange.headers, exchange.connection, server.revisions, server.options.max_batch
    )
    if refusal is not None:
        return _refuse(None, refusal, refusal.status or 400)
    replies = await asyncio.gather(
        *(_answer_member(server, each, exchange) for each in batch.messages)
    )
    bodies = [reply.body for reply in replies if reply.body is not None]
    return Reply(200, b"[%b]" % b",".join(bodies)) if bodies else Reply(202)


async def _answer_member(server: Services, member: Message, exchange: Exchange) -> Reply:
    """Answer one member of a batch, which runs and is cancelled by itself."""
    part = copy.copy(exchange)
    timers = part.timers = TaskTimers()
    return await timers.drive(_answer(server, member, part))


def _refuse(request_id: RequestId | None, refusal: Refusal, status: int) -> Reply:
    return Reply(status, encode_error(request_id, refusal), refusal.headers)
