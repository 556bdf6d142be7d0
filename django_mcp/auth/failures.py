"""Failed attempts to authenticate, counted by address: a client that guesses has to wait.

Nothing is counted for those who are known. Where an address has to wait is remembered in the
process, so that looking costs them nothing either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.protocol.messages import encode_error
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.scopes_and_rates import find_wait_s, too_many
from django_mcp.server.services.session_lookup import NO_STORE

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["FailedAttempts"]

MAX_WAITING = 10_000
"""Addresses that are kept waiting in a process; beyond that those who came first are forgotten."""


class FailedAttempts:
    """Keeps addresses waiting that presented too many bad credentials to a server.

    `DJANGO_MCP["THROTTLE"]["failures"]` says how many are too many; nothing is counted without it.
    """

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self._waiting: dict[str, float] = {}

    def find_refusal(self, exchange: Exchange) -> Reply | None:
        """Return the refusal of an address that has to wait, whatever it presents."""
        if not self._waiting or not exchange.address:
            return None
        until_s = self._waiting.get(network_of(exchange.address))
        wait_s = 0.0 if until_s is None else until_s - self._server.clock()
        return _refuse(wait_s) if wait_s > 0 else None

    async def count(self, exchange: Exchange) -> Reply | None:
        """Count one more; return the refusal when it was one too many."""
        rate = self._server.derived.failures
        if rate is None or not exchange.address:
            return None
        network = network_of(exchange.address)
        try:
            wait_s = await find_wait_s(self._server, [(f"failures {network}", rate)])
        except StoreUnavailable:
            # Without a count, guessing could go on.
            return Reply(503, encode_error(None, NO_STORE), NO_STORE.headers)
        if wait_s is None:
            return None
        self._waiting.pop(network, None)
        self._waiting[network] = self._server.clock() + wait_s
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return _refuse(wait_s)


def _refuse(wait_s: float) -> Reply:
    refusal = too_many(wait_s)
    return Reply(refusal.status or 429, encode_error(None, refusal), refusal.headers)
