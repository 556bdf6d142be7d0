"""The public keys of an issuer (RFC 7517), fetched once for all who need them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from django_mcp.auth.authenticators.fetch import FETCHERS, FetchError, check_url, fetch_json

__all__ = ["KeySet"]

logger = logging.getLogger("django_mcp")

FRESH_S: Final = 600.0
"""Seconds for which keys are used without asking again."""

STALE_S: Final = 3600.0
"""Seconds for which known keys are used while their issuer does not answer."""

RETRY_S: Final = 30.0
"""Seconds between two questions at the least: unknown key ids do not make us ask more often."""

MAX_KEYS: Final = 100

Keys = Mapping[str | None, tuple[Mapping[str, Any], ...]]


class KeySet:
    """The keys of one issuer by their id.

    Args:
        url: where the keys are; None: as the issuer's metadata says.
        issuer: whose metadata to ask for that (RFC 8414, OpenID Connect Discovery).
        timeout_s: for each answer.
    """

    def __init__(self, *, url: str | None, issuer: str, timeout_s: float) -> None:
        self._url = url
        self._issuer = issuer
        self._timeout_s = timeout_s
        self._keys: Keys = {}
        self._fetched_at = -STALE_S
        self._asked_at = -RETRY_S
        self._lock = threading.Lock()
        self._flight: Future[None] | None = None

    async def find(self, key_id: str | None) -> tuple[Mapping[str, Any], ...]:
        """Return the keys with an id, as JSON Web Keys; empty: the issuer has none of that id.

        Raises:
            FetchError: there are no keys to look at.
        """
        age_s = time.monotonic() - self._fetched_at
        if age_s < FRESH_S and key_id in self._keys:
            return self._keys[key_id]
        flight = self._join_flight()
        if flight is not None:
            # Others wait for the same answer, so one who leaves must not cancel it.
            await asyncio.shield(asyncio.wrap_future(flight))
        if time.monotonic() - self._fetched_at >= STALE_S:
            raise FetchError("The keys of the issuer cannot be had now")
        return self._keys.get(key_id, ())

    def _join_flight(self) -> Future[None] | None:
        """Return the question that is under way, after asking it if it is time; None: it is not."""
        with self._lock:
            if self._flight is None and time.monotonic() - self._asked_at >= RETRY_S:
                self._asked_at = time.monotonic()
                self._flight = FETCHERS.submit(self._fetch)
                self._flight.add_done_callback(self._land)
            return self._flight

    def _land(self, _flight: Future[None]) -> None:
        self._flight = None

    def _fetch(self) -> None:
        try:
            self._take(self._get_document())
        except FetchError as error:
            # Those who wait see that there is nothing new; the operator sees why.
            logger.warning("Could not get the keys of %s: %s", self._issuer, error)

    def _get_document(self) -> Any:
        if self._url is None:
            self._url = self._discover()
        return fetch_json(self._url, timeout_s=self._timeout_s)

    def _take(self, document: Any) -> None:
        found = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(found, list):
            raise FetchError("The issuer's keys are not a JSON Web Key Set")
        keys: dict[str | None, tuple[Mapping[str, Any], ...]] = {}
        for key in found[:MAX_KEYS]:
            if isinstance(key, dict) and key.get("use", "sig") == "sig":
                for name in {key.get("kid") if isinstance(key.get("kid"), str) else None, None}:
                    keys[name] = (*keys.get(name, ()), key)
        self._keys = keys
        self._fetched_at = time.monotonic()

    def _discover(self) -> str:
        base = self._issuer.rstrip("/")
        document = fetch_json(f"{base}/.well-known/openid-configuration", timeout_s=self._timeout_s)
        url = document.get("jwks_uri") if isinstance(document, dict) else None
        if not isinstance(url, str) or document.get("issuer") != self._issuer:
            raise FetchError("The issuer's metadata is another's, or names no keys")
        try:
            return check_url(url, "jwks_uri")
        except ValueError as error:
            raise FetchError(str(error)) from None
