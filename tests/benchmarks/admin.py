"""The admin's pages on a large site: 1,000,000 calls of a week, 10,000 sessions and 2,000 streams.

    python -m tests.benchmarks.admin [--calls 1000000] [--engine sqlite|postgresql] [--keep FOLDER]

It fills a database of each engine by statements, and prints how long the pages take: the fastest
of three requests in process, without a cached chart, and the least processor time of this process.
Then it ends all sessions from their list.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import django

ENGINES = ("sqlite", "postgresql")
ROUNDS = 3
SESSIONS = 10_000
STREAMS = 2000
WORKERS = 2
PAGE_LIMIT_MS = 500
FEED_LIMIT_MS = 100
FEED_LIMIT_QUERIES = 10
FEED_LIMIT_BYTES = 20_000
END_LIMIT_S = 20

END = "ending all sessions"
"""What `--only` finds it by."""

WEEK_S = 7 * 24 * 3600
SERVER = "example-shop"
TOOLS = (
    "find_products",
    "convert_price",
    "place_order",
    "find_orders",
    "cancel_order",
    "gift_wrap",
)
"""Tools of the example shop, so that the charts know their names."""

COUNT = "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {count}) "

FUNCTIONS = {
    "sqlite": {
        "time": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', {}, 'unixepoch')",
        "hex": "printf('%%032x', {})",
        "whole": "CAST({} AS INTEGER)",
        "packed": "json_group_object(step, calls)",
    },
    "postgresql": {
        "time": "to_timestamp({})",
        "hex": "lpad(to_hex(CAST({} AS bigint)), 32, '0')",
        "whole": "CAST(floor({}) AS bigint)",
        "packed": "json_object_agg(step, calls)",
    },
}
"""What differs between the engines, with a place for the argument."""

ERRORS = 50
"""A page of them; each has more calls in a week than the list reads of one."""

_PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "start page": ("", {}),
    "running": ("callrecord/running/", {}),
    **{
        f"why slow, {span}": ("callrecord/slow/", {"span": span})
        for span in ("hour", "day", "week")
    },
    "why slow, above 500 ms": ("callrecord/slow/", {"span": "week", "slower": "500"}),
    **{f"mistakes, {span}": ("callrecord/mistakes/", {"span": span}) for span in ("hour", "week")},
    "live page's data": ("session/live/data/", {}),
    "live, of a client": ("session/live/data/", {"client": "client-7"}),
    "live, of a user": ("session/live/data/", {"user": "user-77"}),
    "live, last page": ("session/live/data/", {"sessions": "400", "streams": "80"}),
    "catalogue": ("disabledentry/", {}),
    **{
        f"catalogue by {name}": ("disabledentry/", {"o": name})
        for name in ("name", "calls", "errors", "p95")
    },
    "catalogue, last page by calls": ("disabledentry/", {"o": "-calls", "p": "99"}),
    "catalogue, search": ("disabledentry/", {"q": "generated_1"}),
    "catalogue, disabled entries": ("disabledentry/", {"state": "disabled"}),
    "chart of the hour": ("callrecord/charts/data/", {"span": "hour"}),
    "chart of the day": ("callrecord/charts/data/", {"span": "day"}),
    "chart of the week": ("callrecord/charts/data/", {"span": "week"}),
    "errors of the hour": ("errorgroup/", {"span": "hour"}),
    "errors of the day": ("errorgroup/", {"span": "day"}),
    "errors of the week": ("errorgroup/", {"span": "week"}),
    "one error": ("errorgroup/{error}/change/", {}),
    "calls of one error": ("callrecord/", {"fingerprint": "{error}"}),
    "calls": ("callrecord/", {}),
    "calls, last page": ("callrecord/", {"p": "400"}),
    "calls of a day": ("callrecord/", {"{day}": ""}),
    "calls of a tool": ("callrecord/", {"name": TOOLS[1]}),
    "calls of no tool": ("callrecord/", {"name": "tool-none"}),
    "calls with an outcome": ("callrecord/", {"outcome__exact": "fault"}),
    "calls with no such outcome": ("callrecord/", {"outcome__exact": "asked"}),
    "calls of a method": ("callrecord/", {"method__exact": "prompts/get"}),
    "calls of a server": ("callrecord/", {"server": SERVER}),
    "calls of no server": ("callrecord/", {"server": "backoffice"}),
    "calls of a revision": ("callrecord/", {"revision": "2024-11-05"}),
    "calls of a client": ("callrecord/", {"client": "client-7"}),
    "calls of no client": ("callrecord/", {"client": "nothing"}),
    "calls of a user": ("callrecord/", {"username": "user-77"}),
    "calls of no user": ("callrecord/", {"username": "nobody"}),
    "calls of a session": ("callrecord/", {"session": f"{77:032x}"}),
    "calls of a principal": ("callrecord/", {"principal": "session:77"}),
    "calls of an error": ("callrecord/", {"error": "KeyError", "name": TOOLS[1], "server": SERVER}),
    "calls, search for a name": ("callrecord/", {"q": TOOLS[1]}),
    "calls, search for a reference": ("callrecord/", {"q": f"{950_000:012x}"}),
    "calls, search for nothing": ("callrecord/", {"q": "nothing"}),
    **{
        f"calls by {name}": ("callrecord/", {"o": f"-{at}"})
        for at, name in enumerate(("time", "name", "method", "outcome", "duration", "user"), 1)
    },
    "sessions": ("session/", {}),
    "sessions, last page": ("session/", {"p": "100"}),
    "sessions of no server": ("session/", {"server": "backoffice"}),
    "sessions, search": ("session/", {"q": "client-7"}),
    "sessions, search for nothing": ("session/", {"q": "nothing"}),
    "streams": ("stream/", {}),
    "streams, search": ("stream/", {"q": "client-7"}),
    "subscriptions": ("subscription/", {}),
    "tasks": ("task/", {}),
    "API keys": ("apikey/", {}),
    "one session": (f"session/00000000-0000-0000-0000-{77:012x}/change/", {}),
    "one call": ("callrecord/{call}/change/", {}),
}
"""Path below the app's index, and query."""


def main() -> int:
    """Measure both engines, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.admin")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--tools", type=int, default=len(TOOLS), help="how many are called")
    parser.add_argument("--only", default="", help="the pages whose names this pattern finds")
    parser.add_argument(
        "--keep", default="", help="a folder: the database stays, and the next run does not fill it"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return _run(options.calls, options.tools, options.only, options.keep)
    failed = 0
    for engine in [options.engine] if options.engine else ENGINES:
        command = [sys.executable, "-m", "tests.benchmarks.admin", "--here", "--only", options.only]
        failed |= subprocess.run(
            [
                *command,
                "--calls",
                str(options.calls),
                "--tools",
                str(options.tools),
                "--keep",
                options.keep,
            ],
            env={**os.environ, "TEST_DATABASE": engine, "DJANGO_SETTINGS_MODULE": "tests.settings"},
            check=False,
        ).returncode
    return failed


def _run(calls: int, tools: int, only: str, kept: str) -> int:
    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test.utils import override_settings, setup_test_environment

    setup_test_environment()
    with (
        tempfile.TemporaryDirectory(prefix="admin-") as folder,
        override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "SESSION_STORE": "model"}),
    ):
        if connection.vendor == "sqlite":
            connection.settings_dict["TEST"]["NAME"] = str(Path(kept or folder, "db.sqlite3"))
        else:
            # Not that of tests, which a run of them may use.
            connection.settings_dict["TEST"]["NAME"] = "bench_admin"
        connection.creation.create_test_db(verbosity=0, autoclobber=True, keepdb=bool(kept))
        try:
            return _measure(calls, register(tools), only, is_kept=bool(kept))
        finally:
            # Threads of the package look for the database until the process ends.
            logging.disable()
            connection.creation.destroy_test_db(":memory:", verbosity=0, keepdb=bool(kept))


def register(count: int) -> Sequence[str]:
    """Return the names of so many tools: those of the shop, and others that are registered on its server."""
    from django_mcp.servers import default_server

    others = [f"generated_{at}" for at in range(count - len(TOOLS))]
    for name in others:
        default_server.register_tool(_do_nothing, name=name)
    return (*TOOLS, *others)[:count]


def _do_nothing(text: str = "") -> str:
    """Do nothing."""
    return text


def _measure(calls: int, tools: Sequence[str], only: str, *, is_kept: bool) -> int:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client

    from django_mcp.models import CallRecord

    started_s = time.perf_counter()
    if not CallRecord.objects.exists():
        fill(calls, tools)
    print(
        f"\n{connection.vendor}: {calls:,} calls of {len(tools)} tools, filled in {time.perf_counter() - started_s:.0f} s\n"
    )
    client = Client()
    boss, _ = get_user_model().objects.get_or_create(
        username="boss", is_staff=True, is_superuser=True
    )
    client.force_login(boss)
    slow = 0
    print("| page | ms | CPU here, ms | queries |\n| --- | ---: | ---: | ---: |")
    for name, (path, query) in _pages():
        if re.search(only, name):
            taken_ms, cpu_ms, queries = _time_page(client, path, query)
            slow += taken_ms > PAGE_LIMIT_MS
            print(f"| {name} | {taken_ms:.0f} | {cpu_ms:.0f} | {queries} |", flush=True)
    if not only:
        slow += _time_feed(boss)
    if not is_kept and re.search(only, END):
        slow += _time_end(client)
    return int(slow > 0)


def _pages() -> Iterator[tuple[str, tuple[str, dict[str, str]]]]:
    from datetime import timedelta

    from django.db.models import Max
    from django.utils import timezone

    from django_mcp.models import CallRecord, ErrorGroup

    frequent = ErrorGroup.objects.order_by("-calls").values_list("pk", flat=True)[0]
    newest = CallRecord.objects.aggregate(newest=Max("pk"))["newest"]
    day = timezone.localdate() - timedelta(days=3)
    for name, (path, query) in _PAGES.items():
        wanted = dict(query)
        if "{day}" in wanted:
            parts = {"year": day.year, "month": day.month, "day": day.day}
            wanted = {f"started_at__{each}": str(value) for each, value in parts.items()}
        wanted = {key: value.replace("{error}", frequent) for key, value in wanted.items()}
        yield name, (path.replace("{call}", str(newest)).replace("{error}", frequent), wanted)


def _time_page(client: Any, path: str, query: dict[str, str]) -> tuple[float, float, int]:
    from django.core.cache import cache
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    taken_ms, cpu_ms, queries = [], [], CaptureQueriesContext(connection)
    for _ in range(ROUNDS):
        cache.clear()
        with queries:
            start_s, cpu_s = time.perf_counter(), time.process_time()
            response = client.get(f"/admin/django_mcp/{path}", query)
            taken_ms.append((time.perf_counter() - start_s) * 1e3)
            cpu_ms.append((time.process_time() - cpu_s) * 1e3)
        if response.status_code != 200:
            raise RuntimeError(f"{path} {query}: {response.status_code}")
    return min(taken_ms), min(cpu_ms), len(queries)


def _time_feed(user: Any) -> int:
    """Print what a look at the live page costs, and the size of a change of every row."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from django_mcp.admin.live_rows import changes, find_tables, snapshot
    from django_mcp.models import Session
    from django_mcp.protocol.json import encode

    tables = find_tables(user)
    before = snapshot(user, tables)
    taken_ms, queries = [], CaptureQueriesContext(connection)
    for _ in range(9):
        with queries:
            start_s = time.perf_counter()
            snapshot(user, tables)
            taken_ms.append((time.perf_counter() - start_s) * 1e3)
    # Other sessions come to the first page, and each of its streams has something queued.
    newest = Session.objects.order_by("last_seen_at").values_list("pk", flat=True)[:25]
    Session.objects.filter(pk__in=list(newest)).update(last_seen_at=_now())
    _execute("UPDATE django_mcp_stream SET queued_events = queued_events + 1")
    size = len(encode(changes(before, snapshot(user, tables))))
    least, found = min(taken_ms), len(queries)
    print(f"\nlive feed: {least:.0f} ms, {found} queries; {size:,} bytes if every row changed")
    return least > FEED_LIMIT_MS or found > FEED_LIMIT_QUERIES or size > FEED_LIMIT_BYTES


def _time_end(client: Any) -> int:
    """End all sessions from their list, as its page does."""
    from django_mcp.models import Session

    first = str(Session.objects.values_list("pk", flat=True)[0])
    form = {"action": "end_selected", "select_across": "1", "index": "0", "_selected_action": first}
    start_s, longest_s, steps = time.perf_counter(), 0.0, 0
    response = client.post("/admin/django_mcp/session/", form)
    # The page that asks, then those that say how far it is; without its form, it is the list again.
    while hidden := dict(
        re.findall(r'name="(total|done|confirmed)" value="(\d+)"', response.content.decode())
    ):
        step_s = time.perf_counter()
        response = client.post("/admin/django_mcp/session/", {**form, **hidden}, follow=True)
        longest_s = max(longest_s, time.perf_counter() - step_s)
        steps += 1
    taken_s, left = time.perf_counter() - start_s, Session.objects.count()
    print(
        f"{END}, {SESSIONS:,}: {taken_s:.1f} s in {steps} requests, the longest "
        f"{longest_s:.2f} s; {left} left\n"
    )
    return taken_s > END_LIMIT_S or left > 0


# -- the database


def fill(calls: int, tools: Sequence[str] = TOOLS) -> None:
    """Fill an empty database: calls of some tools and their tallies, sessions, streams, subscriptions, tasks, keys."""
    from django.contrib.auth import get_user_model
    from django.db import connection

    from django_mcp.calls.rows import KEPT_MINUTES, PACKED, WHAT
    from django_mcp.models import Worker

    users = get_user_model().objects.bulk_create(
        get_user_model()(username=f"user-{i}") for i in range(1000)
    )
    first = users[0].pk
    workers = Worker.objects.bulk_create(
        Worker(host="host", pid=i, lease_until=_now(3600), in_flight=_IN_FLIGHT)
        for i in range(WORKERS)
    )
    now_s, call = time.time(), FUNCTIONS[connection.vendor]
    # Numbers that look like random ones, and are the same in each run.
    mixed = "((i * CAST(7919 AS bigint) + i / 13) % 1000)"
    started = f"({now_s} - {WEEK_S}.0 * ({calls} - i) / {calls})"
    names = " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(tools))
    in_session = call["hex"].format(f"(i % {SESSIONS})")
    _insert(
        "django_mcp_callrecord",
        calls,
        {
            "started_at": call["time"].format(started),
            "minute": call["whole"].format(f"({started} / 60)"),
            "duration_ms": f"1.0 + {mixed}",
            "step": f"{mixed} / 20",
            "server": f"'{SERVER}'",
            "method": "'tools/call'",
            "name": f"CASE i % {len(tools)} {names} END",
            "outcome": f"CASE WHEN {mixed} < 10 THEN 'fault' WHEN {mixed} < 30 THEN 'failed' ELSE 'done' END",
            "reference": f"CASE WHEN {mixed} < 10 THEN substr({call['hex'].format('i')}, 21) ELSE '' END",
            "user_id": f"{first} + i % 1000",
            "principal": "'session:' || (i % 1000)",
            "revision": "'2025-11-25'",
            "client_name": "'client-' || (i % 50)",
            "client_version": "'1.0'",
            "arguments": """'{"query":"string"}'""",
            "session": f"CASE WHEN i % 2 = 0 THEN {in_session} ELSE '' END",
            "coerced": "CASE WHEN i % 20 = 0 THEN 'query' ELSE '' END",
            "faulty": f"CASE WHEN {mixed} < 30 AND {mixed} >= 10 THEN 'query' ELSE '' END",
            "fingerprint": f"CASE WHEN {mixed} < 30 THEN {call['hex'].format(f'i % {ERRORS}')} ELSE '' END",
            "varied": "CASE WHEN i % 17 = 0 THEN 'query' ELSE '' END",
            "error": f"CASE WHEN {mixed} < 10 THEN 'KeyError' WHEN {mixed} < 30 THEN 'ToolError' ELSE '' END",
            "result_chars": f"40 * {mixed}",
            "result_bytes": f"50 * {mixed}",
            "queue_ms": f"0.2 * {mixed}",
            "handler_ms": f"0.7 * {mixed}",
        },
    )
    what = ", ".join(WHAT)
    for width in KEPT_MINUTES:
        _execute(
            f"INSERT INTO django_mcp_calltally (width, minute, {what}, step, calls, steps) "
            f"SELECT {width}, span, {what}, {PACKED}, sum(calls), {call['packed']} FROM "
            f"(SELECT minute - minute % {width} AS span, {what}, step, count(*) AS calls "
            f"FROM django_mcp_callrecord GROUP BY span, {what}, step) AS counted "
            f"GROUP BY span, {what}"
        )
    _execute(
        "INSERT INTO django_mcp_errorgroup (fingerprint, server, method, name, outcome, kind, error, place, "
        "message, traceback, calls, first_seen_at, last_seen_at) "
        "SELECT fingerprint, max(server), max(method), max(name), max(outcome), max(outcome), max(error), "
        "'shop.mcp.find', 'No such product', 'Traceback', count(*), min(started_at), max(started_at) "
        "FROM django_mcp_callrecord WHERE NOT (fingerprint = '') GROUP BY fingerprint"
    )
    for width in KEPT_MINUTES:
        _execute(
            f"INSERT INTO django_mcp_errortally (width, minute, fingerprint, calls) "
            f"SELECT {width}, minute - minute % {width}, fingerprint, count(*) FROM django_mcp_callrecord "
            f"WHERE NOT (fingerprint = '') GROUP BY minute - minute % {width}, fingerprint"
        )
    _fill_connections(first, [each.pk.hex for each in workers], now_s, call)
    _execute("ANALYZE")


_IN_FLIGHT = {
    "total": 40,
    "sessions": {f"{i:032x}": 1 for i in range(200)},
    "callers": [
        [SERVER, f"session:{i}", str(i), "2025-11-25", f"client-{i % 50}", "1.0", 1]
        for i in range(200)
    ],
    "threads": [5, 8, 0],
    "held": [],
    "exhausted": None,
    "long": [
        {
            "id": f"{i:032x}",
            "method": "tools/call",
            "name": TOOLS[i % len(TOOLS)],
            "server": SERVER,
            "user": str(i),
            "principal": f"session:{i}",
            "client": f"client-{i % 50} 1.0",
            "revision": "2025-11-25",
            "session": "",
            "task": "",
            "since": 0,
            "state": "running",
            "has_thread": True,
        }
        for i in range(100)
    ],
    "long_count": 1000,
}


def _fill_connections(first: int, workers: list[str], now_s: float, call: dict[str, str]) -> None:
    from django_mcp.extensions.tasks.site.models import Task
    from django_mcp.models import APIKey

    shared = {
        "server": f"'{SERVER}'",
        "principal_key": "'session:' || (i % 1000)",
        "user_id": f"{first} + i % 1000",
        "revision": "'2025-11-25'",
        "client_name": "'client-' || (i % 50)",
        "client_version": "'1.0'",
    }
    seen = call["time"].format(f"({now_s} - i)")
    key = _key(call["hex"].format("i"))
    _insert(
        "django_mcp_session",
        SESSIONS,
        shared
        | {
            "id": key,
            "digest": call["hex"].format("i"),
            "quota_key": "''",
            "capabilities": "'{}'",
            "is_initialized": "true",
            "log_level": "''",
            "transport": "'http'",
            "created_at": seen,
            "last_seen_at": seen,
            "expires_at": call["time"].format(f"({now_s} + 100000)"),
        },
    )
    _insert(
        "django_mcp_stream",
        STREAMS,
        shared
        | {
            "id": key,
            "kind": "'get'",
            "worker_id": f"CASE WHEN i % 2 = 0 THEN {_key(_quote(workers[0]))} ELSE {_key(_quote(workers[1]))} END",
            "session_id": key,
            "opened_at": seen,
            "lists": "''",
            "uri_count": "i % 5",
            "uri_digests": "''",
            "queued_events": "0",
        },
    )
    _insert(
        "django_mcp_subscription",
        2 * SESSIONS,
        {
            "session_id": _key(call["hex"].format(f"(i % {SESSIONS})")),
            "uri": "'product://' || i",
            "uri_digest": call["hex"].format("i"),
            "created_at": seen,
        },
    )
    Task.objects.bulk_create(
        (
            Task(
                id=f"task-{i}",
                server=SERVER,
                tool=TOOLS[i % len(TOOLS)],
                user_id=first + i % 1000,
                revision="2025-11-25",
                call={},
                status=Task.Status.COMPLETED,
                rounds={},
                created_at=_now(-i),
                updated_at=_now(-i),
                expires_at=_now(9999),
                ttl_ms=1000,
                poll_ms=1000,
            )
            for i in range(SESSIONS)
        ),
        batch_size=1000,
    )
    APIKey.objects.bulk_create(
        APIKey(prefix=f"{i:012x}", digest=f"{i:064x}", name=f"key {i}", user_id=first + i % 1000)
        for i in range(1000)
    )


def _key(text: str) -> str:
    from django.db import connection

    return f"CAST({text} AS uuid)" if connection.vendor == "postgresql" else text


def _quote(text: str) -> str:
    return f"'{text}'"


def _now(more_s: float = 0) -> Any:
    from datetime import timedelta

    from django.utils import timezone

    return timezone.now() + timedelta(seconds=more_s)


def _insert(table: str, count: int, columns: dict[str, str]) -> None:
    names, values = ", ".join(columns), ", ".join(columns.values())
    numbers = COUNT.format(count=count)
    _execute(f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM numbers")


def _execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement.replace("%%", "%"))


if __name__ == "__main__":
    sys.exit(main())
