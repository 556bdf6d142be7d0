"""Quotas: who is charged for what a server keeps of its clients.

An authenticated caller is charged by its principal. Anonymous callers are charged by their address,
so that one of them cannot use up what is meant for all.
"""

from __future__ import annotations

import ipaddress
from collections import Counter

__all__ = ["QuotaCounter", "is_anonymous_quota", "network_of", "quota_key_of", "share_of"]

_ADDRESS = "address "


def quota_key_of(principal_key: str | None, address: str | None) -> str:
    """Return the name under which what a caller has open or stored is counted.

    Args:
        principal_key: the key of its principal; None for an anonymous caller.
        address: its IP address; callers without a known one share a quota.
    """
    if principal_key is not None:
        return f"principal {principal_key}"
    return _ADDRESS + network_of(address or "")


def is_anonymous_quota(quota_key: str) -> bool:
    """Return whether a quota is that of an anonymous caller."""
    return quota_key.startswith(_ADDRESS)


def share_of(limit: int, share: float) -> int:
    """Return the part of a limit that anonymous callers may use together; at least 1."""
    return max(1, int(limit * share))


class QuotaCounter:
    """Counts what callers have open, by quota key.

    Attributes:
        anonymous: how many of it anonymous callers have open.
    """

    def __init__(self) -> None:
        self.anonymous = 0
        self._counts: Counter[str] = Counter()

    def of(self, quota_key: str) -> int:
        """Return the count of one quota."""
        return self._counts[quota_key]

    def add(self, quota_key: str) -> None:
        """Count one more."""
        self._counts[quota_key] += 1
        self.anonymous += is_anonymous_quota(quota_key)

    def discard(self, quota_key: str) -> None:
        """Count one less."""
        self._counts[quota_key] -= 1
        self.anonymous -= is_anonymous_quota(quota_key)
        if self._counts[quota_key] <= 0:
            del self._counts[quota_key]


def network_of(address: str) -> str:
    """Return the network that one caller cannot leave: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
