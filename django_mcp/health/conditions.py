"""The conditions of `mcp_health --fail-on`: how they are written, and what is read for each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from django.db import DatabaseError
from django.utils import timezone

from django_mcp.calls.tally import Tally
from django_mcp.conf import settings
from django_mcp.execution.outages import is_unmigrated
from django_mcp.health.signs import (
    Workers,
    count_calls,
    count_lost_tasks,
    count_refused_sign_ins,
    find_cache_fault,
    find_expiring,
    find_layer_fault,
    find_workers,
    reports_workers,
)
from django_mcp.models import APIKey
from django_mcp.push.layers import describe_layer, has_shared_layer
from django_mcp.registry.problems import find_near

NAMED = 5
"""Workers or keys that are named; of more only the number is given."""

_THREADS = "the tab Running of the admin; give what holds threads a timeout, or raise SYNC_THREADS"

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}
_DAYS = {"h": 1 / 24, "d": 1.0}
_PERCENT = {"%": 1.0}
_COUNT = {"": 1.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What was read for a condition.

    Attributes:
        value: None: it cannot be told now, and the condition does not hold.
        text: says it to a person.
        missing: what has to be turned on before it can ever be told; empty: it can.
    """

    value: float | None = None
    text: str
    missing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What can be watched.

    Attributes:
        units: what may stand behind the number of a limit; empty: it has no limit, and holds if the value is not 0.
        example: a condition of this kind.
        most: the largest limit.
        is_of_window: whether it is about the last minutes; else about this moment.
        holds_below: whether the condition holds at the limit and below; else at the limit and above.
        look: where to look next.
    """

    read: Callable[[Signs], Reading]
    example: str
    look: str
    units: dict[str, float]
    most: float = math.inf
    is_of_window: bool = False
    holds_below: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A condition as it was asked for.

    Attributes:
        text: it in its one form, such as `"errors=5%"`.
        limit: in the first of: percent, seconds, days, a count; None: it has none.
    """

    name: str
    text: str
    limit: float | None

    def holds(self, reading: Reading) -> bool:
        """Return whether the condition holds; not if the value cannot be told."""
        value = reading.value
        if value is None:
            return False
        if self.limit is None:
            return bool(value)
        return value <= self.limit if KINDS[self.name].holds_below else value >= self.limit


@dataclass(kw_only=True)
class Signs:
    """What is read of the site once for all conditions.

    Attributes:
        minutes: how far back calls, tasks and sign-ins are looked at.
        min_calls: with fewer calls, nothing is said of errors and durations.
    """

    minutes: int
    min_calls: int

    @cached_property
    def calls(self) -> Tally:
        """The counts of the calls of these minutes."""
        return count_calls(self.minutes)

    @cached_property
    def workers(self) -> Workers:
        """The workers as they report now."""
        return find_workers()


def _read_calls(signs: Signs, find_value: Callable[[Tally], tuple[float, str]]) -> Reading:
    if not settings.RECORD_CALLS:
        return Reading(text="calls are not recorded", missing="DJANGO_MCP['RECORD_CALLS']")
    calls = signs.calls
    if calls.calls < max(signs.min_calls, 1):
        return Reading(text=f"{_count(calls.calls, 'call')}, too few to tell")
    value, text = find_value(calls)
    return Reading(value=value, text=f"{text} of {_count(calls.calls, 'call')}")


def _read_errors(signs: Signs) -> Reading:
    def find(calls: Tally) -> tuple[float, str]:
        share = calls.errors / calls.calls * 100
        return share, f"{share:.1f} %"

    return _read_calls(signs, find)


def _read_p95(signs: Signs) -> Reading:
    def find(calls: Tally) -> tuple[float, str]:
        value_ms = calls.percentile_ms(0.95) or 0.0
        text = f"{value_ms / 1000:.1f} s" if value_ms >= 1000 else f"{value_ms:.0f} ms"
        return value_ms / 1000, text

    return _read_calls(signs, find)


_SILENT = Reading(text="workers do not report", missing="DJANGO_MCP['SESSION_STORE'] = 'model'")


def _read_pool(signs: Signs) -> Reading:
    if not reports_workers():
        return _SILENT
    worker = signs.workers.busiest
    if worker is None or not worker.threads:
        return Reading(value=0.0, text="no worker is busy")
    of_all = f"{worker.busy} of {_count(worker.threads, 'thread')} of {worker.row} are busy"
    return Reading(value=worker.share, text=of_all)


def _read_queue(signs: Signs) -> Reading:
    if not reports_workers():
        return _SILENT
    queued = signs.workers.queued
    verb = "waits" if queued == 1 else "wait"
    return Reading(value=queued, text=f"{_count(queued, 'call')} {verb} for a thread")


def _read_workers(signs: Signs) -> Reading:
    if not reports_workers():
        return _SILENT
    lost, alive = signs.workers.lost, len(signs.workers.alive)
    text = f"{_count(alive, 'worker')} report" + ("s" if alive == 1 else "")
    if lost:
        verb = "does" if len(lost) == 1 else "do"
        text = f"{_count(len(lost), 'worker')} {verb} not report any more: {_join(lost)}"
    return Reading(value=len(lost), text=text)


def _read_tasks(signs: Signs) -> Reading:
    lost = count_lost_tasks(signs.minutes)
    if lost is None:
        return Reading(
            text="each process keeps its own tasks", missing="DJANGO_MCP['TASK_STORE'] = 'model'"
        )
    verb = "was" if lost == 1 else "were"
    return Reading(value=lost, text=f"{_count(lost, 'task')} {verb} lost, whose worker has stopped")


def _read_redis(_signs: Signs) -> Reading:
    faults = []
    if error := find_layer_fault():
        faults.append(f"the channel layer {describe_layer()} does not answer ({error})")
    if error := find_cache_fault():
        faults.append(f"the cache default does not answer ({error})")
    found = "the channel layer and the cache answer" if has_shared_layer() else "the cache answers"
    return Reading(value=len(faults), text="; ".join(faults) or found)


def _read_keys(_signs: Signs) -> Reading:
    # Further ahead no key is of interest, and there may be thousands.
    ahead = timedelta(days=KINDS["keys"].most)
    try:
        keys = list(find_expiring(APIKey.objects.all(), ahead)[: NAMED + 1])
    except DatabaseError as error:
        if not is_unmigrated(error):
            raise
        # A site that keeps all in memory may have no tables.
        return Reading(text="there is no table of API keys", missing="manage.py migrate")
    ends = keys[0].expires_at if keys else None
    if ends is None:
        # None that holds a condition, so that an alert about a revoked key ends.
        return Reading(value=math.inf, text="no API key expires soon")
    days = (ends - timezone.now()) / timedelta(days=1)
    left = f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"
    return Reading(
        value=days, text=f"the next API keys to expire, the first in {left}: {_join(keys)}"
    )


def _read_sign_ins(signs: Signs) -> Reading:
    refused = count_refused_sign_ins(signs.minutes)
    if refused is None:
        return Reading(text="no client can sign in", missing="the app django_mcp.contrib.oauth")
    verb = "was" if refused == 1 else "were"
    return Reading(value=refused, text=f"{_count(refused, 'sign-in')} {verb} refused")


KINDS = {
    "errors": Kind(
        read=_read_errors,
        units=_PERCENT,
        most=100,
        example="errors=5%",
        is_of_window=True,
        look="the tab Errors of the admin",
    ),
    "p95": Kind(
        read=_read_p95,
        units=_SECONDS,
        example="p95=2s",
        is_of_window=True,
        look="the tab Why slow of the admin",
    ),
    "pool": Kind(
        read=_read_pool,
        units=_PERCENT,
        most=100,
        example="pool=90%",
        look=_THREADS,
    ),
    "queue": Kind(
        read=_read_queue,
        units=_COUNT,
        example="queue=20",
        look=_THREADS,
    ),
    "workers": Kind(
        read=_read_workers,
        units={},
        example="workers",
        look="the logs of the worker: it was killed, or cannot reach the database",
    ),
    "tasks": Kind(
        read=_read_tasks,
        units=_COUNT,
        example="tasks=1",
        is_of_window=True,
        look="the tab Tasks of the admin, and the logs of the worker: it was killed, or cannot reach the database",
    ),
    "redis": Kind(
        read=_read_redis,
        units={},
        example="redis",
        look="the addresses in CHANNEL_LAYERS and CACHES, and manage.py mcp_doctor",
    ),
    "keys": Kind(
        read=_read_keys,
        units=_DAYS,
        most=90,
        example="keys=7d",
        holds_below=True,
        look="the API keys in the admin",
    ),
    "sign-ins": Kind(
        read=_read_sign_ins,
        units=_COUNT,
        example="sign-ins=20",
        is_of_window=True,
        look="the page Sign-ins of the admin",
    ),
}

_WRITTEN = re.compile(
    r"(?P<name>[^=]*)(=(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>[a-z%]*))?", re.ASCII
)


def parse_condition(text: str) -> Condition:
    """Return the condition that a text such as `"errors=5%"` asks for; raise ValueError if it asks for none."""
    name = text.partition("=")[0]
    kind = KINDS.get(name)
    if kind is None:
        close = find_near(name, list(KINDS), most=1)
        hint = f" Did you mean {close[0]}?" if close else f" Conditions: {', '.join(KINDS)}."
        raise ValueError(f"There is no condition {name!r}.{hint}")
    written = _WRITTEN.fullmatch(text)
    number = None if written is None else written["number"]
    if not kind.units:
        if "=" in text:
            raise ValueError(f"{name} has no limit: write {kind.example}.")
        return Condition(name=name, text=name, limit=None)
    if written is None or number is None or written["unit"] not in kind.units:
        wanted = " or ".join(f"a number with {unit}" if unit else "a number" for unit in kind.units)
        raise ValueError(f"{text} has no limit: write {wanted}, such as {kind.example}.")
    limit = float(number) * kind.units[written["unit"]]
    if not 0 < limit <= kind.most or math.isinf(limit):
        most = "" if kind.most == math.inf else f" and at most {kind.most:g}"
        raise ValueError(f"The limit of {text} must be above 0{most}, such as {kind.example}.")
    return Condition(name=name, text=f"{name}={float(number):g}{written['unit']}", limit=limit)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _join(rows: Sequence[object]) -> str:
    named = [str(row) for row in rows]
    return ", ".join([*named[:NAMED], "..."] if len(named) > NAMED else named)
