"""Cache the results of authentication for two seconds, so that a busy client is looked up once."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable
from typing import Final
from weakref import WeakSet

from django_mcp.auth.principal import Principal, Rejection
from django_mcp.process import Expiring

MAX_AGE_S: Final = 2.0
"""How long a result may be used. A revocation without a signal counts that much later."""

MAX_ENTRIES: Final = 4096
"""Results of each kind that are cached; beyond that the oldest are dropped."""


class Verdicts:
    """Caches principals and rejections for `max_age_s` seconds.

    The keys are digests, so no credentials are stored. Rejections are apart from principals, so that
    many wrong credentials displace no principal.
    """

    def __init__(self, max_age_s: float = MAX_AGE_S) -> None:
        self._max_age_s = min(max_age_s, MAX_AGE_S)
        self._good: Expiring[Principal] = Expiring(MAX_ENTRIES)
        self._bad: Expiring[Rejection] = Expiring(MAX_ENTRIES)
        self.changes = 0
        """How often results were dropped. A query that began before that must not be cached."""
        _all.add(self)

    def find(self, key: Hashable) -> Principal | Rejection | None:
        """Return the cached result, if it is still valid."""
        known = self._good.get(key)
        return _still_valid(known) if known is not None else self._bad.get(key)

    def remember(self, key: Hashable, verdict: Principal | Rejection) -> None:
        """Cache a new result."""
        if isinstance(verdict, Principal):
            self._good.set(key, verdict, self._max_age_s)
        elif verdict.status in (401, 403):
            self._bad.set(key, verdict, self._max_age_s)

    def knows_any(self, kind: str) -> bool:
        """Return whether a principal of this kind of authenticator is cached."""
        return any(
            principal.auth is not None and principal.auth.authenticator == kind
            for _key, principal in self._good.find_all()
        )

    def forget(self, names: Collection[str] | None) -> None:
        """Drop the principals of clients by their `client_id`; None: all."""
        self.changes += 1
        for key, principal in self._good.find_all():
            if names is None or (principal.auth is not None and principal.auth.client_id in names):
                self._good.discard(key)


_all: WeakSet[Verdicts] = WeakSet()


def forget_verdicts(names: Collection[str] | None) -> None:
    """Drop the cached principals of this process by their `client_id`; None: all."""
    for each in list(_all):
        each.forget(names)


def knows_any(kind: str) -> bool:
    """Return whether this process caches a principal of this kind of authenticator."""
    return any(each.knows_any(kind) for each in list(_all))


def _still_valid(principal: Principal) -> Principal | None:
    auth = principal.auth
    if auth is None or auth.expires_at is None or time.time() < auth.expires_at:
        return principal.for_request()
    return None
