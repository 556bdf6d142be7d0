"""Streams of changes, as a test hears them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.inprocess import MCPError
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.push import Change
from django_mcp.test import AsyncMCPClient, MCPTestCase
from tests.kit.site import make_server

NAMES = [revision.name for revision in REVISIONS]
SERVER = make_server()


def changed(server: MCPServer, **what: Any) -> int:
    return server.hub.announce(Change(server=server.name, **what))


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest) -> AsyncMCPClient:
    return AsyncMCPClient(make_server(), revision=request.param)


async def test_changes_are_heard_while_other_calls_go_on(client: AsyncMCPClient):
    async with client.listen("kit://1/page") as changes:
        changed(client.server, list="tools")
        assert (await changes.next())["method"] == "notifications/tools/list_changed"
        assert (await client.call("add", a=1)).text == "2"
        changed(client.server, uri="kit://2/page")
        changed(client.server, uri="kit://1/page")
        assert (await changes.next())["params"]["uri"] == "kit://1/page"

    assert len(changes.heard) == 2
    assert changed(client.server, list="tools") == 0


async def test_only_the_resources_are_heard_of_when_subscribed_to(client: AsyncMCPClient):
    async with client.subscribe("kit://1/page") as changes:
        changed(client.server, list="tools")
        changed(client.server, uri="kit://1/page")

        async for change in changes:
            assert change["params"]["uri"] == "kit://1/page"
            break

        with pytest.raises(TimeoutError):
            await changes.next(timeout_s=0.01)


async def test_a_stream_that_cannot_be_opened_says_why():
    server = make_server(max_streams=1)

    async with AsyncMCPClient(server).listen():
        with pytest.raises(MCPError, match="No further stream"):
            async with AsyncMCPClient(server).listen():
                pass
        with pytest.raises(MCPError, match="No further stream"):
            async with AsyncMCPClient(server, revision=NAMES[-2]).listen():
                pass


class InATestCase(MCPTestCase):
    mcp_server = SERVER

    async def test_an_asynchronous_test_listens(self) -> None:
        async with self.async_mcp.listen() as changes:
            await asyncio.sleep(0)
            changed(SERVER, list="prompts")
            assert (await changes.next())["method"] == "notifications/prompts/list_changed"
