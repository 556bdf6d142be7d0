"""Shared by all tests: which tests run by default, Hypothesis profiles, and services.

`addopts` in pyproject.toml runs the tests on all cores and leaves out those that are slow: tests/live,
which starts processes, browsers and services, except `KEPT`, and single tests with the mark.
"""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import translation
from hypothesis import HealthCheck, settings

from django_mcp import log
from django_mcp.execution import outages
from django_mcp.protocol.revisions import Revision
from django_mcp.test import listening
from tests.support.backends import (
    is_answering,
    mariadb_address,
    postgres_address,
    redis_address,
    require,
)
from tests.support.background import wait_for_pools

settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", parent=settings.get_profile("default"), max_examples=10)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

LIVE = Path(__file__).parent / "live"
KEPT = [LIVE / "auth/test_forbidden.py"]
"""Tests there that need nothing but Python: they are not slow."""
QUICK = "not slow"
"""The expression of marks in `addopts`."""
NEVER_AGAIN = [
    *(
        LIVE / name
        for name in (
            "auth",
            "contrib/oauth/test_token_races.py",
            "sessions",
            "transports/http/test_sockets.py",
            "transports/stdio/test_bad_input.py",
        )
    ),
    Path(__file__).parent / "fuzz",
]
"""Files and folders of tests that attack, race or kill; CI does not run them again after a failure."""
NEVER_AGAIN_WORDS = re.compile(
    r"(^|_)(attack|concurrent|confused|crash|dies|forged|hostile|kill|leak|race|replay|simultaneous|stolen)"
    r"(s|d|ed|er|ing|ly)?(_|\b)"
)
"""The words in their names that tell of such tests elsewhere."""


def named_paths(config: pytest.Config) -> list[Path]:
    """Return the files and folders that the command line names; none when it names no tests."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return []
    here = config.invocation_params.dir
    return [here / argument.partition("::")[0] for argument in config.args]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run files that are named one by one in this process: it starts sooner, and takes a debugger.

    Otherwise there are three processes for two cores, as about half of the time the tests wait.
    """
    paths = named_paths(config)
    if paths and all(path.is_file() for path in paths):
        return 0
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores * 3 // 2 or 1


def pytest_configure(config: pytest.Config) -> None:
    """Run slow tests that the command line names, unless it has an expression of marks of its own."""
    if config.option.markexpr != QUICK:
        return
    has_marks = any(argument.startswith("-m") for argument in config.invocation_params.args)
    paths = named_paths(config)
    if not has_marks and paths and all(p.is_file() or p.is_relative_to(LIVE) for p in paths):
        config.option.markexpr = ""


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name tests of a protocol revision after its date."""
    return val.name if isinstance(val, Revision) else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect files that `-m "not slow"` would deselect."""
    leaves_out = config.option.markexpr.startswith(QUICK) and collection_path.is_relative_to(LIVE)
    return True if leaves_out and not any(p.is_relative_to(collection_path) for p in KEPT) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no garbage collection look at modules and tests, which stay: they are very many."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what starts processes, and as `once` what looks for failures that come by chance."""
    for path, of_file in groupby(items, lambda item: item.path):
        is_slow = path.is_relative_to(LIVE) and path not in KEPT
        is_never_again = any(map(path.is_relative_to, NEVER_AGAIN))
        for item in of_file:
            # Where no service runs, the default run would skip these; so it takes as long everywhere.
            if is_slow or item.get_closest_marker("services") is not None:
                item.add_marker("slow")
            name = item.name.partition("[")[0].removeprefix("test_")
            if is_never_again or NEVER_AGAIN_WORDS.search(name):
                item.add_marker("once")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report why tests were skipped, in a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(autouse=True)
def _fresh_start() -> None:
    """Let each test log, and speak, as if it were the first: the middleware leaves its language active."""
    translation.deactivate()
    log.repetitions.reset()


@pytest.fixture(autouse=True)
def idle_pools(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the threads of the pools finish before the tables are emptied after a transactional test.

    The event loop of a test is closed by then, and whatever it waited for is cancelled: in a test that
    takes longer than `TICK_S`, also what the hub looks after. A query goes on in its thread all the same,
    and SQLite empties no table that is being read.
    """
    marker = request.node.get_closest_marker("django_db")
    is_marked = marker is not None and marker.kwargs.get("transaction", False)
    if not is_marked and "transactional_db" not in request.fixturenames:
        yield
        return
    # Its tables are emptied after this.
    request.getfixturevalue("transactional_db")
    yield
    wait_for_pools()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Note the migrations of a database whose tables were made without them, as `migrate` would."""
    with django_db_blocker.unblock():
        recorder = MigrationRecorder(connection)
        if not recorder.has_table():
            recorder.ensure_schema()
            loader = MigrationLoader(None)
            rows = [recorder.Migration(app=app, name=name) for app, name in loader.disk_migrations]
            recorder.migration_qs.bulk_create(rows)


@pytest.fixture(scope="session")
def postgres() -> tuple[str, int]:
    """Where PostgreSQL listens: PGHOST and PGPORT, or 127.0.0.1:5432."""
    host, port = postgres_address()
    require(is_answering(host, port), f"PostgreSQL does not answer on {host}:{port}")
    return host, port


@pytest.fixture(scope="session")
def mariadb() -> tuple[str, int]:
    """Where MariaDB or MySQL listens: MYSQL_HOST and MYSQL_PORT, or 127.0.0.1:3306.

    Its tests are skipped without one, on CI too.
    """
    host, port = mariadb_address()
    if not is_answering(host, port):
        pytest.skip(f"MariaDB does not answer on {host}:{port}")
    return host, port


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of a Redis: REDIS_HOST and REDIS_PORT, or 127.0.0.1:6379."""
    host, port = redis_address()
    require(is_answering(host, port), f"Redis does not answer on {host}:{port}")
    return f"redis://{host}:{port}"


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    """Let a busy machine not look like a database that does not answer, or a stream that does not open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outages, "TIMEOUT_S", 60.0)
        patch.setattr(listening, "LIMIT_S", 60.0)
        yield
