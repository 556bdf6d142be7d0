"""Handle messages that need no response: notifications, and responses to the server's requests."""

from __future__ import annotations

import logging

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, invalid_request, try_later
from django_mcp.protocol.headers import PROTOCOL_VERSION
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import Malformed, Notification, Response, is_request_id
from django_mcp.protocol.revisions import Revision
from django_mcp.server.asking.back_channel import pass_on
from django_mcp.server.exchange.admission import refuse_version
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Exchange, Reply, refuse
from django_mcp.server.exchange.quotas import QuotaReached
from django_mcp.server.exchange.strict import check_params, check_response
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.services import Services
from django_mcp.server.streams.upkeep import take_pong

MAX_ANSWER_BYTES = 1024 * 1024
"""Of one response, which may have to be stored: sampling may return an image. Our own limit."""

logger = logging.getLogger("django_mcp")


async def handle_inbound(
    server: Services, message: Notification | Response | Malformed, exchange: Exchange
) -> Reply:
    """Handle a message that gets no response, and return 202 or the refusal."""
    if isinstance(message, Malformed):
        return refuse(message.refusal, 400, message.id)
    refusal = refuse_version(exchange.headers, server.revisions)
    if refusal is None:
        try:
            if isinstance(message, Response):
                refusal = await _handle_response(server, message, exchange)
            else:
                refusal = await _handle_notification(server, message, exchange)
        except StoreUnavailable as error:
            refusal = error.to_refusal()
    return Reply(202) if refusal is None else refuse(refusal)


def _find_revision(server: Services, exchange: Exchange) -> Revision | None:
    headers, connection = exchange.headers, exchange.connection
    found = server.revisions.find(headers.get(PROTOCOL_VERSION) if headers is not None else None)
    return connection.revision if found is None and connection is not None else found


async def _handle_response(
    server: Services, response: Response, exchange: Exchange
) -> Refusal | None:
    """Pass a response to the request that waits for it; one to no request is ignored.

    It is refused at stateless revisions. Source: 2026-07-28 basic/transports, "the body is a single
    request or notification".
    """
    revision = _find_revision(server, exchange)
    if revision is not None and revision.is_stateless:
        return invalid_request("No response is expected", 400)
    connection = exchange.connection
    if connection is None or response.id is None:
        return None
    error = response.error
    answer = {"result": response.result} if error is None else {"error": error}
    refusal = _refuse_large(exchange, answer)
    if refusal is None and server.options.strict and connection.revision is not None:
        refusal = check_response(response, connection.revision)
    if refusal is not None:
        # The handler that asked stops waiting: it gets `AskFailed`.
        answer = {"error": refusal.to_error()}
    waiting = connection.asked.get(response.id)
    if waiting is not None:
        if not waiting.done():
            waiting.set_result(answer)
    elif isinstance(connection, Session) and isinstance(response.id, str):
        if take_pong(server.hub, connection.key, response.id):
            return refusal
        try:
            await pass_on(server, connection, response.id, answer)
        except QuotaReached as reached:
            message = "Too many answers wait to be read: send this one again later"
            return try_later(message, code=INVALID_REQUEST, status=reached.scope.value)
    return refusal


def _refuse_large(exchange: Exchange, answer: JSONObject) -> Refusal | None:
    # A batch may be larger than each answer in it.
    if len(exchange.body) <= MAX_ANSWER_BYTES or len(encode(answer)) <= MAX_ANSWER_BYTES:
        return None
    return invalid_request("The answer is larger than 1 MiB: send a smaller one", 413)


async def _handle_notification(
    server: Services, message: Notification, exchange: Exchange
) -> Refusal | None:
    connection = exchange.connection
    if server.options.strict:
        revision = _find_revision(server, exchange)
        if revision is None and server.revisions.stateless:
            # On a pipe without a handshake.
            revision = server.revisions.stateless[-1]
        if revision is not None:
            refusal = check_params(message.method, message.params, revision)
            if refusal is not None:
                return refusal
    if connection is None:
        # It changes no state, but an observer of notifications may want it.
        pass
    elif message.method == "notifications/initialized":
        changes = {"is_initialized": True}
        if not isinstance(connection, Session):
            connection.update(changes)
        elif not connection.is_initialized:
            await server.sessions.update(connection, changes)
    elif message.method == "notifications/cancelled":
        _cancel(server, connection, message.params)
    server.connection_observer.client_notification(connection, message.method, message.params)
    return None


def _cancel(server: Services, connection: ConnectionState, params: JSONObject) -> None:
    request_id = params.get("requestId")
    if request_id is None or not is_request_id(request_id):
        return
    running = server.hub.calls.find(connection, request_id)
    if running is not None:
        logger.info("Request cancelled by the client: %.200r", params.get("reason"))
        running.cancel("client")
    elif isinstance(connection, Session):
        server.hub.broadcast("session", key=connection.key, event="cancel", id=request_id)
