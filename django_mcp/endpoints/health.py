"""Health checks for load balancers: whether the process is alive and, with `?ready`, ready.

It is ready if its databases respond and not all of its threads are blocked. Liveness only needs
the event loop. Neither reveals anything about the site.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from django.db import Error, connections
from django.http import HttpRequest, HttpResponse

from django_mcp.execution.threads import find_pool_states, run_in_pool
from django_mcp.process import Sharing
from django_mcp.protocol.json import encode
from django_mcp.transports.http.view import EndpointView

READY_TIMEOUT_S = 5.0
"""A database that has not responded by then counts as down. Our own limit."""

_METHODS = ("GET", "HEAD")


_questions: Sharing[bool] = Sharing()
"""Anonymous callers may ask, so concurrent requests share one check of the databases."""


async def _look() -> bool:
    # Tasks may have to wait for a thread, but calls should not.
    state = find_pool_states().get("SYNC_THREADS")
    if state is not None and state.is_exhausted:
        return False
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return await run_in_pool(_ask_databases)
    except TimeoutError:
        return False


def _ask_databases() -> bool:
    try:
        for connection in connections.all():
            if connection.settings_dict["ENGINE"] == "django.db.backends.dummy":
                continue
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1" + connection.features.bare_select_suffix)
    except Error:
        return False
    return True


class HealthView(EndpointView):
    """The view of the health check: 200, or 503 if the databases do not respond."""

    def __init__(self) -> None:
        super().__init__(serve_health)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        return await _respond(request.method or "", request.META.get("QUERY_STRING", ""))


async def serve_health(scope: Any, _receive: Any, send: Any) -> None:
    """Respond to a health check over ASGI, as the view does."""
    response = await _respond(scope["method"], scope.get("query_string", b"").decode("latin-1"))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


async def _respond(method: str, query: str) -> HttpResponse:
    if method not in _METHODS:
        status, text = 405, "method not allowed"
    elif "ready" not in parse_qs(query, keep_blank_values=True) or await _questions.ask(
        "ready", _look
    ):
        status, text = 200, "ok"
    else:
        status, text = 503, "unavailable"
    body = encode({"status": text})
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Content-Length": str(len(body)),
        **({"Allow": ", ".join(_METHODS)} if status == 405 else {}),
    }
    return HttpResponse(b"" if method == "HEAD" else body, status=status, headers=headers)
