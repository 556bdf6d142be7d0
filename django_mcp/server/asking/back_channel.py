"""Our own requests to a client of a handshake revision, and the wait for its answers.

They travel on the stream of the request that is being answered; the answer comes with a request of
its own, perhaps at another process.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification, encode_request
from django_mcp.protocol.revisions import Revision, lower
from django_mcp.server.asking.readiness import await_initialized
from django_mcp.server.delivery.resumption import CallStream
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Exchange, ServerRequest, Sink
from django_mcp.server.exchange.quotas import QuotaReached
from django_mcp.server.exchange.rounds import AskFailed
from django_mcp.server.exchange.strict import check_question, to_ask_id

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import ServerHub, Services

POLL_S = 2.0
"""How often the store is asked for an answer whose notice may have been lost."""


_WITHDRAWN = "withdrawn"
"""In place of an answer: why it is waited for no longer."""


class NoAnswer(Exception):
    """A client gave no answer; the text says why."""


async def ask_client(
    server: Services, call: Call, asks: Mapping[str, Ask], meta: JSONObject | None = None
) -> dict[str, Any | AskFailed]:
    """Put questions to the client, all at once, and return its answers by key, or why there is none.

    An answer is the result as the client sent it.

    Raises:
        CannotAsk: the client has not said yet that it may be asked anything.
    """
    await await_initialized(call.connection, server.sessions, asks)
    waits = {
        key: asyncio.ensure_future(
            request_client(
                server,
                call.exchange,
                call.connection,
                ask.method,
                ask_params(ask, call.rules, meta),
                timeout_s=call.options.ask_timeout_s,
                request_id=ask.request_id,
            )
        )
        for key, ask in asks.items()
    }
    try:
        outcomes = await asyncio.gather(*waits.values(), return_exceptions=True)
    except asyncio.CancelledError:
        for wait in waits.values():
            wait.cancel()
        raise
    found: dict[str, Any | AskFailed] = {}
    for key, outcome in zip(waits, outcomes, strict=True):
        if isinstance(outcome, NoAnswer):
            found[key] = AskFailed(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        elif "error" in outcome:
            found[key] = AskFailed.of(outcome["error"])
        else:
            found[key] = outcome.get("result")
    return found


def ask_params(ask: Ask, revision: Revision, meta: JSONObject | None = None) -> JSONObject | None:
    """Return the params of a question as a revision writes them, with `_meta` if there is any."""
    params = ask.params
    if meta:
        params = {**(params or {}), "_meta": meta}
    if params is None:
        return None
    if ask.kind == "url":
        params = {"elicitationId": ask.elicitation_id or uuid.uuid4().hex, **params}
    return lower(ask.method, params, revision)


async def request_client(
    server: Services,
    exchange: Exchange,
    connection: ConnectionState,
    method: str,
    params: JSONObject | None,
    *,
    timeout_s: float,
    request_id: str | None = None,
) -> JSONObject:
    """Send the client a request on the way that an exchange has to it, and return its answer.

    Raises:
        NoAnswer: none came in time, or the request was withdrawn; the client was told that it is
            waited for no longer. Or another request with this id is not answered yet, or too many are not.
        BrokenRules: in strict mode, what is asked does not keep to the rules.
    """
    if server.options.strict and connection.revision is not None:
        check_question(method, params, connection.revision)
    if exchange.server_request is not None:
        return await _request_by_function(exchange.server_request, method, params, timeout_s)
    sink = exchange.sink
    if sink is None:
        raise NoAnswer("Nothing leads back to the client")
    ask_id = request_id or to_ask_id(method, uuid.uuid4().hex)
    message = encode_request(ask_id, method, params)
    return await _request_on_stream(server, sink, connection, ask_id, message, timeout_s)


async def _request_on_stream(
    server: Services,
    sink: Sink,
    connection: ConnectionState,
    ask_id: str,
    message: bytes,
    timeout_s: float,
) -> JSONObject:
    if ask_id in connection.asked:
        raise NoAnswer(_IN_USE)
    waiting: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
    connection.asked[ask_id] = waiting
    session = connection if isinstance(connection, Session) else None
    is_ours = True
    try:
        if session is not None:
            server.join_hub()
            server.hub.on("answered", partial(take_answered, server.hub))
            is_ours = False
            try:
                is_ours = await server.answers.expect(session, ask_id, timeout_s)
            except QuotaReached:
                raise NoAnswer(_TOO_MANY) from None
            if not is_ours:
                raise NoAnswer(_IN_USE)
        await _send(sink, message)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await _wait(server, session, ask_id, waiting)
        except TimeoutError:
            await _tell_cancelled(sink, ask_id, "No longer waited for")
            raise NoAnswer(_TOO_LATE) from None
        except asyncio.CancelledError:
            await _tell_cancelled(sink, ask_id, "No longer waited for")
            raise
        if _WITHDRAWN in answer:
            await _tell_cancelled(sink, ask_id, answer[_WITHDRAWN])
            raise NoAnswer("What the client was asked was cancelled before it answered")
        return answer
    finally:
        del connection.asked[ask_id]
        if session is not None and is_ours:
            await server.answers.forget(session, ask_id)


async def _request_by_function(
    request: ServerRequest, method: str, params: JSONObject | None, timeout_s: float
) -> JSONObject:
    try:
        async with asyncio.timeout(timeout_s):
            return {"result": await request(method, params)}
    except TimeoutError:
        raise NoAnswer(_TOO_LATE) from None
    except ProtocolError as error:
        return {"error": {"code": error.code, "message": error.message}}


_TOO_LATE = "The client was asked and did not answer in time"
_TOO_MANY = (
    "The client cannot be asked now, since too many questions wait for an answer: answer some of them, "
    "or try again when they have expired (ASK_TIMEOUT_S)"
)
_IN_USE = "The client was asked under this id already and has not answered yet"


async def withdraw(
    server: Services, connection: ConnectionState, request_id: str, reason: str
) -> bool:
    """Stop waiting for the response to a server request; return whether one was awaited.

    The waiting call, in any process, tells the client and gets `NoAnswer`.
    """
    waiting, answer = connection.asked.get(request_id), {_WITHDRAWN: reason}
    if waiting is not None:
        if not waiting.done():
            waiting.set_result(answer)
            return True
    elif isinstance(connection, Session):
        return await pass_on(server, connection, request_id, answer)
    return False


async def pass_on(server: Services, session: Session, ask_id: str, answer: JSONObject) -> bool:
    """Leave a response for another process; return whether one waits for it."""
    is_waited_for = await server.answers.put(session, ask_id, answer)
    if is_waited_for:
        server.hub.tell("answered", server=server.name, session=session.key, id=ask_id)
    return is_waited_for


async def _tell_cancelled(sink: Sink, ask_id: str, reason: str) -> None:
    # Source: 2025-11-25 basic/utilities/cancellation: the requestor says it stops waiting.
    params = {"requestId": ask_id, "reason": reason}
    await _send(sink, encode_notification("notifications/cancelled", params))


async def ping_back(server: Services, call: Call, timeout_s: float) -> float | None:
    """Ping the client on the stream of a request; return the seconds until it answered, if it did."""
    if not call.has_back_channel:
        return None
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    try:
        await request_client(
            server, call.exchange, call.connection, "ping", None, timeout_s=timeout_s
        )
    except NoAnswer:
        return None
    return loop.time() - begun_s


async def _send(sink: Sink, message: bytes) -> None:
    if isinstance(sink, CallStream):
        await sink.send_recorded(message)
    else:
        await sink.send(message)


async def _wait(
    server: Services, session: Session | None, ask_id: str, waiting: asyncio.Future[JSONObject]
) -> JSONObject:
    if session is None:
        return await waiting
    while True:
        done, _ = await asyncio.wait((waiting,), timeout=POLL_S)
        if done:
            return waiting.result()
        answer = await server.answers.take(session, ask_id)
        if answer is not None:
            return answer


def take_answered(hub: ServerHub, message: JSONObject) -> None:
    """Fetch an answer that arrived at another process, if it is waited for in this one."""
    server = hub.servers.get(message["server"])
    if server is None:
        return
    session = hub.sessions.get(message["session"])
    waiting = session.asked.get(message["id"]) if session is not None else None
    if session is not None and waiting is not None and not waiting.done():
        asyncio.get_running_loop().create_task(_fetch(server, session, message["id"], waiting))


async def _fetch(
    server: Services, session: Session, ask_id: str, waiting: asyncio.Future[JSONObject]
) -> None:
    answer = await server.answers.take(session, ask_id)
    if answer is not None and not waiting.done():
        waiting.set_result(answer)
