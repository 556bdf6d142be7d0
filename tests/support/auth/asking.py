"""Authenticate a request as a transport does: by its headers alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from unittest.mock import patch

from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp.auth.recheck import recheck
from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.exchange import Exchange, Reply

LIMIT_S = 20.0
Lines = Mapping[str, str] | Iterable[tuple[str, str]]


def exchange_with(
    headers: Lines = (),
    *,
    method: str = "POST",
    path: str = "/mcp",
    query: str = "",
    host: str = "testserver",
) -> Exchange:
    """Return the exchange that a transport makes of a request with these headers."""
    given = headers.items() if isinstance(headers, Mapping) else headers
    lines = [("host", host), ("content-type", "application/json"), *given]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "scheme": "https",
        "server": ("testserver", 443),
    }
    return Exchange(
        headers=Headers(raw),
        caller=Caller(address="192.0.2.1", build_request=lambda: ASGIRequest(scope, BytesIO(b""))),
    )


def ask(server: Any, exchange: Exchange) -> Reply | None:
    """Return the rejection; None if the principal is set."""
    authenticate = server.engine.authenticate
    return None if authenticate is None else async_to_sync(authenticate)(exchange)


def admit(server: Any, headers: Lines = (), **surroundings: Any) -> Any:
    """Return the principal of a request that must be accepted."""
    exchange = exchange_with(headers, **surroundings)
    refusal = ask(server, exchange)
    assert refusal is None, refusal.body
    return exchange.caller.principal


def refuse(server: Any, headers: Lines = (), **surroundings: Any) -> Reply:
    """Return the rejection of a request that must not be accepted."""
    exchange = exchange_with(headers, **surroundings)
    refusal = ask(server, exchange)
    assert refusal is not None
    assert not exchange.caller.principal.is_authenticated
    return refusal


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def challenges_of(reply: Reply) -> list[str]:
    """Return the WWW-Authenticate headers of the reply."""
    return [value.decode() for name, value in reply.headers if name == b"www-authenticate"]


@contextmanager
def queries(number: int) -> Iterator[None]:
    """Fail unless so many statements reach the database; the savepoints of a test case do not count."""
    with CaptureQueriesContext(connection) as captured:
        yield
    found = [each["sql"] for each in captured if "SAVEPOINT" not in each["sql"]]
    assert len(found) == number, found


async def arecheck_until(
    is_enough: Callable[[set[Any]], bool], principals: Sequence[Any]
) -> set[Any]:
    """Recheck credentials as a process does, but repeatedly; return the last result."""
    # On a busy machine a round can take seconds, and the pause after it longer than the limit.
    with patch("django_mcp.auth.recheck.PAUSE", 0):
        async with asyncio.timeout(LIMIT_S):
            while not is_enough(ended := await recheck(principals)):
                pass
    return ended


recheck_until = async_to_sync(arecheck_until)
