"""Clients that stop reading a stream: their queued messages are bounded on every server."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

from tests.live.transports.http.test_real_server import ask, call, messages_of
from tests.support.http.rawhttp import RawClient, connect
from tests.support.sites import Running

READERS = 3
COUNT = 400
SIZE_BYTES = 64 * 1024
MOST = 200
"""Messages that may be on their way: what the kernel takes of both ends, and what we may keep."""


async def poured(site: Running, name: str) -> int:
    answer = await ask(site, call("/flood", "poured", {"name": name}))
    return int(answer.json["result"]["content"][0]["text"])


async def until_it_stands_still(site: Running, names: list[str]) -> list[int]:
    """Return how many messages each call has sent once they send no more."""
    async with asyncio.timeout(60):
        seen: list[list[int]] = []
        while len(seen) < 5 or seen[-5:].count(seen[-1]) < 5 or 0 in seen[-1]:
            seen.append([await poured(site, name) for name in names])
        return seen[-1]


async def begin(site: Running, client: RawClient, name: str) -> None:
    arguments: dict[str, Any] = {"name": name, "count": COUNT, "size": SIZE_BYTES}
    level: dict[str, Any] = {"io.modelcontextprotocol/logLevel": "info"}
    await client.send(call("/flood", "pour", arguments, **level))
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]


async def test_a_call_pauses_while_its_reader_is_stalled(site: Running):
    """On Daphne too, whose own `send` never waits."""
    names = [f"reader {number}" for number in range(READERS)]
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(site.host, site.port)) for _ in names]
        for client, name in zip(clients, names, strict=True):
            await begin(site, client, name)
        sent = await until_it_stands_still(site, names)
        clients[0].writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            response = await clients[0].read_head()
            response.body = b"".join([chunk async for chunk in clients[0].chunks()])
        # Clients that disconnect without reading do not block others.

    assert max(sent) <= MOST
    messages = messages_of(response)
    assert len(messages) == COUNT + 1
    assert json.dumps(messages[-1]["result"]["content"]).count("poured") == 1
    assert await poured(site, names[0]) == COUNT
