"""The ASGI entry point, which serves the endpoints in the URLconf and leaves the rest to the site."""

from __future__ import annotations

import gc
import inspect
from functools import cache
from typing import Any

from django_mcp.log import logger
from django_mcp.transports.http.replies import ASGIApp, reject_websocket

__all__ = ["ASGIApp", "django_mcp_application"]

UNTOLD = (
    "The server does not tell when it ends this process (the ASGI lifespan is off, or an application around "
    "django_mcp_application answers it), so the last records of calls may be lost"
)


def django_mcp_application(application: ASGIApp) -> ASGIApp:
    """Return an ASGI application that serves MCP at its paths in the URLconf, else `application`.

    Args:
        application: the site's, as `get_asgi_application()` returns it; it gets everything that is
            not a request to an MCP endpoint, lifespan and WebSocket included. WebSockets are rejected
            if it does not accept any. The lifespan is served also if it does not know that, as Django's.

    Raises:
        ImproperlyConfigured: `application` is none, the app is not installed, or clients could not find out where to get tokens.
    """
    from django.conf import settings
    from django.core.handlers.asgi import ASGIHandler
    from django.urls import set_script_prefix

    from django_mcp.endpoints.mounts import announce, find_match, wrapped
    from django_mcp.endpoints.well_known import require_authorization_servers
    from django_mcp.push.lifespan import Lifespan
    from django_mcp.registry.plain_types import make_conversions
    from django_mcp.serving import require_serving_app

    _check_application(application)
    require_serving_app()
    require_authorization_servers()
    announce()
    make_conversions()
    # Fixed for the life of a process, and too costly to look up in every request.
    forced_prefix: str = settings.FORCE_SCRIPT_NAME or ""

    # Django's own application raises an exception for a WebSocket, and so does a router of Channels
    # without a route for them.
    takes_websockets = not isinstance(application, ASGIHandler)
    protocols = getattr(application, "application_mapping", None)
    if protocols is not None:
        takes_websockets = "websocket" in protocols

    is_told = has_served = False

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        nonlocal is_told, has_served
        kind = scope["type"]
        if kind == "lifespan":
            is_told = True
            await Lifespan(receive, send).serve(application, scope)
            return
        if kind not in ("http", "websocket"):
            await application(scope, receive, send)
            return
        prefix = forced_prefix or scope.get("root_path") or ""
        path: str = scope["path"]
        match = find_match(path.removeprefix(prefix) if prefix else path)
        if kind == "websocket" and (match is not None or not takes_websockets):
            await reject_websocket(scope, receive, send)
            return
        if match is None:
            await application(scope, receive, send)
            return
        if prefix:
            # For handlers that reverse URLs, as Django does for views.
            set_script_prefix(prefix)
        endpoint, kwargs = match
        if kwargs:
            scope = {**scope, "url_route": {"args": (), "kwargs": kwargs}}
        await endpoint(scope, receive, send)
        if not has_served:
            has_served = True
            freeze_heap()
            _warn_if_untold(scope, is_told=is_told)

    wrapped.add(serve)
    return serve


def _check_application(application: Any) -> None:
    from django.core.exceptions import ImproperlyConfigured

    try:
        inspect.signature(application).bind(None, None, None)
    except (TypeError, ValueError):
        raise ImproperlyConfigured(
            f"django_mcp_application() takes an ASGI application, not {application!r:.100}. Write "
            "django_mcp_application(get_asgi_application())."
        ) from None


def _warn_if_untold(scope: Any, *, is_told: bool) -> None:
    # Daphne knows no lifespan, and its process exits as others do. It names no version.
    if not is_told and "spec_version" in scope.get("asgi", ()):
        logger.warning(UNTOLD)


@cache
def freeze_heap() -> None:
    """Exclude modules, the site and the registry from garbage collection, on the first call.

    A full collection walks through all of them while the event loop waits: 50 ms for a small site,
    and under load one in every 1,500 calls. They are never garbage. Objects are still freed when
    nothing refers to them, except for cycles; see `gc.freeze`.
    """
    from django_mcp.conf import settings

    if settings.GC_FREEZE:
        # Current garbage would stay for ever.
        gc.collect()
        gc.freeze()
