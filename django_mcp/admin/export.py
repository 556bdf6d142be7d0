"""Calls as CSV: streamed, limited in number, and with no cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from django_mcp.admin.texts import inert
from django_mcp.execution.threads import run_in_pool

MAX_ROWS = 100_000
AT_ONCE = 1000

COLUMNS = (
    "started_at",
    "duration_ms",
    "server",
    "method",
    "name",
    "outcome",
    "error",
    "reference",
    "user_id",
    "principal",
    "session",
    "revision",
    "client_name",
    "client_version",
    "arguments",
)

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def export(request: HttpRequest, calls: QuerySet[Any]) -> StreamingHttpResponse:
    """Return the newest of these calls as a CSV document."""
    keys = list(calls.values_list("pk", flat=True)[:MAX_ROWS])
    batches = [keys[at : at + AT_ONCE] for at in range(0, len(keys), AT_ONCE)]
    name = f"calls-{timezone.now():%Y-%m-%d}.csv"
    return StreamingHttpResponse(
        _stream_async(calls, batches)
        if isinstance(request, ASGIRequest)
        else _stream(calls, batches),
        content_type="text/csv; charset=utf-8",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}"',
        },
    )


def _stream(calls: QuerySet[Any], batches: Sequence[list[Any]]) -> Iterator[bytes]:
    yield _encode([COLUMNS])
    for batch in batches:
        yield _read(calls, batch)


async def _stream_async(calls: QuerySet[Any], batches: Sequence[list[Any]]) -> AsyncIterator[bytes]:
    yield _encode([COLUMNS])
    for batch in batches:
        yield await run_in_pool(partial(_read, calls, batch))


def _read(calls: QuerySet[Any], keys: list[Any]) -> bytes:
    rows = calls.model._default_manager.filter(pk__in=keys).order_by("-started_at", "-pk")
    return _encode(rows.values_list(*COLUMNS))


def _encode(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(each) for each in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    shown = inert(value)
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown
