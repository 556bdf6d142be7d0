"""Answer messages that the caller reads and writes itself, without a transport of this package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange, ServerRequest

if TYPE_CHECKING:
    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.exchange.exchange import Reply

__all__ = ["Embedding", "TextSink"]

TextSink: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes one JSON-RPC message as text."""


class Embedding:
    """The part of a server that answers messages of any origin."""

    if TYPE_CHECKING:

        async def answer(self, exchange: Exchange) -> Reply: ...

    async def handle(
        self, message: JSONObject, exchange: Exchange | None = None
    ) -> JSONObject | None:
        """Answer one parsed message; return None when there is nothing to answer.

        Args:
            message: a JSON-RPC message.
            exchange: its surroundings; without one the caller is anonymous and gets no messages
                ahead of the answer.
        """
        exchange = exchange or Exchange()
        exchange.body = encode(message)
        reply = await self.answer(exchange)
        answer: JSONObject | None = None if reply.body is None else decode(reply.body)
        return answer

    async def handle_raw(
        self,
        text: str | bytes,
        *,
        connection: ConnectionState | None = None,
        sink: TextSink | None = None,
        server_request: ServerRequest | None = None,
        principal: Any = ANONYMOUS,
    ) -> str:
        """Answer one message or batch given as text; return `""` when there is nothing to answer.

        Text that is no message is answered with an error without an id.

        Args:
            text: a message, or a batch where the connection's revision has them.
            connection: the state of a connection that outlives this call; `initialize` settles
                its revision. Without one each message speaks for itself.
            sink: an async function that takes messages ahead of the answer, such as progress.
            server_request: an async function that sends the client a request (method and params)
                and returns the result. `ctx.elicit`, `ctx.sample` and `ctx.list_roots` use it at
                revisions with a handshake; it needs a `connection`. A `ProtocolError` that it raises
                counts as the client's refusal. It is cancelled after `ASK_TIMEOUT_S`.
            principal: on whose behalf.
        """
        exchange = Exchange(
            body=text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"),
            connection=connection,
            sink=None if sink is None else _FunctionSink(sink),
            can_stream=sink is not None,
            server_request=server_request,
            principal=principal,
        )
        reply = await self.answer(exchange)
        return "" if reply.body is None else reply.body.decode()


class _FunctionSink:
    """A `Sink` that hands each message to a function."""

    def __init__(self, function: TextSink) -> None:
        self._function = function

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """Hand the message over as text."""
        await self._function(message.decode())

    async def prime(self, event_id: str | None) -> None:
        """Do nothing: there is no stream to open."""

    async def hang_up(self, retry_ms: int) -> None:
        """Do nothing: there is no stream to close."""
