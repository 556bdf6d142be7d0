"""Clients as a site sees them: methods for synchronous code, and signals when they come, go or send something."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.dispatch import Signal

from django_mcp import signals
from django_mcp.execution.background import send_signal
from django_mcp.execution.pool import LoopPool
from django_mcp.log import logger
from django_mcp.process import PerProcess
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.push.loops import run_blocking
from django_mcp.registry.signatures import named
from django_mcp.server.clients import ClientMethods, SessionHandle, StreamHandle
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.quotas import Limits, QuotaMeter
from django_mcp.server.exchange.session import Session
from django_mcp.server.server import BaseServer
from django_mcp.server.streams.stream import PushStream

P = ParamSpec("P")
T = TypeVar("T")

WAITING_LIMITS = Limits(
    own_count=2500, own_bytes=16 * 1024 * 1024, count=10_000, bytes=64 * 1024 * 1024
)
"""Signals that wait for slow receivers, and the params in them, of one caller and of all. More are dropped,
with a line in the log."""


class _Courier:
    """Sends signals in one thread, so that they keep their order."""

    def __init__(self) -> None:
        self.pool = LoopPool(1, "django-mcp-signals")
        self._lock = threading.Lock()
        self._meter = QuotaMeter()

    def leave(
        self, send: Callable[[], object], size: int, quota_key: str, anonymous_share: float
    ) -> bool:
        """Send a signal of a caller later; return False if too many wait."""
        with self._lock:
            reached = self._meter.take(WAITING_LIMITS, quota_key, size, share=anonymous_share)
        if reached is None:
            self.pool.leave(partial(self._send, send, size, quota_key))
        return reached is None

    def _send(self, send: Callable[[], object], size: int, quota_key: str) -> None:
        with self._lock:
            self._meter.give_back(quota_key, size)
        send()


_courier = PerProcess(_Courier)


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the synchronous twin of a method."""

    def twin(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By its name, so that it may be overridden.
        twin_method: Callable[P, Coroutine[Any, Any, T]] = getattr(server, method.__name__)
        return run_blocking(twin_method)(*args, **kwargs)

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
        self._send(signals.session_opened, session.quota_key, session=session)

    def session_closed(self, session: Session, reason: str) -> None:
        self._send(signals.session_closed, session.quota_key, session=session, reason=reason)

    def stream_opened(self, stream: PushStream) -> None:
        self._send(signals.stream_opened, stream.quota_key, stream=stream)

    def stream_closed(self, stream: PushStream, reason: str) -> None:
        self._send(signals.stream_closed, stream.quota_key, stream=stream, reason=reason)

    def client_notification(
        self, connection: ConnectionState | None, method: str, params: JSONObject, quota_key: str
    ) -> None:
        session = connection if isinstance(connection, Session) else None
        sent = {"method": method, "params": params}
        size = len(encode(params)) if signals.client_notification.receivers else 0
        self._send(signals.client_notification, quota_key, size, session=session, **sent)
        if method == "notifications/roots/list_changed":
            self._send(signals.roots_list_changed, quota_key, session=session)

    def _send(self, signal: Signal, quota_key: str, size: int = 0, **values: Any) -> None:
        if not signal.receivers:
            return
        for name, value in values.items():
            if isinstance(value, Session):
                values[name] = SessionHandle.of(value)
            elif isinstance(value, PushStream):
                values[name] = StreamHandle.of(value)
        send = partial(send_signal, signal, self._server, **values)
        share = self._server.options.anonymous_share
        if not _courier.get().leave(send, size, quota_key, share):
            logger.warning("Receivers of signals are too slow: one was not sent")
