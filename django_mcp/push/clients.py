"""Clients as a site sees them: methods for synchronous code, and signals when they come, go or send something."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.dispatch import Signal

from django_mcp import signals
from django_mcp.execution.background import send_signal
from django_mcp.execution.pool import FairQueue, LoopPool, QueueFull
from django_mcp.log import logger
from django_mcp.process import PerProcess
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.push.loops import run_blocking
from django_mcp.registry.signatures import named
from django_mcp.server.clients import ClientMethods, SessionHandle, StreamHandle
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.exchange.session import Session
from django_mcp.server.server import BaseServer
from django_mcp.server.streams.stream import PushStream

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING_BYTES = 64 * 1024 * 1024
WAITING_LIMITS = Limits(
    own_count=10_000, own_bytes=MAX_WAITING_BYTES, count=10_000, bytes=MAX_WAITING_BYTES
)
"""Signals that wait for slow receivers, and the params in them. More are dropped, with a line in the log."""

# One thread, so that they keep their order.
_courier = PerProcess(lambda: LoopPool(1, "django-mcp-signals", waiting=FairQueue(WAITING_LIMITS)))


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the synchronous twin of a method."""

    def twin(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, so that it may be overridden.
        found: Callable[P, Coroutine[Any, Any, T]] = getattr(server, method.__name__)
        return run_blocking(found)(*args, **kwargs)

    return named(twin, method.__name__.removeprefix("a"), like=method, owner="SiteClientMethods")


class SiteClientMethods:
    """The part of a site's server that has `ClientMethods` for synchronous code.

    The methods that concern other processes raise `RuntimeError` where an event loop runs: await
    their twins there. They write on connections of their own, so that other processes see it at
    once. In a transaction that has written to the same rows, or to SQLite at all, they would wait
    for the transaction and fail after five seconds: call them after the commit
    (`transaction.on_commit`).
    """

    open_streams = _blocking(ClientMethods.aopen_streams)
    connected_sessions = _blocking(ClientMethods.aconnected_sessions)
    is_subscribed = _blocking(ClientMethods.ais_subscribed)
    close_stream = _blocking(ClientMethods.aclose_stream)
    close_session = _blocking(ClientMethods.aclose_session)
    close_sessions = _blocking(ClientMethods.aclose_sessions)
    ping_client = _blocking(ClientMethods.aping_client)
    cancel_request = _blocking(ClientMethods.acancel_request)


class SignalObserver:
    """Send signals from a separate thread, in order; see `ConnectionObserver`."""

    def __init__(self, server: BaseServer) -> None:
        self._server = server

    def session_opened(self, session: Session) -> None:
        self._send(signals.session_opened, session=session)

    def session_closed(self, session: Session, reason: str) -> None:
        self._send(signals.session_closed, session=session, reason=reason)

    def stream_opened(self, stream: PushStream) -> None:
        self._send(signals.stream_opened, stream=stream)

    def stream_closed(self, stream: PushStream, reason: str) -> None:
        self._send(signals.stream_closed, stream=stream, reason=reason)

    def client_notification(
        self, connection: ConnectionState | None, method: str, params: JSONObject
    ) -> None:
        session = connection if isinstance(connection, Session) else None
        sent = {"method": method, "params": params}
        size = len(encode(params)) if signals.client_notification.receivers else 0
        self._send(signals.client_notification, size, session=session, **sent)
        if method == "notifications/roots/list_changed":
            self._send(signals.roots_list_changed, session=session)

    def _send(self, signal: Signal, size: int = 0, **values: Any) -> None:
        if not signal.receivers:
            return
        for name, value in values.items():
            if isinstance(value, Session):
                values[name] = SessionHandle.of(value)
            elif isinstance(value, PushStream):
                values[name] = StreamHandle.of(value)
        try:
            _courier.get().leave(partial(send_signal, signal, self._server, **values), size)
        except QueueFull:
            logger.warning("Receivers of signals are too slow: one was not sent")
