"""Scope and rate-limit checks for the principal.

A failed check gets an error that says so. An entry that the principal may not see is unknown
instead; see `exchange.visibility`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from django_mcp.protocol.errors import TOO_MANY_REQUESTS, Refusal
from django_mcp.registry.access import Rate
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.exchange.quotas import network_of

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import Services

__all__ = [
    "find_wait_s",
    "refuse_rate",
    "refuse_scopes",
    "refuse_tool_rate",
    "too_many",
]


def refuse_scopes(server: Services, call: Call, *guarded: Entry | Handler) -> Refusal | None:
    """Return the challenge when a token is not good enough to use entries; None when it is."""
    offer = call.exchange.offer
    scopes: tuple[str, ...] = ()
    for each in guarded:
        scopes += offer.scopes_of(each)
    return server.access.refuse_scopes(call.exchange, scopes) if scopes else None


async def refuse_rate(server: Services, call: Call, rates: dict[str, Rate]) -> Refusal | None:
    """Return the refusal of one request too many of a principal or an address."""
    exchange = call.exchange
    counted = []
    key = server.access.identify(exchange.principal)
    if "principal" in rates and key is not None:
        counted.append((f"principal {key}", rates["principal"]))
    if "address" in rates and exchange.address:
        counted.append((f"address {network_of(exchange.address)}", rates["address"]))
    return await _refuse(server, counted) if counted else None


async def refuse_tool_rate(
    server: Services, call: Call, entry: ToolEntry, rate: Rate
) -> Refusal | None:
    """Return the refusal of one call too many of a tool by one principal.

    Anonymous callers are counted by IP address.
    """
    exchange = call.exchange
    key = server.access.identify(exchange.principal)
    who = f"address {network_of(exchange.address or '')}" if key is None else f"principal {key}"
    return await _refuse(server, [(f"tool {entry.name} {who}", rate)])


async def _refuse(server: Services, counted: Iterable[tuple[str, Rate]]) -> Refusal | None:
    wait_s = await find_wait_s(server, counted)
    return None if wait_s is None else too_many(wait_s)


async def find_wait_s(server: Services, counted: Iterable[tuple[str, Rate]]) -> float | None:
    """Count one more under each subject, by windows of the clock.

    Returns how many seconds to wait where that is one too many; None where it is not.
    """
    now = server.clock()
    limits, keys = [], []
    for subject, rate in counted:
        window = int(now // rate.period_s)
        text = "\n".join((server.options.name, subject, str(rate.period_s), str(window)))
        # Some caches take short plain keys only, and what a client sent is neither.
        keys.append((hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), rate.period_s))
        limits.append((rate.limit, (window + 1) * rate.period_s - now))
    counts = await server.counter.add(keys)
    waits = [wait_s for (limit, wait_s), count in zip(limits, counts, strict=True) if count > limit]
    return max(waits) if waits else None


def too_many(seconds: float) -> Refusal:
    """Return the refusal of one too many, with when to come back."""
    wait_s = max(1, math.ceil(seconds))
    return Refusal(
        code=TOO_MANY_REQUESTS,
        message=f"Too many requests: try again in {wait_s} s",
        data={"retryAfterS": wait_s},
        status=429,
        headers=((b"retry-after", b"%d" % wait_s),),
    )
