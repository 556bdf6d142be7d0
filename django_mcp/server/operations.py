"""Operations: what dispatch calls for each message, and the one place where an instrument joins a server.

Without an instrument an engine calls the functions of `dispatch` themselves, so that a call costs nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Malformed, Notification, Request, Response
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply

Outcome: TypeAlias = bytes | Refusal | None
"""The encoded result of a call or its refusal; None: it was cancelled."""

Authenticate: TypeAlias = Callable[[Exchange], Awaitable[Reply | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The functions that dispatch calls. The first argument is the `Services`, or the `ServedCall`.

    Attributes:
        answer: returns the reply to a request.
        take: returns the reply to a message that gets no response.
        run: runs an admitted request, inside of `answer`.
        run_task: runs a task, given what `carry` returned when the call became a task.
        carry: returns what a task stores of the trace of its call; None: nothing.
    """

    answer: Callable[[Any, Request, Exchange], Coroutine[Any, Any, Reply]]
    take: Callable[[Any, Notification | Response | Malformed, Exchange], Coroutine[Any, Any, Reply]]
    run: Callable[[Any, Any, ConnectionState | None], Coroutine[Any, Any, Outcome]]
    run_task: Callable[
        [Any, JSONObject | None, Coroutine[Any, Any, Outcome]], Coroutine[Any, Any, Outcome]
    ]
    carry: Callable[[], JSONObject | None]


class Instrument:
    """Watches the operations of servers. What a subclass does not override costs nothing."""

    def watch(self, plain: Operations) -> Operations:
        """Return the operations that a new engine calls in place of `plain`."""
        return plain

    def watch_authentication(self, _server: Any, authenticate: Authenticate) -> Authenticate:
        """Return what authenticates the requests of a server in place of `authenticate`."""
        return authenticate

    def refused(self, server: Any, reply: Reply) -> None:
        """Note that a request over HTTP was refused with a status of 400 or more."""
