"""Dispatch the message of an exchange: a request, a batch, a notification or a response."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

from django_mcp.protocol.errors import FAULT, REQUEST_CANCELLED, Refusal, invalid_request
from django_mcp.protocol.messages import Batch, Message, Request, decode_message, encode_result
from django_mcp.server.delivery.client_streams import PRIME_AFTER_S, CallStream
from django_mcp.server.exchange.admission import admit, may_have_session, refuse_batch
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.derived import Derived
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange, Reply, refuse
from django_mcp.server.exchange.strict import check_outcome, check_params
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.watching import report_error
from django_mcp.server.inbound import handle_inbound
from django_mcp.server.methods import METHODS, Method
from django_mcp.server.methods.discovery import complete_handshake
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.request_checks import ALREADY_INITIALIZED, load_session, refuse_rate
from django_mcp.server.services.services import Services

logger = logging.getLogger("django_mcp")

_BEFORE_INITIALIZED = frozenset({"initialize", "ping"})

_OBSERVED = frozenset({"tools/call", "resources/read", "prompts/get"})


def dispatch(server: Services, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
    """Return the reply to one POST, or one line; see `MCPServer.answer`."""
    if exchange.timers is None:
        return _dispatch_timed(server, exchange)
    message = decode_message(exchange.body, server.options.max_body_values)
    headers = exchange.headers
    if (
        headers is not None
        and exchange.connection is None
        and may_have_session(headers)
        and server.keeps_sessions
    ):
        return _dispatch_in_session(server, message, exchange)
    if isinstance(message, Request):
        # The usual case, without one more function.
        return _dispatch_request(server, message, exchange)
    return _dispatch(server, message, exchange)


async def _dispatch_timed(server: Services, exchange: Exchange) -> Reply:
    exchange.timers = TaskTimers.of_current_task()
    try:
        return await dispatch(server, exchange)
    finally:
        # The caller may pass the same exchange again, in another task.
        exchange.timers = None


async def _dispatch_in_session(
    server: Services, message: Message | Batch, exchange: Exchange
) -> Reply:
    """Dispatch a message that may belong to a session, so that a broken stream can be resumed."""
    try:
        refusal = await load_session(server, exchange, message)
    except StoreUnavailable as error:
        refusal = error.to_refusal()
    if refusal is not None:
        return refuse(refusal, 400, message.id if isinstance(message, Request) else None)
    session: ConnectionState | None = exchange.connection
    if not isinstance(session, Session):
        return await _dispatch(server, message, exchange)
    if not exchange.is_buffered:
        # Other processes may cancel what runs here.
        server.join_hub()
    sink = exchange.event_stream
    if sink is None or not isinstance(message, Request | Batch):
        return await _dispatch(server, message, exchange)
    request_id = message.id if isinstance(message, Request) else None
    stream = exchange.sink = CallStream(server, session, exchange, sink, request_id)
    timers = exchange.timers or TaskTimers.of_current_task()
    timer = timers.after(PRIME_AFTER_S, stream.prime_soon)
    try:
        reply = await _dispatch(server, message, exchange)
    except BaseException:
        stream.abandon()
        raise
    finally:
        timer.cancel()
        # Break the reference cycle, so that both are freed at once.
        exchange.sink = sink
    stream.finish(reply)
    return reply


def _dispatch(
    server: Services, message: Message | Batch, exchange: Exchange
) -> Coroutine[Any, Any, Reply]:
    if isinstance(message, Request):
        return _dispatch_request(server, message, exchange)
    if isinstance(message, Batch):
        return _dispatch_batch(server, message, exchange)
    return handle_inbound(server, message, exchange)


async def _dispatch_request(server: Services, request: Request, exchange: Exchange) -> Reply:
    """Return the reply to a request; that to a cancelled one may have no body."""
    derived, kept = server.derived, exchange.connection
    connection = admit(
        request,
        exchange.headers,
        kept,
        derived.revisions,
        derived.offered[exchange.can_stream, exchange.is_buffered, kept is None],
    )
    if isinstance(connection, Refusal):
        return refuse(connection, 200, request.id)
    if (
        derived.options.require_initialized
        and connection is kept
        and not connection.is_initialized
        and request.method not in _BEFORE_INITIALIZED
    ):
        return refuse(invalid_request("Send notifications/initialized first"), 400, request.id)
    ctx: Context = server.make_call(exchange, request, connection)
    exchange.cancels_on_disconnect = ctx.rules.disconnect_cancels
    repeated = None if kept is None else _find_repeated(ctx, kept)
    if repeated is not None:
        return refuse(repeated, 400, request.id)
    _register(ctx, kept)
    outcome = await _run_observed(ctx, derived, kept)
    if isinstance(outcome, bytes):
        reply = Reply(200, encode_result(request.id, outcome))
        if ctx.method != "initialize":
            return reply
        completed = await complete_handshake(ctx, reply)
        if isinstance(completed, Reply):
            return completed
        outcome = completed
    if outcome is None:
        return Reply(202)
    refused = refuse(outcome, ctx.rules.status(outcome.code), request.id)
    # Source: 2025-11-25 basic/utilities/cancellation: no response, unless the transport needs one.
    refused.is_dispensable = ctx.cancelled_by == "client"
    return refused


def _find_repeated(ctx: Context, kept: ConnectionState) -> Refusal | None:
    if ctx.server.hub.calls.find(kept, ctx.message.id) is not None:
        return invalid_request("A request with this id is running on this connection")
    if ctx.method != "initialize" or not isinstance(kept, Session) or kept.revision is None:
        return None
    return ALREADY_INITIALIZED


def _register(ctx: Context, kept: ConnectionState | None) -> None:
    """Register a call, so that it is listed, and can be cancelled by its principal or connection."""
    exchange = ctx.exchange
    if kept is not None:
        if ctx.method == "initialize":
            return
        ctx.server.hub.calls.add(ctx, kept)
    elif exchange.headers is not None and not exchange.is_buffered:
        hub = ctx.server.hub
        # A server that has joined the hub checks the rights of principals again during their calls.
        if hub.loop is None or exchange.principal is not ANONYMOUS:
            hub = ctx.server.join_hub()
        hub.calls.add(ctx)
    if kept is None and exchange.principal is ANONYMOUS:
        return
    ctx.task = exchange.timers


async def _run_observed(
    ctx: Context, derived: Derived, kept: ConnectionState | None
) -> bytes | Refusal | None:
    """Run a request and pass its outcome to the observer; None: it was cancelled."""
    observer = ctx.server.find_observer() if ctx.method in _OBSERVED else None
    started_s = 0.0 if observer is None else time.perf_counter()
    outcome: bytes | Refusal | None = None
    try:
        if derived.options.strict:
            refusal = check_params(ctx.method, ctx.params, ctx.rules)
            outcome = check_outcome(ctx, refusal or await _run(ctx, derived))
        else:
            outcome = await _run(ctx, derived)
    except asyncio.CancelledError:
        timers, exchange = ctx.task, ctx.exchange
        is_gone = exchange.is_disconnected and exchange.cancels_on_disconnect
        if not isinstance(timers, TaskTimers) or not ctx.is_cancelled or is_gone:
            # Not only the call was cancelled, but its asyncio task.
            raise
        timers.uncancel()
        if exchange.headers is not None or ctx.cancelled_by == "server":
            outcome = Refusal(code=REQUEST_CANCELLED, message="Cancelled")
    except StoreUnavailable as error:
        outcome = error.to_refusal()
    except Exception as error:
        logger.exception("Could not answer %s", ctx.method)
        await report_error(ctx, error, None)
        outcome = FAULT
    finally:
        ctx.is_finished = ctx.run is None
        ctx.server.hub.calls.discard(ctx, kept)
        # A task is observed when it ends.
        if observer is not None and not ctx.is_task:
            observer.answered(ctx, outcome, time.perf_counter() - started_s)
    return outcome


def _run(ctx: Context, derived: Derived) -> Awaitable[bytes | Refusal]:
    """Return the awaitable of a method, after what the principal can see is known."""
    exchange, method = ctx.exchange, METHODS[ctx.method]
    visible = ctx.server.access.find_visible(exchange, derived.requirements)
    if visible is not None:
        exchange.visible = visible
        if not derived.rates:
            return method(ctx)
    return _prepare_and_run(ctx, derived, method, is_visible_known=visible is not None)


async def _prepare_and_run(
    ctx: Context, derived: Derived, method: Method, *, is_visible_known: bool
) -> bytes | Refusal:
    if derived.rates:
        refusal = await refuse_rate(ctx.server, ctx, derived.rates)
        if refusal is not None:
            return refusal
    if not is_visible_known:
        await ctx.server.refresh_visible(ctx.exchange)
    return await method(ctx)


async def _dispatch_batch(server: Services, batch: Batch, exchange: Exchange) -> Reply:
    refusal = refuse_batch(
        batch, exchange.headers, exchange.connection, server.revisions, server.options.max_batch
    )
    if refusal is not None:
        return refuse(refusal)
    replies = await asyncio.gather(
        *(_dispatch_member(server, each, exchange) for each in batch.messages)
    )
    bodies = [reply.body for reply in replies if reply.body is not None]
    return Reply(200, b"[%b]" % b",".join(bodies)) if bodies else Reply(202)


async def _dispatch_member(server: Services, member: Message, exchange: Exchange) -> Reply:
    part = copy.copy(exchange)
    part.timers = TaskTimers.of_current_task()
    return await _dispatch(server, member, part)
