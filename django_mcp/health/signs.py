"""What the start page of the admin and `manage.py mcp_health` read: calls, workers, tasks, Redis, keys and sign-ins.

Each function makes one or two queries, which an index bounds. Nothing here is on the path of a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, runtime_checkable

from asgiref.sync import async_to_sync
from django.apps import apps
from django.core.cache import cache
from django.db.models import Count, QuerySet
from django.utils import timezone

from django_mcp.calls.tally import Tally
from django_mcp.conf import settings
from django_mcp.extension_packages import load_parts
from django_mcp.models import APIKey, CallRecord, Worker
from django_mcp.process import Expiring
from django_mcp.push.process_hub import choose_bus

LAYER_FRESH_S = 5.0
"""How long what was found of the channel layer is kept."""

_layer_faults: Expiring[str] = Expiring(1)

Keys = TypeVar("Keys", bound=QuerySet[APIKey])


def count_calls(minutes: int) -> Tally:
    """Return the counts of the recorded calls that began in the last minutes."""
    since = timezone.now() - timedelta(minutes=minutes)
    calls = CallRecord.objects.order_by().filter(started_at__gte=since)
    tally = Tally()
    for outcome, step, count in calls.values_list("outcome", "step").annotate(count=Count("pk")):
        tally.add(0, outcome, {step: count})
    return tally


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerState:
    """What a worker last reported of itself, at most a few seconds ago.

    Attributes:
        running: calls that it answers.
        busy, threads: of its threads for handlers, those that run something, and how many there may be.
        queued: calls that wait for one of these threads.
        is_exhausted: whether none of them has come free for a while.
    """

    row: Worker
    running: int
    busy: int
    threads: int
    queued: int
    is_exhausted: bool

    @property
    def share(self) -> float:
        """How many of its threads are busy, in percent."""
        return self.busy / self.threads * 100 if self.threads else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """The workers that have a row: those that report, and those whose lease has ended."""

    alive: list[WorkerState]
    lost: list[Worker]

    @property
    def running(self) -> int:
        """The calls that run in all of them."""
        return sum(worker.running for worker in self.alive)

    @property
    def queued(self) -> int:
        """The calls that wait for a thread."""
        return sum(worker.queued for worker in self.alive)

    @property
    def busiest(self) -> WorkerState | None:
        """The one with the largest share of busy threads, if any reports threads."""
        return max(self.alive, key=lambda worker: worker.share, default=None)


def find_workers() -> Workers:
    """Return the workers. Without the tables of sessions, or under WSGI, none has a row."""
    now = timezone.now()
    rows = list(Worker.objects.order_by("-started_at"))
    alive = [_read_state(row) for row in rows if row.lease_until > now]
    return Workers(alive=alive, lost=[row for row in rows if row.lease_until <= now])


def _read_state(row: Worker) -> WorkerState:
    state = row.in_flight or {}
    busy, threads, queued = state.get("threads") or (0, 0, 0)
    return WorkerState(
        row=row,
        running=state.get("total", 0),
        busy=busy,
        threads=threads,
        queued=queued,
        is_exhausted=state.get("exhausted") is not None,
    )


def count_lost_tasks(minutes: int) -> int | None:
    """Return how many tasks were lost with their worker in the last minutes; None: it cannot be told."""
    since = timezone.now() - timedelta(minutes=minutes)
    counts = [part.count_lost(since) for part in load_parts("site.health")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def find_expiring(keys: Keys, within: timedelta) -> Keys:
    """Return those of these API keys that expire soon, the first to expire first."""
    now = timezone.now()
    return keys.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + within).order_by(
        "expires_at"
    )


@runtime_checkable
class SignInApp(Protocol):
    """An installed app by which clients sign in, as its `AppConfig` has the method."""

    def count_refused_sign_ins(self, since: datetime) -> int:
        """Return how many were refused since then."""


def count_refused_sign_ins(minutes: int) -> int | None:
    """Return how many sign-ins were refused in the last minutes; None: no client can sign in."""
    since = timezone.now() - timedelta(minutes=minutes)
    counts = [
        config.count_refused_sign_ins(since)
        for config in apps.get_app_configs()
        if isinstance(config, SignInApp)
    ]
    return sum(counts) if counts else None


def find_layer_fault() -> str:
    """Return the class of the error of the channel layer that links the workers; empty if it answers."""
    if choose_bus() != "layer":
        return ""
    known = _layer_faults.get("")
    if known is None:
        # It loads the layer, which other sites have not.
        from django_mcp.push.layer_bus import reach_layer

        try:
            async_to_sync(reach_layer)()
            known = ""
        except Exception as error:  # noqa: BLE001 - any error of the layer
            known = type(error).__name__
        _layer_faults.set("", known, LAYER_FRESH_S)
    return known


def find_cache_fault() -> str:
    """Return the class of the error of the cache `default`; empty if it answers."""
    try:
        cache.get("django_mcp.health")
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        return type(error).__name__
    return ""


def reports_workers() -> bool:
    """Return whether the workers of this site write what they do, as far as the settings tell."""
    return settings.SESSION_STORE == "model"
