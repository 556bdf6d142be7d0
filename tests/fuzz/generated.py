"""Fuzz the generated tools with extreme values: every argument of every tool of the test sites, in process.

Each call is made from the schema that its tool publishes. A call has failed if it ended in an internal error,
if something was logged as an error, or if a record of the log is long or has a line that a client wrote.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fuzz.extremes import Extremes
from tests.fuzz.failures import FAULT_TEXT, INTERNAL_ERROR, Failure

MAX_RECORD_CHARS = 60_000
CALLS_PER_CLEANUP = 500
REPORT_EVERY_S = 60.0


class Records(logging.Handler):
    """Keeps records that should not be there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = logging.Formatter().format(record)
        if record.levelno >= logging.ERROR:
            self.faults.append(f"logged: {found[:6000]}")
        elif len(found) > MAX_RECORD_CHARS:
            self.faults.append(f"a record of {len(found)} characters: {found[:500]}")
        elif not record.exc_info and len(found.splitlines()) > 1:
            self.faults.append(f"a record of several lines: {found[:500]!r}")


class Fuzzer:
    """Calls tools, reads resources and completes keys, and keeps what failed.

    Args:
        servers: whose tools are called.
        user: who calls them.
        seed: equal seeds make equal calls.
    """

    def __init__(self, servers: list[Any], user: Any, seed: int) -> None:
        self.failures: list[Failure] = []
        self.calls = 0
        self.outcomes: Counter[str] = Counter()
        self._servers = servers
        self._user = user
        self._seed = seed
        self._records = Records()
        self._known: dict[str, list[Any]] = {}
        self._targets = [(server, name) for server in servers for name in server.registry.tools]

    def run(self, calls: int, first: int = 0) -> None:
        """Make so many calls."""
        logger = logging.getLogger("django_mcp")
        logger.addHandler(self._records)
        reported_s = time.monotonic()
        try:
            for number in range(first, first + calls):
                if number == first or number % CALLS_PER_CLEANUP == 0:
                    self._begin_anew()
                self._call(number)
                if time.monotonic() - reported_s > REPORT_EVERY_S:
                    reported_s = time.monotonic()
                    print(f"{self.calls} calls, {len(self.failures)} failures", flush=True)
        finally:
            logger.removeHandler(self._records)

    def _begin_anew(self) -> None:
        from tests.fuzz.rows import make_rows

        self._known = make_rows(self._user)

    def _call(self, number: int) -> None:
        random = Random(f"{self._seed}/{number}")
        extremes = Extremes(random, self._known)
        if random.random() < 0.1:
            what, run = self._pick_resource(random, extremes)
        else:
            server, name = random.choice(self._targets)
            given = extremes.arguments(server.registry.tools[name].input_schema)
            what = f"{name} {str(given)[:3000]}"
            run = self._calling(server, name, given)
        self.calls += 1
        for why in [*self._judge(run), *self._records.faults]:
            self.failures.append(Failure(why=why, seed=self._seed, round=number, sent=what))
        self._records.faults.clear()

    def _calling(self, server: Any, name: str, given: dict[str, Any]) -> Callable[[], Any]:
        return lambda: server.call_tool(name, given, user=self._user)

    def _pick_resource(self, random: Random, extremes: Extremes) -> tuple[str, Callable[[], Any]]:
        found = [(server, uri) for server in self._servers for uri in server.registry.templates]
        server, template = random.choice(found)
        entry = server.registry.templates[template]
        name = random.choice(entry.argument_names)
        text = extremes.known_or_text(name)
        if random.random() < 0.5:
            return f"complete {template} {text[:500]!r}", lambda: server.complete(
                template, name, text, user=self._user
            )
        is_raw = random.random() < 0.2
        uri = template.replace(f"{{{name}}}", text if is_raw else quote(text, safe=""))
        return f"read {uri[:500]!r}", lambda: server.read_resource(uri, user=self._user)

    def _judge(self, run: Callable[[], Any]) -> Iterator[str]:
        from django_mcp.inprocess import MCPError

        try:
            found = run()
        except MCPError as error:
            self.outcomes[type(error).__name__] += 1
            if error.code == INTERNAL_ERROR:
                yield f"an internal error: {error.message[:2000]}"
            return
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            yield f"raised {error!r}"[:3000]
            return
        is_error = getattr(found, "is_error", False)
        self.outcomes["error" if is_error else "result"] += 1
        if is_error and FAULT_TEXT in found.text:
            yield found.text[:2000]


@contextmanager
def own_database(kind: str) -> Iterator[None]:
    """Set Django up with a database of this process, which is dropped in the end.

    Args:
        kind: `sqlite` or `postgresql`.
    """
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    if kind == "postgresql":
        os.environ["TEST_DATABASE"] = kind
        os.environ.setdefault("PGDATABASE", f"fuzz_values_{os.getpid()}")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment, teardown_test_environment

    setup_test_environment(debug=False)
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        teardown_test_environment()


def make_fuzzer(seed: int) -> Fuzzer:
    """Return a fuzzer of the generated tools of the library and the shop; Django is set up."""
    from django.contrib.auth.models import User

    from tests.support.library.tools import make_server
    from tests.support.site.shop_sources.mcp import server

    user = User.objects.create_superuser("root")
    return Fuzzer([make_server(f"fuzz-{seed}"), server], user, seed)


def run(calls: int, seed: int, kind: str, first: int = 0) -> list[Failure]:
    """Make so many calls on a database of their own; return the failures."""
    with own_database(kind):
        fuzzer = make_fuzzer(seed)
        began_s = time.monotonic()
        fuzzer.run(calls, first)
        spent_s = time.monotonic() - began_s
        print(f"{fuzzer.calls} calls on {kind} in {spent_s:.0f} s: {dict(fuzzer.outcomes)}")
    return fuzzer.failures
