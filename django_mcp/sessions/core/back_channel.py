"""The server's requests to a client of a handshake revision."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import ProtocolError, Refusal, invalid_request
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import Response, encode_notification, encode_request, to_ask_id
from django_mcp.server.asking.questions import ask_params
from django_mcp.server.exchange.answers import send_ahead
from django_mcp.server.exchange.call import AskFailed, CannotAsk, NoAnswer
from django_mcp.server.exchange.channel import Sink
from django_mcp.server.exchange.connection import Asked, ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import QuotaReached
from django_mcp.server.exchange.session import Session
from django_mcp.server.ports import ResponseRelay
from django_mcp.server.services import ServedCall, ServerHub, Services
from django_mcp.server.streams.process_messages import PingClient, ResponseStored
from django_mcp.server.streams.upkeep import take_pong
from django_mcp.sessions.core.resumable_streams import ResumableSink

POLL_S = 2.0
"""How often the store is asked for a response, since the message about it may have been lost."""

INITIALIZED_WITHIN_S = 3.0
"""How long `initialized` may take that was sent just before or after the call."""

LOOK_S = 0.2

MAX_ANSWER_BYTES = 1024 * 1024
"""Of one response, which may have to be stored: sampling may return an image."""

_TENANT = "tenant"
"""The key of the tenant that a response came from."""

_WITHDRAWN = "withdrawn"
"""The key, in place of a response, of the reason why the request was cancelled."""


async def ask_client(
    call: ServedCall, asks: Mapping[str, Ask], meta: JSONObject | None = None
) -> tuple[dict[str, Any], dict[str, AskFailed]]:
    """Ask the client all questions at once; return its answers, and why there are none, by key.

    An answer is the result as the client sent it. Raises `CannotAsk` before `initialized` has come.
    """
    await _await_initialized(call, asks)
    outcomes = await asyncio.gather(
        *(
            request_client(
                call,
                ask.method,
                ask_params(ask, call.rules, meta),
                timeout_s=call.options.ask_timeout_s,
                request_id=ask.request_id,
            )
            for ask in asks.values()
        ),
        return_exceptions=True,
    )
    known: dict[str, Any] = {}
    failed: dict[str, AskFailed] = {}
    for key, outcome in zip(asks, outcomes, strict=True):
        if isinstance(outcome, NoAnswer):
            failed[key] = AskFailed(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        elif "error" in outcome:
            message, code = outcome["error"].get("message"), outcome["error"].get("code")
            text = f"The client refused to answer: {message!s:.500}"
            failed[key] = AskFailed(text, code if type(code) is int else None)
        else:
            known[key] = outcome.get("result")
    return known, failed


async def request_client(
    call: ServedCall,
    method: str,
    params: JSONObject | None,
    *,
    timeout_s: float,
    request_id: str | None = None,
) -> JSONObject:
    """Send the client a request on the stream of a call, and return its response.

    Raises:
        NoAnswer: none came in time, or the request was withdrawn; the client was sent a cancellation.
            See `expect_response` as well.
        InvalidQuestion: in strict mode, the question is not valid.
    """
    exchange, connection = call.exchange, call.connection
    if call.options.strict and connection.revision is not None:
        from django_mcp.server.exchange.strict import check_question

        check_question(method, params, connection.revision)
    if exchange.channel.server_request is not None:
        try:
            async with asyncio.timeout(timeout_s):
                return {"result": await exchange.channel.server_request(method, params)}
        except TimeoutError:
            raise NoAnswer(_TOO_LATE) from None
        except ProtocolError as error:
            return {"error": {"code": error.code, "message": error.message}}
    sink = exchange.channel.sink
    if sink is None:
        raise NoAnswer("Nothing leads back to the client")
    ask_id = request_id or to_ask_id(method, uuid.uuid4().hex)
    tenant = exchange.caller.tenant
    async with expect_response(call.server, connection, ask_id, timeout_s, tenant) as wait:
        message = encode_request(ask_id, method, params)
        if not await send_ahead(exchange, message, call.options, partial(_send, sink)):
            raise NoAnswer(_TOO_LARGE)
        try:
            response = await wait()
        except TimeoutError:
            await _send_cancelled(sink, ask_id, "No longer waited for")
            raise NoAnswer(_TOO_LATE) from None
        except asyncio.CancelledError:
            await _send_cancelled(sink, ask_id, "No longer waited for")
            raise
        if _WITHDRAWN in response:
            await _send_cancelled(sink, ask_id, response[_WITHDRAWN])
            raise NoAnswer("What the client was asked was cancelled before it answered")
        return response


@asynccontextmanager
async def expect_response(
    server: Services,
    connection: ConnectionState,
    ask_id: str,
    timeout_s: float,
    tenant: str | None = None,
) -> AsyncIterator[Callable[[], Awaitable[JSONObject]]]:
    """Accept the response to a request in the block, from whichever process it arrives at.

    One that comes from another tenant is ignored, unless `tenant` is None.

    Yields a function that waits for it, or raises `TimeoutError` after `timeout_s`. Raises `NoAnswer`
    if a request with this id is not answered yet, or too many are not.
    """
    if ask_id in connection.asked:
        raise NoAnswer(_IN_USE)
    waiting: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
    asked = connection.asked[ask_id] = Asked(waiting, tenant)
    session = connection if isinstance(connection, Session) else None
    is_expected = False

    async def wait() -> JSONObject:
        async with asyncio.timeout(timeout_s):
            relay = server.ports.pending_responses.relay
            if session is None or relay is None:
                return await waiting
            while not (await asyncio.wait((waiting,), timeout=POLL_S))[0]:
                await _fetch(server, relay, session, ask_id, asked)
            return waiting.result()

    try:
        if session is not None:
            server.join_hub()
            try:
                is_expected = await server.ports.pending_responses.expect(
                    session, ask_id, timeout_s
                )
            except QuotaReached:
                raise NoAnswer(_TOO_MANY) from None
            if not is_expected:
                raise NoAnswer(_IN_USE)
        yield wait
    finally:
        del connection.asked[ask_id]
        if session is not None and is_expected:
            await server.ports.pending_responses.forget(session, ask_id)


async def _fetch(
    server: Services, relay: ResponseRelay, session: Session, ask_id: str, asked: Asked
) -> None:
    """Take a response from the store, if it has arrived there."""
    response = await relay.take(session, ask_id)
    if response is None or asked.response.done():
        return
    if _is_answered(asked, response):
        asked.response.set_result(response)
        return
    # The store keeps the first response only.
    await server.ports.pending_responses.forget(session, ask_id)
    with suppress(QuotaReached):
        await server.ports.pending_responses.expect(session, ask_id, server.options.ask_timeout_s)


def _is_answered(asked: Asked, response: JSONObject) -> bool:
    """Return whether a response is from the tenant where the client was asked, or the server's own."""
    return asked.tenant is None or _WITHDRAWN in response or asked.tenant == response.get(_TENANT)


def _take_stored_response(hub: ServerHub, message: ResponseStored) -> None:
    """Fetch a response that arrived at another process, if this one waits for it."""
    server, session = hub.servers.get(message.server), hub.sessions.get(message.session)
    if server is None or session is None:
        return
    asked, relay = session.asked.get(message.id), server.ports.pending_responses.relay
    if relay is not None and asked is not None and not asked.response.done():
        hub.spawn(_fetch(server, relay, session, message.id, asked))


def receive_stored_responses(hub: ServerHub) -> None:
    """Have a hub fetch the responses that arrive at other processes."""
    hub.on(ResponseStored, partial(_take_stored_response, hub))


_TOO_LATE = "The client was asked and did not answer in time"
_TOO_MANY = (
    "The client cannot be asked now, since too many questions wait for an answer: answer some of them, "
    "or try again when they have expired (ASK_TIMEOUT_S)"
)
_TOO_LARGE = (
    "The client cannot be asked now, since it has too many unread bytes: read some of them, or try again "
    "later"
)
_IN_USE = "The client was asked under this id already and has not answered yet"


async def withdraw(
    server: Services, connection: ConnectionState, request_id: str, reason: str
) -> bool:
    """Cancel a request to the client, in whichever process it waits; return whether one waited.

    The client is sent a cancellation, and the waiting call gets `NoAnswer`.
    """
    asked, answer = connection.asked.get(request_id), {_WITHDRAWN: reason}
    if asked is not None:
        if not asked.response.done():
            asked.response.set_result(answer)
            return True
    elif isinstance(connection, Session):
        return await pass_on(server, connection, request_id, answer)
    return False


async def pass_on(server: Services, session: Session, ask_id: str, response: JSONObject) -> bool:
    """Store a response for another process; return whether one waits for it."""
    relay = server.ports.pending_responses.relay
    is_expected = relay is not None and await relay.put(session, ask_id, response)
    if is_expected:
        server.hub.broadcast(ResponseStored(server=server.name, session=session.key, id=ask_id))
    return is_expected


async def _send_cancelled(sink: Sink, ask_id: str, reason: str) -> None:
    # Source: 2025-11-25 basic/utilities/cancellation: the requestor says it stops waiting.
    params = {"requestId": ask_id, "reason": reason}
    await _send(sink, encode_notification("notifications/cancelled", params))


async def _send(sink: Sink, message: bytes) -> None:
    if isinstance(sink, ResumableSink):
        await sink.send(message, is_recorded=True)
    else:
        await sink.send(message)


async def _await_initialized(call: ServedCall, asks: Mapping[str, Ask]) -> None:
    """Wait until the client may be asked something, or raise `CannotAsk`.

    The notification may come after the call, or to another process.
    Source: 2025-11-25 basic/lifecycle "Initialization": pings and log messages only before it.
    """
    connection, clock = call.connection, asyncio.get_running_loop().time
    until_s = clock() + INITIALIZED_WITHIN_S
    while True:
        if isinstance(connection, Session) and not connection.is_initialized:
            # Reading the session updates the object.
            await call.server.ports.sessions.get(connection.key)
        if connection.is_initialized:
            return
        if clock() >= until_s:
            raise CannotAsk(
                "This needs to ask you something, and a client can be asked only when it has sent "
                "notifications/initialized.",
                next((ask.capability for ask in asks.values()), {}),
            )
        await asyncio.sleep(LOOK_S)


async def take_response(server: Services, response: Response, exchange: Exchange) -> Refusal | None:
    """Pass a response to the request that waits for it, or return a refusal; others are ignored."""
    connection = exchange.connection
    if connection is None or response.id is None:
        return None
    error = response.error
    answer: JSONObject = {"result": response.result} if error is None else {"error": error}
    refusal = None
    # A batch may be larger than each answer in it.
    if len(exchange.body) > MAX_ANSWER_BYTES and len(encode(answer)) > MAX_ANSWER_BYTES:
        refusal = invalid_request("The answer is larger than 1 MiB: send a smaller one", 413)
    elif server.options.strict and connection.revision is not None:
        from django_mcp.server.exchange.strict import check_response

        refusal = check_response(response, connection.revision)
    if refusal is not None:
        # The handler that asked stops waiting: it gets `AskFailed`.
        answer = {"error": refusal.to_error()}
    answer[_TENANT] = exchange.caller.tenant
    asked = connection.asked.get(response.id)
    if asked is not None:
        if not asked.response.done() and _is_answered(asked, answer):
            asked.response.set_result(answer)
    elif isinstance(connection, Session) and isinstance(response.id, str):
        if take_pong(server.hub, connection.key, response.id):
            return refusal
        await pass_on(server, connection, response.id, answer)
    return refusal


async def ping_session(server: Services, session: Session, timeout_s: float) -> bool:
    """Ping the client of a session on its standalone stream; return whether it answered in time."""
    ask_id = f"ask-{uuid.uuid4().hex}"
    hub = server.join_hub()
    try:
        async with expect_response(server, session, ask_id, timeout_s) as wait:
            hub.hand_over(PingClient(session=session.key, id=ask_id))
            await wait()
    except (NoAnswer, TimeoutError):
        return False
    return True
