"""What restricted credentials were given to read: the resources that results of their tools link to."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.apps import apps

from django_mcp.execution.outages import Warner
from django_mcp.execution.tables import Pruner, Usage, delete_some, digest_of_quota, moment
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.quotas import Limits, QuotaScope

if TYPE_CHECKING:
    from django.db.models import QuerySet

LINK_S = 24 * 60 * 60
"""How long a linked resource may be read after the latest result that links to it."""

MAX_LINKS_EACH = 2_000
MAX_LINKS = 500_000
"""Links of one caller, of which the oldest make room, and of all."""

PRUNE_EVERY_S = 60.0
"""How often each process deletes expired links, when it writes one."""

_trouble = Warner()


class GivenLinks:
    """Keeps which URIs a principal was given, as digests in the database, for all processes.

    Args:
        server_name: returns the name of the server, whose links are for it alone.

    Each link is for one place: what the URL of the call has captured, and its tenant. A URI may name something
    else elsewhere.
    """

    def __init__(self, server_name: Callable[[], str]) -> None:
        self._server_name = server_name
        self._pruner = Pruner(PRUNE_EVERY_S)

    async def add(
        self, place: str, owner: str, tool: str, uris: Collection[str], quota_key: str
    ) -> None:
        """Let a principal with a tool read URIs from now on; if that cannot be stored, it is logged."""
        digests = [self._digest(place, owner, tool, uri) for uri in list(uris)[:MAX_LINKS_EACH]]
        caller = digest_of_quota(f"{quota_key} at {self._server_name()}")
        try:
            await run_in_pool(lambda: self._write(caller, digests))
        except Exception as error:  # noqa: BLE001 - the tool has run, so its result is sent
            _trouble.warn("Could not store which resources a key was given: %r", error)

    async def has(self, place: str, owner: str, tools: Collection[str], uri: str) -> bool:
        """Return whether one of the tools gave a principal a URI."""
        digests = [self._digest(place, owner, tool, uri) for tool in tools]
        if not digests:
            return False
        return await run_in_pool(lambda: _valid().filter(digest__in=digests).exists())

    def _write(self, caller: str, digests: list[str]) -> None:
        self._pruner.prune_if_due(lambda: delete_some(expired_links()))
        until, rows = moment(time.time() + LINK_S), _rows()
        known = rows.filter(digest__in=digests)
        old = set(known.values_list("digest", flat=True))
        known.update(expires_at=until)
        new = [digest for digest in digests if digest not in old]
        scope = _usage.take((caller,), 0, count=len(new))
        if scope is QuotaScope.ALL:
            _trouble.warn("Could not store which resources a key was given: %s", "too many links")
            return
        if scope is not None:
            # Other calls may choose the same rows at this time, so whatever is too much goes, not only as
            # many as are added.
            others = rows.filter(quota_key=caller).exclude(digest__in=digests)
            kept = max(_usage.limits.own_count - len(digests), 0)
            newest = others.order_by("-expires_at", "-pk").values_list("pk", flat=True)
            rows.filter(pk__in=list(newest[kept : kept + MAX_LINKS_EACH])).delete()
        model = rows.model
        made = [model(digest=digest, quota_key=caller, expires_at=until) for digest in new]
        rows.bulk_create(made, ignore_conflicts=True)

    def _digest(self, place: str, owner: str, tool: str, uri: str) -> str:
        text = f"{self._server_name()}\0{owner}\0{tool}\0{uri}\0{place}"
        # A URI of a client may hold what is no valid text.
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rows() -> QuerySet[Any]:
    # By its name, since importing a server must not load models.
    model = apps.get_model("django_mcp", "GivenLink")
    from django.db import router

    # A replica may not have a link yet that was just given.
    rows: QuerySet[Any] = model._default_manager.using(router.db_for_write(model))
    return rows


def _valid() -> QuerySet[Any]:
    return _rows().filter(expires_at__gt=datetime.now(UTC))


def expired_links() -> QuerySet[Any]:
    """Return the links that have expired."""
    return _rows().filter(expires_at__lte=datetime.now(UTC))


_usage = Usage(
    _valid,
    None,
    Limits(own_count=MAX_LINKS_EACH, count=MAX_LINKS),
    columns=("quota_key",),
)
