"""Verdicts on credentials, remembered for a moment, so that a busy client is looked up once."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable
from typing import Final
from weakref import WeakSet

from django_mcp.auth.authenticator import Rejection
from django_mcp.auth.principal import Principal

__all__ = ["MAX_AGE_S", "Verdicts", "forget_verdicts", "knows_any"]

MAX_AGE_S: Final = 2.0
"""How long a verdict may be used; a revocation that nobody tells of counts that much later."""

MAX_ENTRIES: Final = 4096
"""Verdicts of one sort remembered; beyond that all are forgotten, and looked up again."""


class Verdicts:
    """Remembers who credentials belong to, and which are bad, for `max_age_s` seconds.

    It is keyed by digests: no credentials are kept. The bad are apart from the good, so that
    somebody who sends many wrong ones takes nothing from those who are known.
    """

    def __init__(self, max_age_s: float = MAX_AGE_S) -> None:
        self._max_age_s = min(max_age_s, MAX_AGE_S)
        self._good: dict[Hashable, tuple[float, Principal]] = {}
        self._bad: dict[Hashable, tuple[float, Rejection]] = {}
        self.changes = 0
        """How often something was forgotten: what was asked before that must not be remembered."""
        _all.add(self)

    def find(self, key: Hashable) -> Principal | Rejection | None:
        """Return what is remembered of credentials, and still holds; None: ask."""
        now = time.monotonic()
        known = self._good.get(key)
        if known is not None and now < known[0]:
            return _still_valid(known[1])
        refused = self._bad.get(key)
        return refused[1] if refused is not None and now < refused[0] else None

    def remember(self, key: Hashable, verdict: Principal | Rejection) -> None:
        """Keep a verdict that was just reached."""
        until = time.monotonic() + self._max_age_s
        if isinstance(verdict, Principal):
            if len(self._good) >= MAX_ENTRIES:
                self._good.clear()
            self._good[key] = (until, verdict)
        elif verdict.status in (401, 403):
            if len(self._bad) >= MAX_ENTRIES:
                self._bad.clear()
            self._bad[key] = (until, verdict)

    def knows_any(self, kind: str) -> bool:
        """Return whether a good verdict of an authenticator's kind may still be used."""
        now = time.monotonic()
        return any(
            now < until and principal.auth is not None and principal.auth.authenticator == kind
            for until, principal in list(self._good.values())
        )

    def forget(self, names: Collection[str] | None) -> None:
        """Forget what is known of clients, by their `client_id`; None: of all."""
        self.changes += 1
        for key, (_until, principal) in list(self._good.items()):
            if names is None or (principal.auth is not None and principal.auth.client_id in names):
                self._good.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._good.clear()
        self._bad.clear()


_all: WeakSet[Verdicts] = WeakSet()


def forget_verdicts(names: Collection[str] | None) -> None:
    """Forget what this process remembers of clients, by their `client_id`; None: of all."""
    for each in list(_all):
        each.forget(names)


def knows_any(kind: str) -> bool:
    """Return whether this process remembers any credentials of a kind as good."""
    return any(each.knows_any(kind) for each in list(_all))


def _still_valid(principal: Principal) -> Principal | None:
    auth = principal.auth
    if auth is None or auth.expires_at is None or time.time() < auth.expires_at:
        return principal.for_request()
    return None
