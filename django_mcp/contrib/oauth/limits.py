"""Limits on what anonymous callers can make the authorization server do and store."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django.core.cache import caches
from django.db.models import Count, QuerySet
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp.conf import settings
from django_mcp.contrib.oauth.room import make_room, self_registered, warn_if_nearly_full
from django_mcp.execution.outages import Warner
from django_mcp.server.exchange.quotas import network_of
from django_mcp.server.ports import StoreUnavailable

HOUR_S = 3600
MINUTE_S = 60
CLIENTS_AT_LIMIT = 3
"""How many clients may use up their wrong secrets from one address."""

TRIES = 10
"""Registration attempts that an address has for each registration it has."""

_trouble = Warner()


class TooMany(CustomOAuth2Error):
    """The token endpoint or another one of a client refuses a request for some time."""

    def __init__(self, description: str, wait_s: int, request: Any) -> None:
        super().__init__(
            error="temporarily_unavailable",
            description=f"{description}. Try again in {wait_s} s",
            status_code=429,
            request=request,
        )
        self._wait_s = wait_s

    @property
    def headers(self) -> dict[str, str]:
        """The headers that oauthlib adds to the response."""
        return {"Retry-After": str(self._wait_s)}


class RateLimit:
    """How often one address may do something within a window of the clock.

    It is counted in the cache `THROTTLE_CACHE`. An IPv6 address counts as its /64 network.

    Args:
        what: the name of the action, with everything else that it is counted by.
        address: the address of the client; requests without one share an allowance.
        limit: how often it is allowed in a window.
        period_s: the length of the window.
    """

    def __init__(self, what: str, address: str, *, limit: int, period_s: int) -> None:
        self._limit = limit
        self._period_s = period_s
        now = time.time()
        self.wait_s = math.ceil(period_s - now % period_s)
        subject = f"{what}\n{network_of(address)}\n{int(now // period_s)}"
        # Some caches accept only short plain keys.
        self._key = f"django_mcp.oauth.{hashlib.sha256(subject.encode()).hexdigest()}"

    def take(self) -> bool:
        """Count one more; return whether it is within the limit.

        Raises:
            StoreUnavailable: the cache does not respond.
        """
        return self._ask(self._count) <= self._limit

    def is_used_up(self) -> bool:
        """Return whether the limit is reached.

        Raises:
            StoreUnavailable: the cache does not respond, or stores nothing.
        """
        return self._ask(self._read) >= self._limit

    def _ask(self, ask: Callable[[], int]) -> int:
        try:
            caches[settings.THROTTLE_CACHE].add(self._key, 0, self._period_s)
            return ask()
        except Exception as error:
            # Each cache backend has errors of its own.
            _trouble.warn("Could not count for the limits of OAuth: %r", error)
            raise StoreUnavailable from error

    def _read(self) -> int:
        return int(caches[settings.THROTTLE_CACHE].get(self._key, 0))

    def _count(self) -> int:
        cache = caches[settings.THROTTLE_CACHE]
        try:
            return int(cache.incr(self._key))
        except ValueError:
            # The key was dropped between the two calls.
            return 1

    def give_back(self) -> None:
        """Count one less. A failure does not matter: the window ends soon."""
        with suppress(Exception):
            caches[settings.THROTTLE_CACHE].decr(self._key)


def new_clients_of(address: str) -> RateLimit:
    """Return how many clients an address may register in an hour, by either method."""
    limit = settings.OAUTH_REGISTRATIONS_PER_HOUR
    return RateLimit("new client", address, limit=limit, period_s=HOUR_S)


def registration_tries_of(address: str) -> RateLimit:
    """Return how often an address may send metadata, valid or not, in an hour."""
    limit = TRIES * settings.OAUTH_REGISTRATIONS_PER_HOUR
    return RateLimit("try to register", address, limit=limit, period_s=HOUR_S)


def wrong_secrets_of(address: str, client_id: str) -> list[RateLimit]:
    """Return how many wrong secrets an address may send in a minute: for one client, and for all.

    Without an address there is no limit, since one caller could use it up for all.
    """
    limit = settings.OAUTH_WRONG_SECRETS_PER_MINUTE
    if not address:
        return []
    return [
        RateLimit(f"wrong secret {client_id}", address, limit=limit, period_s=MINUTE_S),
        RateLimit("wrong secret", address, limit=CLIENTS_AT_LIMIT * limit, period_s=MINUTE_S),
    ]


def find_wait_for_room_s(source: str) -> int:
    """Make room for one more client, and return 0; or return the seconds until there may be room.

    Dead clients go first, then those of users who have more than their share; see `room`. Neither kind of
    clients can take the last quarter of `OAUTH_MAX_REGISTERED` from the other.

    Args:
        source: one of `SOURCES`.
    """
    clients = self_registered()
    counts = _count_by_source(clients)
    most, total = settings.OAUTH_MAX_REGISTERED, sum(counts.values())
    warn_if_nearly_full(total)
    too_many_of_source = counts.get(source, 0) + 1 - (most - most // 4)
    too_many = max(too_many_of_source, total + 1 - most)
    if too_many <= 0:
        return 0
    if too_many_of_source > 0:
        clients = clients.filter(registration_source=source)
    return make_room(clients, too_many)


def _count_by_source(clients: QuerySet[Any]) -> Mapping[str, int]:
    counts = clients.order_by().values_list("registration_source").annotate(Count("pk"))
    return dict(counts)
