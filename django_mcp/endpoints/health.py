"""Health for load balancers: is the process alive, and with `?ready` can it serve calls?

It is ready when its databases answer and its threads are not all held by work that does not end.

Liveness asks nothing but the event loop. Neither says anything of the site to strangers.
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
"""A database that has not answered by then is taken for down; ours."""

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
"""Strangers may ask: all who ask at the same time share one look at the databases."""


async def _is_ready() -> bool:
    return await _questions.ask("ready", _look)


async def _look() -> bool:
    # Tasks may well wait for a thread; calls should not.
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
    """The plain Django view. The ASGI wrapper answers in its place, without the site's middleware."""

    csrf_exempt = True
    login_required = False

    _non_atomic_requests = MCPView._non_atomic_requests

    def __init__(self) -> None:
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        """Answer 200, or 503 when the databases were asked and do not answer."""
        answer = await _examine(request.method or "", request.META.get("QUERY_STRING", ""))
        body = b"" if request.method == "HEAD" else answer.body
        return HttpResponse(body, status=answer.status, headers=dict(answer.headers))


async def serve_health(
    scope: Mapping[str, Any], _receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Answer one HTTP request over ASGI, as the view does."""
    answer = await _examine(scope["method"], scope.get("query_string", b"").decode("latin-1"))
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
    headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
