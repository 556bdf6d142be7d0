"""Handle messages that need no response: notifications, and responses to the server's requests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import PROTOCOL_VERSION
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import Notification, Response, is_request_id
from django_mcp.server.asking.back_channel import pass_on
from django_mcp.server.exchange.admission import refuse_version
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import QuotaReached, Scope
from django_mcp.server.exchange.strict import check_params, check_response
from django_mcp.server.streams.upkeep import take_pong

if TYPE_CHECKING:
    from django_mcp.server.services.services import Services

MAX_ANSWER_BYTES = 1024 * 1024
"""Of the answer to one question of ours, which may have to be stored: sampling may return an image. Our own limit."""

logger = logging.getLogger("django_mcp")


async def take(
    server: Services, message: Notification | Response, exchange: Exchange
) -> Refusal | None:
    """Take a message that wants no answer; return why it is refused, if it is."""
    refusal = refuse_version(exchange.headers, server.revisions)
    if refusal is not None:
        return refusal
    if isinstance(message, Response):
        return await _take_response(server, message, exchange)
    if server.options.strict:
        refusal = _check(server, message, exchange)
        if refusal is not None:
            return refusal
    await _take_notification(server, message, exchange)
    return None


def _check(server: Services, message: Notification, exchange: Exchange) -> Refusal | None:
    header = exchange.headers.get(PROTOCOL_VERSION) if exchange.headers is not None else None
    revision = server.revisions.find(header)
    if revision is None and exchange.connection is not None:
        revision = exchange.connection.revision
    if revision is None and server.revisions.stateless:
        # On a pipe where hands were not shaken.
        revision = server.revisions.stateless[-1]
    return None if revision is None else check_params(message.method, message.params, revision)


async def _take_response(
    server: Services, response: Response, exchange: Exchange
) -> Refusal | None:
    """Hand a response to the request that waits for it; a response to no request is ignored.

    Where none can be expected, it is refused. Source: 2026-07-28 basic/transports, "the body is
    a single request or notification".
    """
    header = exchange.headers.get(PROTOCOL_VERSION) if exchange.headers is not None else None
    revision = server.revisions.find(header)
    if revision is not None and revision.is_stateless:
        return Refusal(code=INVALID_REQUEST, message="No response is expected", status=400)
    connection = exchange.connection
    if connection is None or response.id is None:
        return None
    answer = to_answer(response)
    refusal = _refuse_large(exchange, answer)
    if refusal is None and server.options.strict and connection.revision is not None:
        refusal = check_response(response, connection.revision)
    if refusal is not None:
        # The handler that asked does not wait any longer: it gets `AskFailed`.
        answer = {"error": {"code": refusal.code, "message": refusal.message}}
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
            return _TOO_MANY_ANSWERS[reached.scope]
    return refusal


_TOO_MANY_ANSWERS = {
    scope: Refusal(
        code=INVALID_REQUEST,
        message="Too many answers wait to be read: send this one again later",
        status=scope.value,
        headers=((b"retry-after", b"10"),),
    )
    for scope in Scope
}


def _refuse_large(exchange: Exchange, answer: JSONObject) -> Refusal | None:
    """Return the refusal of an answer that is larger than one may be; None when it is not."""
    # A batch may be larger than each answer in it.
    if len(exchange.body) <= MAX_ANSWER_BYTES or len(encode(answer)) <= MAX_ANSWER_BYTES:
        return None
    message = "The answer is larger than 1 MiB: send a smaller one"
    return Refusal(code=INVALID_REQUEST, message=message, status=413)


def to_answer(response: Response) -> JSONObject:
    """Return what a client answered in the form that an `AnswerBox` keeps."""
    if response.error is not None:
        return {"error": response.error}
    return {"result": response.result}


async def _take_notification(server: Services, message: Notification, exchange: Exchange) -> None:
    connection = exchange.connection
    if connection is None:
        # It changes no state, but an observer of notifications may want it.
        pass
    elif message.method == "notifications/initialized":
        if not connection.is_initialized:
            connection.is_initialized = True
            if isinstance(connection, Session):
                await server.sessions.save(connection)
    elif message.method == "notifications/cancelled":
        _cancel(server, connection, message.params)
    server.connection_observer.client_notification(connection, message.method, message.params)


def _cancel(server: Services, connection: ConnectionState, params: JSONObject) -> None:
    request_id = params.get("requestId")
    if request_id is None or not is_request_id(request_id):
        return
    running = server.hub.calls.find(connection, request_id)
    if running is not None:
        logger.info("Request cancelled by the client: %.200r", params.get("reason"))
        running.cancel("client")
    elif isinstance(connection, Session):
        server.hub.tell("session", key=connection.key, event="cancel", id=request_id)
