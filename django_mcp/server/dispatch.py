"""Dispatch the message of an exchange: a request, a batch, a notification or a response."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.errors import (
    FAULT,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Refusal,
    invalid_request,
    try_later,
)
from django_mcp.protocol.headers import PROTOCOL_VERSION
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode_message,
    encode_result,
    is_request_id,
)
from django_mcp.protocol.revisions import Revision
from django_mcp.server.capabilities import Derived
from django_mcp.server.exchange.admission import (
    admit,
    assumed_revision,
    check_batch,
    check_version,
    may_have_session,
)
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.quotas import QuotaReached
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.strict import check_outcome, check_params
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.watching import report_error
from django_mcp.server.methods import METHODS, Method
from django_mcp.server.methods.added import find_added
from django_mcp.server.operations import Operations, Outcome
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.request_checks import ALREADY_INITIALIZED, check_rate
from django_mcp.server.services import ServedCall, Services
from django_mcp.server.streams.process_messages import CallCancelled

_BEFORE_INITIALIZED = frozenset({"initialize", "ping"})

_OBSERVED = frozenset({"tools/call", "resources/read", "prompts/get"})


def dispatch(server: Services, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
    """Return the reply to one POST, or one line; see `Engine.answer`."""
    if exchange.channel.timers is None:
        return _dispatch_timed(server, exchange)
    message = decode_message(exchange.body, server.options.max_body_values)
    headers = exchange.headers
    if (
        headers is not None
        and exchange.connection is None
        and may_have_session(headers)
        and server.keeps_sessions
    ):
        return server.ports.handshakes.dispatch(server, message, exchange, _dispatch)
    if type(message) is Request:
        # As `_dispatch` does; a call of it costs 0.5 %.
        return server.operations.answer(server, message, exchange)
    return _dispatch(server, message, exchange)


async def _dispatch_timed(server: Services, exchange: Exchange) -> Reply:
    exchange.channel.timers = TaskTimers.of_current_task()
    try:
        return await dispatch(server, exchange)
    finally:
        # The caller may pass the same exchange again, in another task.
        exchange.channel.timers = None


def _dispatch(
    server: Services, message: Message | Batch, exchange: Exchange
) -> Coroutine[Any, Any, Reply]:
    if isinstance(message, Request):
        return server.operations.answer(server, message, exchange)
    if isinstance(message, Batch):
        return _dispatch_batch(server, message, exchange)
    return server.operations.take(server, message, exchange)


async def _dispatch_request(server: Services, request: Request, exchange: Exchange) -> Reply:
    """Return the reply to a request; that to a cancelled one may have no body."""
    derived, kept, channel = server.derived, exchange.connection, exchange.channel
    connection = admit(
        request,
        exchange.headers,
        kept,
        derived.revisions,
        derived.offered[channel.can_stream, channel.is_buffered, kept is None],
        derived.added_rules,
    )
    if isinstance(connection, Refusal):
        return refusal_reply(connection, 200, request.id)
    if (
        derived.options.require_initialized
        and connection is kept
        and not connection.is_initialized
        and request.method not in _BEFORE_INITIALIZED
    ):
        return refusal_reply(
            invalid_request("Send notifications/initialized first"), 400, request.id
        )
    call: ServedCall = server.make_call(exchange, request, connection)
    channel.cancels_on_disconnect = call.rules.disconnect_cancels
    repeated = _register(call, kept)
    if repeated is not None:
        return refusal_reply(repeated, 400, request.id)
    outcome = await server.operations.run(call, derived, kept)
    if isinstance(outcome, bytes):
        reply = Reply(200, encode_result(request.id, outcome))
        if call.method != "initialize":
            return reply
        completed = await server.ports.handshakes.complete(call, reply)
        if isinstance(completed, Reply):
            return completed
        outcome = completed
    if outcome is None:
        return Reply(202)
    refused = refusal_reply(outcome, call.rules.status(outcome.code), request.id)
    # Source: 2025-11-25 basic/utilities/cancellation: no response, unless the transport needs one.
    refused.is_dispensable = call.cancelled_by == "client"
    return refused


def _register(call: ServedCall, kept: ConnectionState | None) -> Refusal | None:
    """Register a call, so that it is listed, and can be cancelled by its principal or connection.

    Returns the refusal of a request that its connection must not send now.
    """
    exchange, hub = call.exchange, call.server.hub
    if kept is not None:
        if call.method == "initialize":
            is_settled = isinstance(kept, Session) and kept.revision is not None
            return ALREADY_INITIALIZED if is_settled else None
        if not hub.calls.add(call, kept):
            return invalid_request("A request with this id is running on this connection")
    elif exchange.headers is not None and not exchange.channel.is_buffered:
        # A server that has joined the hub checks the rights of principals again during their calls.
        if hub.loop is None or exchange.caller.principal is not ANONYMOUS:
            hub = call.server.join_hub()
        hub.calls.add(call)
    elif exchange.caller.principal is ANONYMOUS:
        # It is not listed, so nobody can cancel it.
        return None
    call.cancellable = exchange.channel.timers
    return None


async def _run_observed(
    call: ServedCall, derived: Derived, kept: ConnectionState | None
) -> Outcome:
    """Run a request and pass its outcome to the observer; None: it was cancelled."""
    observer = call.server.ports.find_observer() if call.method in _OBSERVED else None
    if observer is not None:
        call.is_recorded = True
    call.started_s = time.perf_counter()
    outcome: Outcome = None
    try:
        if derived.options.strict:
            refusal = check_params(call.method, call.params, call.rules)
            outcome = check_outcome(call, refusal or await _run(call, derived))
        else:
            outcome = await _run(call, derived)
    except asyncio.CancelledError:
        timers, exchange = call.cancellable, call.exchange
        is_gone = exchange.channel.is_disconnected and exchange.channel.cancels_on_disconnect
        if not isinstance(timers, TaskTimers) or call.cancelled_by is None or is_gone:
            # Not only the call was cancelled, but its asyncio task.
            raise
        timers.uncancel()
        if exchange.headers is not None or call.cancelled_by == "server":
            outcome = Refusal(code=REQUEST_CANCELLED, message="Cancelled")
    except StoreUnavailable as error:
        outcome = error.to_refusal()
    except Exception as error:
        logger.exception("Could not answer %s", call.method)
        await report_error(call, error, None)
        outcome = FAULT
    finally:
        call.is_finished = call.detached_run is None
        call.server.hub.calls.discard(call, kept)
        if observer is not None and not call.is_answered_early:
            observer(call, outcome, time.perf_counter() - call.started_s)
    return outcome


def _run(call: ServedCall, derived: Derived) -> Awaitable[bytes | Refusal]:
    """Return the awaitable of a method, after what the principal can see is known."""
    exchange, server = call.exchange, call.server
    caller = exchange.caller
    try:
        method = METHODS[call.method]
    except KeyError:
        method = find_added(call.method, derived)
    # The server does nothing but narrow what the policy finds; a call of it costs 0.5 %.
    finder = server.ports.access if caller.narrowing is None else server
    visible = finder.find_visible(exchange, derived.requirements)
    if visible is not None:
        caller.visible = visible
        if not derived.rates:
            return method(call)
    return _prepare_and_run(call, derived, method, is_visible_known=visible is not None)


async def _prepare_and_run(
    call: ServedCall, derived: Derived, method: Method, *, is_visible_known: bool
) -> bytes | Refusal:
    if derived.rates:
        refusal = await check_rate(call, derived.rates)
        if refusal is not None:
            return refusal
    if not is_visible_known:
        await call.server.refresh_visible(call.exchange)
    return await method(call)


async def _dispatch_batch(server: Services, batch: Batch, exchange: Exchange) -> Reply:
    refusal = check_batch(
        batch, exchange.headers, exchange.connection, server.revisions, server.options.max_batch
    )
    if refusal is not None:
        return refusal_reply(refusal)
    replies = await asyncio.gather(
        *(_dispatch_member(server, message, exchange) for message in batch.messages)
    )
    bodies = [reply.body for reply in replies if reply.body is not None]
    return Reply(200, b"[%b]" % b",".join(bodies)) if bodies else Reply(202)


async def _dispatch_member(server: Services, member: Message, exchange: Exchange) -> Reply:
    part = copy.copy(exchange)
    channel = part.channel = copy.copy(exchange.channel)
    channel.batch = exchange.channel
    channel.timers = TaskTimers.of_current_task()
    return await _dispatch(server, member, part)


async def _handle_inbound(
    server: Services, message: Notification | Response | Malformed, exchange: Exchange
) -> Reply:
    """Handle a message that gets no response, and return 202 or the refusal."""
    if isinstance(message, Malformed):
        return refusal_reply(message.refusal, 400, message.id)
    refusal = check_version(exchange.headers, server.revisions)
    if refusal is None:
        try:
            if isinstance(message, Response):
                refusal = await _handle_response(server, message, exchange)
            else:
                refusal = await _handle_notification(server, message, exchange)
        except StoreUnavailable as error:
            refusal = error.to_refusal()
        except QuotaReached as reached:
            text = "Too many answers wait to be read: send this one again later"
            refusal = try_later(text, code=INVALID_REQUEST, status=reached.scope.value)
    return Reply(202) if refusal is None else refusal_reply(refusal)


def _find_revision(server: Services, exchange: Exchange) -> Revision | None:
    headers, connection = exchange.headers, exchange.connection
    revisions = server.revisions
    known_revision = revisions.find(headers.get(PROTOCOL_VERSION) if headers is not None else None)
    if known_revision is None and connection is not None:
        return connection.revision
    if known_revision is None and revisions.handshake:
        return assumed_revision(headers, revisions)
    return known_revision


async def _handle_response(
    server: Services, response: Response, exchange: Exchange
) -> Refusal | None:
    """Pass a response on, or return its refusal.

    It is refused at stateless revisions. Source: 2026-07-28 basic/transports, "the body is a single
    request or notification".
    """
    revision = _find_revision(server, exchange)
    if revision is not None and revision.is_stateless:
        return invalid_request("No response is expected", 400)
    return await server.ports.handshakes.take_response(server, response, exchange)


async def _handle_notification(
    server: Services, message: Notification, exchange: Exchange
) -> Refusal | None:
    connection, quota_key = exchange.connection, exchange.caller.quota_key
    if server.options.strict:
        revision = _find_revision(server, exchange)
        if revision is None and server.revisions.stateless:
            # On a pipe without a handshake, or if none is enabled.
            revision = server.revisions.stateless[-1]
        if revision is not None:
            refusal = check_params(message.method, message.params, revision)
            if refusal is not None:
                return refusal
    if connection is not None and message.method == "notifications/initialized":
        if not isinstance(connection, Session):
            connection.is_initialized = True
        elif not connection.is_initialized:
            await server.ports.sessions.update(connection, {"is_initialized": True})
    elif connection is not None and message.method == "notifications/cancelled":
        _cancel(server, connection, message.params, quota_key)
    server.ports.connection_observer.client_notification(
        connection, message.method, message.params, quota_key
    )
    return None


def _cancel(server: Services, connection: ConnectionState, params: JSONObject, caller: str) -> None:
    request_id: Any = params.get("requestId")
    if not is_request_id(request_id):
        return
    running = server.hub.calls.find(connection, request_id)
    if running is not None:
        logger.info("Request cancelled by the client: %.200r", params.get("reason"))
        running.cancel("client")
    elif isinstance(connection, Session):
        server.hub.broadcast(CallCancelled(session=connection.key, id=request_id), caller)


def _run_task(
    _call: ServedCall, _carried: JSONObject | None, work: Coroutine[Any, Any, Outcome]
) -> Coroutine[Any, Any, Outcome]:
    return work


OPERATIONS = Operations(
    answer=_dispatch_request,
    take=_handle_inbound,
    run=_run_observed,
    run_task=_run_task,
    carry=lambda: None,
)
"""What an engine without an instrument calls."""
