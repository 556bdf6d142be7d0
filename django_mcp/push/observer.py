"""SignalObserver: tells the receivers of our signals what becomes of connections."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp import signals
from django_mcp.protocol.json import JSONObject
from django_mcp.server.asking.clients import SessionHandle, StreamHandle
from django_mcp.server.exchange.connection import Session

if TYPE_CHECKING:
    from django.dispatch import Signal

    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.server import MCPServer
    from django_mcp.server.streams.stream import PushStream

__all__ = ["SignalObserver", "flush_signals"]

logger = logging.getLogger("django_mcp")

MAX_WAITING = 10_000
"""Signals that wait for slow receivers; what is more is dropped, with a line in the log. Our own limit."""


class SignalObserver:
    """Send signals from a thread of their own, in order; see `ConnectionObserver`.

    What nobody listens to costs a look at a list.
    """

    def __init__(self, server: MCPServer) -> None:
        self._server = server

    def session_opened(self, session: Session) -> None:
        """See `ConnectionObserver`."""
        if signals.session_opened.receivers:
            self._send(signals.session_opened, session=_handle(session))

    def session_closed(self, session: Session, reason: str) -> None:
        """See `ConnectionObserver`."""
        if signals.session_closed.receivers:
            self._send(signals.session_closed, session=_handle(session), reason=reason)

    def stream_opened(self, stream: PushStream) -> None:
        """See `ConnectionObserver`."""
        if signals.stream_opened.receivers:
            self._send(signals.stream_opened, stream=StreamHandle.of(stream))

    def stream_closed(self, stream: PushStream, reason: str) -> None:
        """See `ConnectionObserver`."""
        if signals.stream_closed.receivers:
            self._send(signals.stream_closed, stream=StreamHandle.of(stream), reason=reason)

    def client_notification(
        self, connection: ConnectionState | None, method: str, params: JSONObject
    ) -> None:
        """See `ConnectionObserver`."""
        session = _handle(connection) if isinstance(connection, Session) else None
        if signals.client_notification.receivers:
            self._send(signals.client_notification, session=session, method=method, params=params)
        if method == "notifications/roots/list_changed" and signals.roots_list_changed.receivers:
            self._send(signals.roots_list_changed, session=session)

    def _send(self, signal: Signal, **values: Any) -> None:
        _courier.put(partial(_send, signal, self._server, values))


def _handle(session: Session) -> SessionHandle:
    return SessionHandle.of(session, has_stream=False)


def _send(signal: Signal, server: MCPServer, values: dict[str, Any]) -> None:
    from django_mcp.handlers.db_connections import run_with_connections

    def send() -> None:
        for receiver, answer in signal.send_robust(sender=server, **values):
            if isinstance(answer, Exception):
                logger.error("A receiver of a signal failed: %r", receiver, exc_info=answer)

    run_with_connections(send)


class _Courier:
    """The thread of this process that receivers run in, and what waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    def put(self, work: partial[None]) -> None:
        with self._lock:
            if self._waiting >= MAX_WAITING:
                logger.warning("Receivers of signals are too slow: one was not sent")
                return
            self._waiting += 1
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, thread_name_prefix="django-mcp-signals")
        self._threads.submit(self._work, work)

    def _work(self, work: partial[None]) -> None:
        try:
            work()
        except Exception:
            logger.exception("Could not send a signal")
        finally:
            with self._lock:
                self._waiting -= 1

    def flush(self) -> None:
        if self._threads is not None:
            self._threads.submit(int).result()


_courier = _Courier()


def flush_signals() -> None:
    """Return when the signals sent so far have reached their receivers; for tests."""
    _courier.flush()


def _renew() -> None:
    # The thread stayed behind in the parent process.
    global _courier
    _courier = _Courier()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
