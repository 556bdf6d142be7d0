"""What watches the operations of a site's servers, by the settings."""

from __future__ import annotations

from importlib.util import find_spec

from django_mcp.conf import settings
from django_mcp.server.operations import Instrument
from django_mcp.server.ports import ConnectionObserver
from django_mcp.telemetry.propagation import Propagation


def has_library() -> bool:
    """Return whether opentelemetry-api is installed."""
    try:
        return find_spec("opentelemetry.trace") is not None
    except (ImportError, ValueError):
        return False


def find_instrument(
    observer: ConnectionObserver,
) -> tuple[Instrument | None, ConnectionObserver]:
    """Return what the settings ask for, and the observer of connections that belongs to it.

    Without the library there is nothing to watch with, which a check reports.
    """
    mode = settings.TELEMETRY
    is_native = mode == "native" and has_library()
    if not (is_native or settings.ACCESS_LOG):
        # Looking for the package does not import it, which the first trace of a client does.
        return (
            None if mode == "off" or find_spec("opentelemetry") is None else Propagation()
        ), observer
    # Loads the methods, which a process that only registers entries does not need.
    from django_mcp.telemetry.operation import Observer, WatchedConnections, Watching

    observers: list[Observer] = []
    if is_native:
        from django_mcp.telemetry.metrics import Metrics
        from django_mcp.telemetry.spans import Spans

        # The last one hears the end of an operation first, while its span is open.
        observers = [Spans(frozenset(settings.TELEMETRY_DETAILS)), Metrics()]
    if settings.ACCESS_LOG:
        from django_mcp.telemetry.access_log import AccessLog

        observers.append(AccessLog())
    watching = Watching(observers, Propagation() if mode == "propagate" else Instrument())
    return watching, WatchedConnections(observer, watching)
