"""A PostgreSQL outage, closed or silent: clear errors, no pile-up, and quick recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends
from tests.support.sessions.client import Client, connected
from tests.support.sessions.cluster import Cluster, serving
from tests.support.sessions.proxy import Proxy, proxied

HEALED_S = 5.0
CROWD = 60
ENDED_S = 20.0


@pytest.fixture
def proxy(postgres: tuple[str, int]) -> Iterator[Proxy]:
    """The proxy between the site and its database."""
    with proxied(*postgres) as found:
        yield found


@pytest.fixture
def site(shared: Backends, proxy: Proxy, tmp_path: Path) -> Iterator[Cluster]:
    more = {"PGHOST": "127.0.0.1", "PGPORT": str(proxy.port)}
    backends = Backends(postgres=shared.postgres, redis=shared.redis, more=more)
    with serving(backends, tmp_path) as found:
        yield found


def modern(client: Client, method: str, **params: Any) -> Any:
    """Send a request that has no session."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = client.request(method, {**params, "_meta": meta})
    return client.send(
        message,
        mcp_protocol_version="2026-07-28",
        mcp_session_id=None,
        mcp_method=method,
        mcp_name=params.get("name"),
    )


async def ping(client: Client, at: int = 0) -> httpx.Response:
    return await client.send(client.request("ping"), at=at)


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_a_database_outage_gets_clear_errors_and_recovers(
    site: Cluster, proxy: Proxy, how: str
) -> None:
    async with connected(site, user="ann") as client, connected(site, user="bob") as late:
        assert (await ping(client, at=1)).status_code == 200
        getattr(proxy, how)()
        async with asyncio.timeout(ENDED_S):
            for at in (0, 1):
                # A process caches a session for a moment.
                while (await ping(client, at=at)).status_code == 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            refused = await asyncio.gather(*(ping(client, at=n % 2) for n in range(CROWD)))
            opening = await late.send(
                late.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}),
                mcp_session_id=None,
            )
            listed = await modern(client, "tools/list")
            called = await modern(client, "tools/call", name="count_users", arguments={})
        proxy.heal()
        async with asyncio.timeout(HEALED_S):
            for at in (0, 1):
                while (await ping(client, at=at)).status_code != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            counted = await client.call("count_users")
        async with client.begin("ask_dataclass", at=0) as asking:
            question = await asking.message()
            await client.respond(question, {"action": "accept", "content": {"name": "red"}}, at=1)
            *_, last = await asking.rest()

    assert {answer.status_code for answer in refused} == {503}
    assert all("retry-after" in answer.headers for answer in refused)
    assert opening.status_code == 503
    assert listed.status_code == 200
    assert called.status_code == 200
    assert called.json()["result"]["isError"] is True
    assert "127.0.0.1" not in called.text
    assert counted == "0"
    assert last["result"]["content"][0]["text"] == "red"
