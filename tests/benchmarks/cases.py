"""What is measured: each case is one request, or one burst of event streams, on one of the sites."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks import load, usage
from tests.benchmarks.messages import LEGACY, MODERN, Request, call, request
from tests.support import sites

CONNECTIONS = 16
EVENTS = 100
STREAMS = 8
EVENT_MARKER = b"notifications/progress"
TEXT = {"text": "hello world"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One measurement. An operation is a request or an event; CPU is the server's, None where unknown."""

    per_s: float
    cpu_ms_each: float | None
    p50_ms: float | None = None
    p99_ms: float | None = None
    errors: int = 0
    busy_cores: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One row of the table; `against` names the row that shows what cannot be avoided."""

    name: str
    site: str
    build: Callable[[int], Request]
    against: str | None = None
    streams: bool = False
    shakes_hands: bool = False


def _call(
    tool: str, arguments: dict[str, Any], *, revision: str = MODERN, **how: Any
) -> Callable[[int], Request]:
    """Return what builds the call: of the older revision on a session opened for it."""

    def build(port: int) -> Request:
        session = load.session_at(port) if revision == LEGACY else None
        return call(port, tool, arguments, revision=revision, session=session, **how)

    return build


def _list(revision: str) -> Callable[[int], Request]:
    def build(port: int) -> Request:
        session = load.session_at(port) if revision == LEGACY else None
        return request(port, "tools/list", {}, revision=revision, session=session)

    return build


def _progress(revision: str) -> Callable[[int], Request]:
    return _call("progress", {"count": EVENTS}, revision=revision, progress_token="t", close=True)


FLOOR, CONSUMER, VIEW = "floor", "consumer", "view"

CASES = (
    Case(name="floor: call", site=FLOOR, build=_call("aecho", TEXT, revision=MODERN)),
    Case(
        name="call, async tool",
        site=CONSUMER,
        build=_call("aecho", TEXT, revision=MODERN),
        against="floor: call",
    ),
    Case(
        name="call, sync tool",
        site=CONSUMER,
        build=_call("echo", TEXT, revision=MODERN),
        against="floor: call",
    ),
    Case(
        name="call on a session, async tool",
        site=CONSUMER,
        build=_call("aecho", TEXT, revision=LEGACY),
        against="call, async tool",
    ),
    Case(
        name="call on a session, sync tool",
        site=CONSUMER,
        build=_call("echo", TEXT, revision=LEGACY),
        against="call, sync tool",
    ),
    Case(
        name="call, one ORM query",
        site=CONSUMER,
        build=_call("db_get", {}, revision=MODERN),
        against="floor: call",
    ),
    Case(name="floor: list", site=FLOOR, build=_list(MODERN)),
    Case(name="list", site=CONSUMER, build=_list(MODERN), against="floor: list"),
    Case(name="list on a session", site=CONSUMER, build=_list(LEGACY), against="floor: list"),
    Case(
        name="handshake: initialize, initialized, list",
        site=CONSUMER,
        build=_list(LEGACY),
        shakes_hands=True,
    ),
    Case(name="floor: progress", site=FLOOR, build=_progress(MODERN), streams=True),
    Case(
        name="progress, per event",
        site=CONSUMER,
        build=_progress(MODERN),
        against="floor: progress",
        streams=True,
    ),
    Case(
        name="progress on a session, per event",
        site=CONSUMER,
        build=_progress(LEGACY),
        against="floor: progress",
        streams=True,
    ),
    Case(
        name="bare Django view",
        site=VIEW,
        build=_call("aecho", TEXT, revision=MODERN, path="/bare"),
    ),
    Case(
        name="plain view: call, async tool",
        site=VIEW,
        build=_call("aecho", TEXT, revision=MODERN),
        against="bare Django view",
    ),
)


def check(case: Case, site: sites.Running) -> None:
    """Ask once and look at the answer: a load of refusals would measure nothing."""
    built = case.build(site.port)
    if case.streams:
        found = asyncio.run(load.count_events(site.port, [built], EVENT_MARKER))
        if found != EVENTS:
            raise RuntimeError(f"{case.name}: {found} of {EVENTS} events arrived")
        return
    status, body = asyncio.run(load.ask_once(site.port, built))
    if status != 200 or b'"result"' not in body or b'"isError":true' in body:
        raise RuntimeError(f"{case.name}: HTTP {status}: {body[:300]!r}")


def measure(case: Case, site: sites.Running, *, seconds: int, core: int | None) -> Figures:
    """Measure one case once, after a short warm-up."""
    built = case.build(site.port)

    def put_load(for_s: float) -> load.Load:
        if case.streams:
            return _bursts(site, built, for_s)
        if case.shakes_hands:
            return load.handshakes(site.port, connections=CONNECTIONS, seconds=for_s)
        return load.run(
            site.port, built, connections=CONNECTIONS, seconds=max(1, round(for_s)), core=core
        )

    put_load(1)
    cpu, machine = usage.cpu_seconds(site.process.pid), usage.machine()
    found = put_load(seconds)
    used = usage.cpu_seconds(site.process.pid)
    busy = usage.busy_cores(machine, usage.machine())
    done = max(1, found.requests)
    return Figures(
        per_s=found.requests / found.wall_s,
        cpu_ms_each=None if cpu is None or used is None else (used - cpu) * 1e3 / done,
        p50_ms=None if case.streams else found.p50_ms,
        p99_ms=None if case.streams else found.p99_ms,
        errors=found.errors,
        busy_cores=busy,
    )


def _bursts(site: sites.Running, built: Request, seconds: float) -> load.Load:
    """Open several event streams at once, again and again; the events are the operations."""
    began, events, asked = time.perf_counter(), 0, 0
    while time.perf_counter() < began + seconds:
        events += asyncio.run(load.count_events(site.port, [built] * STREAMS, EVENT_MARKER))
        asked += STREAMS
    wall_s = time.perf_counter() - began
    return load.Load(
        requests=events, errors=asked * EVENTS - events, wall_s=wall_s, p50_ms=0, p99_ms=0
    )


def import_ms(statements: Sequence[str], *, rounds: int) -> list[float]:
    """Time the statements in fresh processes in which Django is set up without this library."""
    program = "\n".join(
        [
            "import time, django",
            "from django.conf import settings",
            "apps = ['django.contrib.contenttypes', 'django.contrib.auth', 'channels']",
            "settings.configure(INSTALLED_APPS=apps, SECRET_KEY='x', ALLOWED_HOSTS=['*'])",
            "django.setup()",
            "import django.core.asgi, django.urls, django.views.decorators.csrf, django.db.transaction",
            "began = time.perf_counter()",
            *statements,
            "print((time.perf_counter() - began) * 1e3)",
        ]
    )
    found = []
    for _ in range(rounds):
        output = subprocess.run(
            [sys.executable, "-c", program],
            cwd=sites.ROOT,
            env=sites.environment("tests.benchmarks"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if output.returncode:
            raise RuntimeError(f"the import failed:\n{output.stderr[-1000:]}")
        found.append(float(output.stdout))
    return found


def median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
