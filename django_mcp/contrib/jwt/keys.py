"""The public keys of an issuer (RFC 7517), fetched once for all who need them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from django_mcp.contrib.issuers import FetchError, check_url, fetch_json
from django_mcp.log import logger

if TYPE_CHECKING:
    from jwt import PyJWK

FETCHERS: Final = ThreadPoolExecutor(4, thread_name_prefix="django-mcp-fetch")
"""Threads that fetch the keys of issuers, each at most once at a time, and nothing else."""

KEY_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The algorithms that can be pinned, all with a public key, by the type of key they need.

With a shared secret anybody who can check a token can make one, and `none` is no check at all.
"""

FRESH_S: Final = 600.0
"""Seconds for which keys are used without asking again."""

STALE_S: Final = 3600.0
"""Seconds for which known keys are used while their issuer does not answer."""

RETRY_S: Final = 30.0
"""Seconds between two questions at the least: unknown key ids do not make us ask more often."""

MAX_KEYS: Final = 100


class KeySet:
    """The public keys of one issuer, by their id and algorithm.

    Args:
        url: where the keys are; None: as the issuer's metadata says.
        issuer: whose metadata to ask for that (RFC 8414, OpenID Connect Discovery).
        algorithms: those of `KEY_TYPES` that keys are needed for.
        timeout_s: for each answer.
    """

    def __init__(
        self, *, url: str | None, issuer: str, algorithms: Collection[str], timeout_s: float
    ) -> None:
        self._url = url
        self._issuer = issuer
        self._algorithms = algorithms
        self._timeout_s = timeout_s
        self._keys: Mapping[tuple[str | None, str], list[PyJWK]] = {}
        self._fetched_at = -STALE_S
        self._asked_at = -RETRY_S
        self._lock = threading.Lock()
        self._flight: Future[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> list[PyJWK]:
        """Return the keys for an algorithm; those with an id, if one is given.

        Raises:
            FetchError: there are no keys to look at.
        """
        age_s = time.monotonic() - self._fetched_at
        wanted = (key_id, algorithm)
        if age_s < FRESH_S and wanted in self._keys:
            return self._keys[wanted]
        flight = self._join_flight()
        if key_id is not None and age_s < STALE_S and wanted in self._keys:
            return self._keys[wanted]  # while the answer is on its way
        if flight is not None:
            # Others wait for the same answer, so one who leaves must not cancel it. There are two answers at
            # most, but it may wait for a thread, and a lookup of a host has no deadline.
            waiting = asyncio.wrap_future(flight)
            done, _late = await asyncio.wait([waiting], timeout=2 * self._timeout_s)
            for landed in done:
                landed.result()
        if time.monotonic() - self._fetched_at >= STALE_S:
            raise FetchError("The keys of the issuer cannot be had now")
        return self._keys.get(wanted, [])

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
        jwk_set = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(jwk_set, list):
            raise FetchError("The issuer's keys are not a JSON Web Key Set")
        keys = defaultdict(list)
        for data in jwk_set[:MAX_KEYS]:
            for algorithm in self._algorithms:
                key = _parse(data, algorithm)
                if key is not None:
                    for name in {key.key_id if isinstance(key.key_id, str) else None, None}:
                        keys[name, algorithm].append(key)
        self._keys = dict(keys)
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


def _parse(data: Any, algorithm: str) -> PyJWK | None:
    """Return a key that is meant for an algorithm; None: it is not, or is broken."""
    from jwt import PyJWK, PyJWTError

    if not isinstance(data, dict) or data.get("use", "sig") != "sig":
        return None
    if data.get("kty") != KEY_TYPES[algorithm] or data.get("alg", algorithm) != algorithm:
        return None
    try:
        return PyJWK(data, algorithm=algorithm)
    except (PyJWTError, ValueError, TypeError):
        return None
