"""Count the large answers to a request, and large messages ahead of them, from their encoding until they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.pending import PART_BYTES, PendingBytes, lock
from django_mcp.server.exchange.quotas import QuotaScope
from django_mcp.server.options import Options


def count_answer(
    exchange: Exchange, size: int, options: Options, *, is_whole: bool = False
) -> QuotaScope | None:
    """Count an encoded answer to a request until `release_answers`; return the limit that is reached.

    A handler's thread counts its result at once: many could wait for the event loop. Nothing counts for
    a request that is over, and in process.

    Args:
        exchange: the request; its answer may be one of a batch.
        size: in bytes.
        is_whole: it is all of the answer, so what was counted for parts of it is in it.
    """
    channel = exchange.channel.batch or exchange.channel
    if not channel.counts_answers:
        return None
    with lock:
        pending = channel.pending
        if pending is None:
            pending = channel.pending = PendingBytes(exchange.caller.quota_key, options)
        before = pending.size if is_whole else 0
        pending.give_back(before - size)
        scope = pending.add(size - before)
        # Another thread may have ended the request meanwhile, which mypy does not know.
        has_ended: bool = not channel.counts_answers
        if has_ended:
            pending.close()
    return scope


def release_answers(exchange: Exchange) -> None:
    """Count the answers to a request no longer, and none that a thread still encodes for it."""
    channel = exchange.channel
    channel.counts_answers = False
    if channel.pending is not None:
        channel.pending.close()


async def send_ahead(
    exchange: Exchange,
    message: bytes,
    options: Options,
    send: Callable[[bytes], Awaitable[None]],
) -> bool:
    """Send a message ahead of the answer to a request; return False if a limit is reached.

    A large message counts until the client has read it, as an answer does. Nothing counts in process.
    """
    channel = exchange.channel.batch or exchange.channel
    if len(message) <= PART_BYTES or not channel.counts_answers:
        await send(message)
        return True
    pending = PendingBytes(exchange.caller.quota_key, options)
    if pending.add(len(message)) is not None:
        return False
    try:
        await send(message)
    finally:
        pending.close()
    return True
