"""The async ORM behind real servers: it survives its connection, and calls do not wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends, connect, own_postgres
from tests.support.sessions.cluster import Cluster, serving
from tests.support.wire import V2026_07_28, headers_for, message

SITE = "tests.support.site.execution"
LIMIT_S = 20.0


@pytest.fixture(scope="module")
def database(postgres: tuple[str, int]) -> Iterator[str]:
    with own_postgres("handlers", SITE) as name:
        with connect(name) as connection:
            connection.execute("INSERT INTO auth_group (name) VALUES ('clerks')")
        yield name


class Caller:
    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http, self._url = http, url

    async def call(
        self, tool: str, arguments: dict[str, Any] | None = None, group: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return the status, and the result or the error."""
        request = message(
            "tools/call", {"name": tool, "arguments": arguments or {}}, revision=V2026_07_28
        )
        headers = headers_for(request, V2026_07_28)
        if group is not None:
            headers["authorization"] = f"Bearer {group}"
        response = await self._http.post(self._url, json=request, headers=headers)
        body = response.json()
        return response.status_code, body.get("result") or body["error"]


@asynccontextmanager
async def calling(site: Cluster) -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(timeout=LIMIT_S) as http:
        yield Caller(http, site.url())


def cut_connections(name: str) -> int:
    """End every session of the database on the server's side; return how many there were."""
    with connect("postgres") as connection:
        found = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s",
            [name],
        ).fetchone()
    return found[0] if found else 0


@pytest.mark.services
@pytest.mark.parametrize(("server", "max_age"), [("uvicorn", "60"), ("daphne", "60")])
async def test_the_async_orm_recovers_from_lost_connections(
    database: str, tmp_path: Path, server: str, max_age: str
) -> None:
    backends = Backends(postgres=database, more={"SITE_CONN_MAX_AGE": max_age})
    with serving(backends, tmp_path, site=SITE, server=server, count=1) as site:
        async with calling(site) as caller, asyncio.timeout(LIMIT_S):
            before = [await caller.call("groups"), await caller.call("groups", group="clerks")]
            assert cut_connections(database) > 0
            # The first call may hit a lost connection; no later call does.
            for group in (None, "clerks", None, "clerks"):
                await caller.call("groups", group=group)
            after = [await caller.call("groups"), await caller.call("groups", group="clerks")]

    assert [found.get("content") for _, found in before] == [
        [{"type": "text", "text": '["clerks"]'}],
        [{"type": "text", "text": '["clerks"]'}],
    ]
    assert after == before
