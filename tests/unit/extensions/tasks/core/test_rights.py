"""The rights with which a task runs."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp.protocol.json import encode
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import Requirements, VisibleEntries
from django_mcp.server.memory import OpenAccess
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.tasks import Gate, Modern
from tests.support.wire import V2026_07_28, message


class Access(OpenAccess):
    """Notes for which callers rights were looked up."""

    def __init__(self) -> None:
        self.of_tenants: list[bool] = []

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        self.of_tenants.append(exchange.caller.is_of_tenant)
        return super().find_visible(exchange, requirements)


@pytest.mark.parametrize("is_of_tenant", [True, False])
async def test_the_rights_of_a_tenant_stay_apart_in_a_task(
    server: MCPServer, gate: Gate, is_of_tenant: bool
):
    access, meta = Access(), Modern(server).meta
    use_ports(server, access=access)
    request = message(
        "tools/call", {"name": "wait", "arguments": {}, "_meta": meta}, revision=V2026_07_28
    )
    exchange = Exchange(
        encode(request),
        caller=Caller(is_of_tenant=is_of_tenant),
        channel=Channel(can_stream=True),
    )

    await server.engine.answer(exchange)
    await asyncio.wait_for(gate.has_begun.wait(), 10)
    gate.may_go_on.set()

    # Of the request, and of the run of its task.
    assert access.of_tenants == [is_of_tenant] * 2
