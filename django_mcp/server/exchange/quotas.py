"""Quotas: who is charged for what a server keeps of its clients.

An authenticated caller is charged by its principal. Anonymous callers are charged by their address,
so that one of them cannot use up what is meant for all.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Limits",
    "QuotaCounter",
    "QuotaMeter",
    "QuotaReached",
    "Scope",
    "is_anonymous_quota",
    "network_of",
    "quota_key_of",
    "share_of",
]

_ADDRESS = "address "
_ALL = "*"


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


class Scope(Enum):
    """Whose limit is reached: that of one caller, or that of all callers together."""

    OWN = 429
    ALL = 503


class QuotaReached(Exception):
    """Nothing more is kept for a caller, or for anybody, since a limit is reached.

    Attributes:
        scope: whose limit it is.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.scope = scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How many of something are kept, and how many bytes: of one caller, and of all together."""

    own_count: int
    own_bytes: int
    count: int
    bytes: int


class QuotaMeter:
    """Counts things of callers and their bytes in a process, and says which limit is reached.

    It is not safe for threads.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # By quota key; in all; and of anonymous callers together.
        self._used: dict[str, tuple[int, int]] = {}

    def take(
        self, quota_key: str, size: int, *, count: int = 1, anonymous_share: float = 1.0
    ) -> Scope | None:
        """Count things, unless a limit is reached; return whose limit that is.

        Args:
            quota_key: of the caller.
            size: bytes of the things together.
            count: how many there are.
            anonymous_share: the part of the limits of all callers that anonymous ones may use together.
        """
        limits = self.limits
        if self._is_over(quota_key, count, size, limits.own_count, limits.own_bytes):
            return Scope.OWN
        if self._is_over(_ALL, count, size, limits.count, limits.bytes):
            return Scope.ALL
        if is_anonymous_quota(quota_key) and self._is_over(
            _ADDRESS, count, size, limits.count * anonymous_share, limits.bytes * anonymous_share
        ):
            return Scope.ALL
        self._add(quota_key, count, size)
        return None

    def add(self, quota_key: str, size: int) -> None:
        """Count bytes, whatever the limits say."""
        self._add(quota_key, 0, size)

    def give_back(self, quota_key: str, size: int, *, count: int = 1) -> None:
        """Count things no longer."""
        self._add(quota_key, -count, -size)

    def _is_over(self, key: str, count: int, size: int, max_count: float, max_bytes: float) -> bool:
        used = self._used.get(key, (0, 0))
        return used[0] + count > max_count or used[1] + size > max_bytes

    def _add(self, quota_key: str, count: int, size: int) -> None:
        for key in (quota_key, _ALL, _ADDRESS)[: 2 + is_anonymous_quota(quota_key)]:
            used = self._used.pop(key, (0, 0))
            now = (used[0] + count, used[1] + size)
            if now != (0, 0):
                self._used[key] = now


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
