"""SignalObserver: sends the package's signals about sessions, streams and clients' notifications."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp import signals
from django_mcp.execution.background import send_signal
from django_mcp.execution.fair_queue import FairQueue, QueueFull
from django_mcp.execution.pool import LoopPool
from django_mcp.process import PerProcess
from django_mcp.protocol.json import JSONObject
from django_mcp.server.asking.clients import SessionHandle, StreamHandle
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.streams.stream import PushStream

if TYPE_CHECKING:
    from django.dispatch import Signal

    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.server import MCPServer

logger = logging.getLogger("django_mcp")

WAITING_LIMITS = Limits(own_count=10_000, own_bytes=0, count=10_000, bytes=0)
"""Signals that wait for slow receivers. More are dropped, with a line in the log. Our own limit."""


class SignalObserver:
    """Send signals from a separate thread, in order; see `ConnectionObserver`."""

    def __init__(self, server: MCPServer) -> None:
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
        self._send(signals.client_notification, session=session, method=method, params=params)
        if method == "notifications/roots/list_changed":
            self._send(signals.roots_list_changed, session=session)

    def _send(self, signal: Signal, **values: Any) -> None:
        if not signal.receivers:
            return
        given = {name: _to_public(value) for name, value in values.items()}
        try:
            _courier.get().leave(partial(send_signal, signal, self._server, **given))
        except QueueFull:
            logger.warning("Receivers of signals are too slow: one was not sent")


def _to_public(value: Any) -> Any:
    if isinstance(value, Session):
        return SessionHandle.of(value, has_stream=False)
    return StreamHandle.of(value) if isinstance(value, PushStream) else value


# One thread, so that they keep their order.
_courier = PerProcess(lambda: LoopPool(1, "django-mcp-signals", waiting=FairQueue(WAITING_LIMITS)))


def flush_signals() -> None:
    """Return when the signals sent so far have reached their receivers; for tests."""
    done = threading.Event()
    _courier.get().leave(done.set)
    done.wait()
