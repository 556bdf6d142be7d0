"""States of calls between two requests: signed and sent to the client, or stored in the database.

Every worker of the site can read both.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.signing import BadSignature, Signer, b64_decode, b64_encode

from django_mcp.execution.own_writes import write_in_pool
from django_mcp.execution.tables import Pruner, Usage, delete_some, digest_of_quota, moment
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.ports import STATE_STORE_FULL, StateStoreFull

if TYPE_CHECKING:
    from django.db.models import QuerySet

PRUNE_EVERY_S = 10.0
"""How often each process deletes expired states, when it writes one."""


class SiteSigner:
    """Signs with the site's `SECRET_KEY`. Signatures with `SECRET_KEY_FALLBACKS` stay valid."""

    def sign(self, value: bytes) -> str:
        return self._signer().sign(b64_encode(value).decode())

    def unsign(self, text: str) -> bytes | None:
        try:
            return b64_decode(self._signer().unsign(text).encode())
        except (BadSignature, ValueError):
            return None

    def _signer(self) -> Signer:
        # Created each time, since it copies the keys, which tests change.
        return Signer(salt="django_mcp")


class SiteStates:
    """Stores states in rows with a digest of their reference and their owner."""

    def __init__(self) -> None:
        self._pruner = Pruner(PRUNE_EVERY_S)

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        reference = secrets.token_urlsafe(24)
        quota = digest_of_quota(quota_key)

        def write() -> None:
            self._prune()
            if _kept.take((quota,), len(value)) is not None:
                raise StateStoreFull(STATE_STORE_FULL)
            _rows("KeptState").create(
                digest=_digest(owner, reference),
                quota_key=quota,
                value=value,
                size=len(value),
                expires_at=moment(until_s),
            )

        await write_in_pool(write)
        return reference

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        row = await run_in_pool(_valid("KeptState").filter(digest=_digest(owner, reference)).first)
        return None if row is None else bytes(row.value)

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        rows = _valid("KeptState").filter(digest=_digest(owner, reference))

        def take() -> bytes | None:
            row = rows.first()
            if row is None or not rows.delete()[0]:
                return None
            _kept.give_back((row.quota_key,), row.size)
            return bytes(row.value)

        return await write_in_pool(take)

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        quota = digest_of_quota(quota_key)

        def write() -> bool:
            self._prune()
            if _used.take((quota,), 0) is not None:
                raise StateStoreFull(STATE_STORE_FULL)
            values = {"quota_key": quota, "expires_at": moment(until_s)}
            rows = _rows("UsedState")
            return bool(rows.get_or_create(digest=_digest(None, token), defaults=values)[1])

        return await write_in_pool(write)

    def _prune(self) -> None:
        self._pruner.prune_if_due(lambda: sum(map(delete_some, expired_states())))


def _rows(name: str) -> Any:
    # By its name, since importing a server must not load models.
    return apps.get_model("django_mcp", name)._default_manager


def _valid(name: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = _rows(name).filter(expires_at__gt=datetime.now(UTC))
    return rows


_kept = Usage(
    partial(_valid, "KeptState"),
    "size",
    Limits(own_count=250, own_bytes=16 * 1024 * 1024, count=10_000, bytes=256 * 1024 * 1024),
    columns=("quota_key",),
)
_used = Usage(
    partial(_valid, "UsedState"),
    None,
    Limits(own_count=50_000, own_bytes=0, count=1_000_000, bytes=0),
    columns=("quota_key",),
)


def expired_states() -> list[QuerySet[Any]]:
    """Return the stored and the used states that have expired."""
    now = datetime.now(UTC)
    return [_rows(name).filter(expires_at__lte=now) for name in ("KeptState", "UsedState")]


def _digest(owner: str | None, reference: str) -> str:
    return hashlib.sha256(f"{owner or ''}\0{reference}".encode()).hexdigest()
