"""Scope and rate-limit checks for the principal.

A failed check gets an error that says so. An entry that the principal may not see is unknown
instead; see `exchange.visibility`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from django_mcp.protocol.errors import TOO_MANY_REQUESTS, Refusal, try_later
from django_mcp.registry.access import Rate
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import key_of
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.services.services import Services


def refuse_scopes(server: Services, call: Call, *guarded: Entry | Handler) -> Refusal | None:
    """Return the challenge for the scopes of entries that a token lacks, or None."""
    visible = call.exchange.visible
    scopes: tuple[str, ...] = ()
    for each in guarded:
        scopes += visible.scopes_of(each)
    return server.access.refuse_scopes(call.exchange, scopes) if scopes else None


async def refuse_rate(server: Services, call: Call, rates: dict[str, Rate]) -> Refusal | None:
    """Count a request of a principal and an address; return the refusal over a limit, or None."""
    exchange = call.exchange
    counted = []
    key = key_of(exchange.principal)
    if "principal" in rates and key is not None:
        counted.append((f"principal {key}", rates["principal"]))
    if "address" in rates and exchange.address:
        counted.append((f"address {network_of(exchange.address)}", rates["address"]))
    return await _refuse(server, counted) if counted else None


async def refuse_tool_rate(
    server: Services, call: Call, entry: ToolEntry, rate: Rate
) -> Refusal | None:
    """Count a call of a tool by one principal, or by the address of an anonymous caller."""
    exchange = call.exchange
    key = key_of(exchange.principal)
    who = f"address {network_of(exchange.address or '')}" if key is None else f"principal {key}"
    return await _refuse(server, [(f"tool {entry.name} {who}", rate)])


async def _refuse(server: Services, counted: Iterable[tuple[str, Rate]]) -> Refusal | None:
    wait_s = await find_wait_s(server, counted)
    return None if wait_s is None else too_many(wait_s)


async def find_wait_s(server: Services, counted: Iterable[tuple[str, Rate]]) -> float | None:
    """Count one more for each subject, in fixed windows of the clock.

    Returns the seconds to wait if a limit is exceeded, or None.
    """
    now = server.clock()
    limits, keys = [], []
    for subject, rate in counted:
        window = int(now // rate.period_s)
        text = "\n".join((server.options.name, subject, str(rate.period_s), str(window)))
        # Some caches accept only short plain keys, and what a client sent is neither.
        keys.append((hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), rate.period_s))
        limits.append((rate.limit, (window + 1) * rate.period_s - now))
    counts = await server.counter.add(keys)
    waits = [wait_s for (limit, wait_s), count in zip(limits, counts, strict=True) if count > limit]
    return max(waits) if waits else None


def too_many(seconds: float) -> Refusal:
    """Return the refusal of a request over a rate limit, with the time to wait."""
    wait_s = max(1, math.ceil(seconds))
    message = f"Too many requests: try again in {wait_s} s"
    data = {"retryAfterS": wait_s}
    return try_later(message, wait_s, code=TOO_MANY_REQUESTS, status=429, data=data)
