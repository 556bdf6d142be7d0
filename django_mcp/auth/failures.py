"""Count failed attempts to authenticate by address: a client that guesses has to wait.

Requests with valid credentials cost no query: each process remembers the addresses that must wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.execution.expiring import Expiring
from django_mcp.server.exchange.exchange import Exchange, Reply, refuse
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.request_checks import find_wait_s, too_many

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

MAX_WAITING = 10_000
"""Addresses that a process remembers; beyond that the first ones are forgotten."""


class FailedAttempts:
    """Refuses addresses that sent too many bad credentials to a server.

    `DJANGO_MCP["THROTTLE"]["failures"]` is the limit; nothing is counted without it.
    """

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self._waiting: Expiring[float] = Expiring(MAX_WAITING)

    def find_refusal(self, exchange: Exchange) -> Reply | None:
        """Return the refusal of an address that has to wait, whatever its credentials."""
        if not self._waiting or not exchange.address:
            return None
        until_s = self._waiting.get(network_of(exchange.address))
        wait_s = 0.0 if until_s is None else until_s - self._server.clock()
        return refuse(too_many(wait_s)) if wait_s > 0 else None

    async def count(self, exchange: Exchange) -> Reply | None:
        """Count one more failure; return the refusal if the limit is reached."""
        rate = self._server.derived.failures
        if rate is None or not exchange.address:
            return None
        network = network_of(exchange.address)
        try:
            wait_s = await find_wait_s(self._server, [(f"failures {network}", rate)])
        except StoreUnavailable as error:
            # Without a count, a client could continue guessing.
            return refuse(error.to_refusal())
        if wait_s is None:
            return None
        self._waiting.set(network, self._server.clock() + wait_s, wait_s)
        return refuse(too_many(wait_s))
