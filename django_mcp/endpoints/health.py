"""Health checks for load balancers: whether the process is alive and, with `?ready`, ready.

It is ready if its databases respond and not all of its threads are blocked. Liveness only needs
the event loop. Neither reveals anything about the site.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import markcoroutinefunction
from django.db import Error, connections
from django.http import HttpRequest, HttpResponse

from django_mcp.handlers.threads import find_pool_states, run_in_pool
from django_mcp.protocol.json import encode
from django_mcp.sessions.single_flight import Sharing
from django_mcp.transports.http.view import MCPView

__all__ = ["HealthView", "serve_health"]

READY_TIMEOUT_S = 5.0
"""A database that has not responded by then counts as down. Our own limit."""

_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]


async def _examine(method: str, query: str) -> _Answer:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    if method not in _METHODS:
        body = encode({"status": "method not allowed"})
        return _Answer(status=405, body=body, headers={**headers, "Allow": ", ".join(_METHODS)})
    is_well = "ready" not in parse_qs(query, keep_blank_values=True) or await _is_ready()
    body = encode({"status": "ok" if is_well else "unavailable"})
    return _Answer(status=200 if is_well else 503, body=body, headers=headers)


_questions: Sharing[bool] = Sharing()
"""Anonymous callers may ask, so concurrent requests share one check of the databases."""


async def _is_ready() -> bool:
    return await _questions.ask("ready", _look)


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


class HealthView:
    """The plain Django view. The ASGI wrapper responds instead, without the site's middleware."""

    csrf_exempt = True
    login_required = False

    _non_atomic_requests = MCPView._non_atomic_requests

    def __init__(self) -> None:
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        """Return 200, or 503 if the databases do not respond."""
        answer = await _examine(request.method or "", request.META.get("QUERY_STRING", ""))
        body = b"" if request.method == "HEAD" else answer.body
        return HttpResponse(body, status=answer.status, headers=dict(answer.headers))


async def serve_health(
    scope: Mapping[str, Any], _receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Respond to one HTTP request over ASGI, as the view does."""
    answer = await _examine(scope["method"], scope.get("query_string", b"").decode("latin-1"))
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
    headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
