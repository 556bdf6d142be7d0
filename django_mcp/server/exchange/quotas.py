"""Quotas: limits on what a server stores and has open, for each caller and for all together.

A caller is the user with all of their clients and keys, or the principal if it has no account on this site,
or the address if it is anonymous.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from django_mcp.protocol.errors import Refusal, invalid_params, try_later

_ADDRESS = "address "
_ALL = "*"
_ANONYMOUS = "anonymous"


def quota_key_of(principal_key: str | None, address: str | None) -> str:
    """Return the key of the quota of a caller without a user; anonymous ones without an IP address share one."""
    if principal_key is not None:
        return f"principal {principal_key}"
    return _ADDRESS + network_of(address or "")


def is_anonymous_quota(quota_key: str) -> bool:
    """Return whether a quota is one of an anonymous caller."""
    return quota_key.startswith(_ADDRESS)


def share_of(limit: int, share: float) -> int:
    """Return the part of a limit that anonymous callers may use together; at least 1."""
    return max(1, int(limit * share))


class QuotaScope(Enum):
    """Whose limit is reached, with its HTTP status: one caller's, or that of all together."""

    OWN = 429
    ALL = 503


@dataclass(eq=False)
class QuotaReached(Exception):
    """A limit is reached."""

    scope: QuotaScope


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The maximum number of something and of its bytes: of one caller, and of all together."""

    own_count: int
    own_bytes: int = 0
    count: int
    bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CountLimits:
    """The maximum number of something: in all, of anonymous callers together, and of one caller."""

    total: int
    anonymous: int
    each: int

    @classmethod
    def of(cls, total: int, each: int, anonymous_share: float) -> CountLimits:
        """Return limits of which anonymous callers may use a share."""
        return cls(total=total, anonymous=share_of(total, anonymous_share), each=each)


class QuotaMeter:
    """Counts things of callers and their bytes in a process. It is not safe for threads."""

    def __init__(self) -> None:
        # Count and bytes, by quota key; in all; and of anonymous callers together.
        self._used: dict[str, tuple[int, int]] = {}

    def find_reached(
        self, limits: Limits, quota_key: str, size: int, *, count: int = 1, share: float = 1.0
    ) -> QuotaScope | None:
        """Return whose limit things of `size` bytes together would exceed; None: nobody's."""
        if self._is_over(quota_key, count, size, limits.own_count, limits.own_bytes):
            return QuotaScope.OWN
        most, most_bytes = limits.count, limits.bytes
        is_over = self._is_over(_ALL, count, size, most, most_bytes)
        if not is_over and is_anonymous_quota(quota_key):
            most, most_bytes = share_of(most, share), share_of(most_bytes, share)
            is_over = self._is_over(_ANONYMOUS, count, size, most, most_bytes)
        return QuotaScope.ALL if is_over else None

    def take(
        self, limits: Limits, quota_key: str, size: int, *, count: int = 1, share: float = 1.0
    ) -> QuotaScope | None:
        """Count things of `size` bytes together, unless a limit is reached; return whose it is."""
        scope = self.find_reached(limits, quota_key, size, count=count, share=share)
        if scope is None:
            self.add(quota_key, size, count=count)
        return scope

    def give_back(self, quota_key: str, size: int, *, count: int = 1) -> None:
        """Count things no longer."""
        self.add(quota_key, -size, count=-count)

    def add(self, quota_key: str, size: int, *, count: int) -> None:
        """Count things whatever the limits."""
        for key in (quota_key, _ALL, _ANONYMOUS)[: 2 + is_anonymous_quota(quota_key)]:
            used = self._used.pop(key, (0, 0))
            now = (used[0] + count, used[1] + size)
            if now != (0, 0):
                self._used[key] = now

    def _is_over(self, key: str, count: int, size: int, max_count: float, max_bytes: float) -> bool:
        used = self._used.get(key, (0, 0))
        return (count > 0 and used[0] + count > max_count) or used[1] + size > max_bytes


def network_of(address: str) -> str:
    """Return the network of one caller: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


MAX_URIS = 1000
MAX_URI_BYTES = 4096
MAX_URIS_BYTES = 256 * 1024
"""Number of URIs, bytes of one URI, and bytes of all of them together."""

URI_LIMITS = Limits(own_count=10_000, own_bytes=2560 * 1024, count=500_000, bytes=128 * 1024 * 1024)
"""URIs of all stored sessions, and of all listening streams of a process."""

TOO_MANY_URIS = {
    QuotaScope.OWN: invalid_params(
        "You are subscribed to as many resources as you may be in all of your sessions and "
        "streams: unsubscribe from one, or close one of these"
    ),
    QuotaScope.ALL: try_later("The server keeps as many subscriptions as it can: try again later"),
}
"""The refusals of one more subscription."""


def check_uris(uris: Collection[str]) -> Refusal | None:
    """Return the refusal of so many or such long URIs, or None."""
    if len(uris) > MAX_URIS:
        return invalid_params(f"At most {MAX_URIS} resources can be subscribed to at a time")
    sizes = [len(uri.encode("utf-8", "surrogatepass")) for uri in uris]
    if sizes and max(sizes) > MAX_URI_BYTES:
        return invalid_params(f"A URI can be subscribed to if it has at most {MAX_URI_BYTES} bytes")
    if sum(sizes) > MAX_URIS_BYTES:
        return invalid_params(
            f"The URIs subscribed to at a time may have at most {MAX_URIS_BYTES} bytes together"
        )
    return None
