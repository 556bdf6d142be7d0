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
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification, encode_request
from django_mcp.protocol.revisions import Revision, lower
from django_mcp.server.connection import ConnectionState
from django_mcp.server.exchange import Exchange, Sink
from django_mcp.server.replay import CallStream
from django_mcp.server.sessions import Session

if TYPE_CHECKING:
    from django_mcp.server.context import Context
    from django_mcp.server.hub import Hub
    from django_mcp.server.server import MCPServer

POLL_S = 2.0
"""How often the store is asked for an answer whose notice may have been lost."""


class NoAnswer(Exception):
    """A client did not answer in time."""


async def ask_client(
    ctx: Context[Any], asks: Mapping[str, Ask], meta: JSONObject | None = None
) -> JSONObject:
    """Put questions to the client, all at once, and return its answers by key.

    An answer is `{"result": ...}` or `{"error": ...}`, as the client sent it; one that did not
    come in time is left out.
    """
    waits = {
        key: asyncio.ensure_future(
            request_client(
                ctx.server,
                ctx.exchange,
                ctx.connection,
                ask.method,
                ask_params(ask, ctx.rules, meta),
                timeout_s=ctx.options.ask_timeout_s,
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
    found: JSONObject = {}
    for key, outcome in zip(waits, outcomes, strict=True):
        if isinstance(outcome, NoAnswer):
            continue
        if isinstance(outcome, BaseException):
            raise outcome
        found[key] = outcome
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
    server: MCPServer,
    exchange: Exchange,
    connection: ConnectionState,
    method: str,
    params: JSONObject | None,
    *,
    timeout_s: float,
) -> JSONObject:
    """Send the client a request on the stream of an exchange, and return its answer.

    Raises:
        NoAnswer: none came in time; the client was told that it is waited for no longer.
    """
    sink = exchange.sink
    if sink is None:
        raise NoAnswer
    ask_id = f"ask-{uuid.uuid4().hex}"
    waiting: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
    connection.asked[ask_id] = waiting
    session = connection if isinstance(connection, Session) else None
    try:
        if session is not None:
            server.join_hub()
            server.hub.on("answered", partial(take_answered, server.hub))
            await server.answers.expect(session, ask_id, timeout_s)
        await _send(sink, encode_request(ask_id, method, params))
        try:
            async with asyncio.timeout(timeout_s):
                return await _wait(server, session, ask_id, waiting)
        except (TimeoutError, asyncio.CancelledError) as error:
            # Source: 2025-11-25 basic/utilities/cancellation: the requestor says it stops waiting.
            params = {"requestId": ask_id, "reason": "No longer waited for"}
            await _send(sink, encode_notification("notifications/cancelled", params))
            if isinstance(error, TimeoutError):
                raise NoAnswer from None
            raise
    finally:
        del connection.asked[ask_id]
        if session is not None:
            await server.answers.forget(session, ask_id)


async def ping_back(ctx: Context[Any], timeout_s: float) -> float | None:
    """Ping the client on the stream of a request; return the seconds until it answered, if it did."""
    if not ctx.has_back_channel:
        return None
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    try:
        await request_client(
            ctx.server, ctx.exchange, ctx.connection, "ping", None, timeout_s=timeout_s
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
    server: MCPServer, session: Session | None, ask_id: str, waiting: asyncio.Future[JSONObject]
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


def take_answered(hub: Hub, message: JSONObject) -> None:
    """Fetch an answer that arrived at another process, if it is waited for in this one."""
    server = hub.servers.get(message["server"])
    if server is None:
        return
    session = hub.sessions.get(message["session"])
    waiting = session.asked.get(message["id"]) if session is not None else None
    if session is not None and waiting is not None and not waiting.done():
        asyncio.get_running_loop().create_task(_fetch(server, session, message["id"], waiting))


async def _fetch(
    server: MCPServer, session: Session, ask_id: str, waiting: asyncio.Future[JSONObject]
) -> None:
    answer = await server.answers.take(session, ask_id)
    if answer is not None and not waiting.done():
        waiting.set_result(answer)
