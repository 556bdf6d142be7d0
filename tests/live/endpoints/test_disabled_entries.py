"""Entries disabled in the database disappear in other processes without a message."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import is_answering, postgres_address, require
from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import V2026_07_28, headers_for, message

PACKAGE = "tests.support.site.browser"
WITHIN_S = 15


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Running]:
    extra = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3")}
    django(tmp_path, "migrate", "-v", "0")
    with running(PACKAGE, "uvicorn", log=tmp_path / "server.log", extra=extra) as found:
        yield found


def django(folder: Path, *command: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "django", *command],
        cwd=ROOT,
        env=environment(PACKAGE, {"SHOP_DATABASE": str(folder / "db.sqlite3")}),
        check=True,
        capture_output=True,
    )


def ask(site: Running, method: str, **params: Any) -> dict[str, Any]:
    request = message(method, params, revision=V2026_07_28)
    answer = httpx.post(
        site.url, json=request, headers=headers_for(request, V2026_07_28), timeout=30
    )
    found: dict[str, Any] = answer.json()
    return found


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def listed(site: Running) -> set[str]:
    return {each["name"] for each in ask(site, "tools/list")["result"]["tools"]}


def test_another_process_can_disable_and_enable_a_tool(site: Running, tmp_path: Path):
    assert "greet" in listed(site)
    row = "server='browser-site', kind='tools', key='greet'"
    load = "from django_mcp.models import DisabledEntry as D;"
    django(tmp_path, "shell", "-v", "0", "-c", f"{load} D.objects.create({row})")
    until(lambda: "greet" not in listed(site))

    refused = ask(site, "tools/call", name="greet", arguments={"name": "Ann"})["error"]
    unknown = ask(site, "tools/call", name="great", arguments={"name": "Ann"})["error"]
    assert refused["message"].replace("greet", "great") == unknown["message"]
    assert refused["code"] == unknown["code"]

    django(tmp_path, "shell", "-v", "0", "-c", f"{load} D.objects.filter({row}).delete()")
    until(lambda: "greet" in listed(site))


def test_a_disabled_entry_is_missing_from_the_first_request(tmp_path: Path):
    django(tmp_path, "migrate", "-v", "0")
    django(
        tmp_path,
        "shell",
        "-v",
        "0",
        "-c",
        "from django_mcp.models import DisabledEntry as D;"
        "D.objects.create(server='browser-site', kind='tools', key='greet')",
    )
    extra = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3")}
    with running(PACKAGE, "uvicorn", log=tmp_path / "server.log", extra=extra) as site:
        assert "error" in ask(site, "tools/call", name="greet", arguments={"name": "Ann"})


END_OF_A_RUN = """
import os, threading
import django
django.setup()
from django.conf import settings
from django.db import connection
from django_mcp.endpoints.disabled_entries import watch

name = settings.DATABASES["default"]["NAME"]
connection.creation.create_test_db(verbosity=0)
watch()
(thread,) = [each for each in threading.enumerate() if each.name == "django-mcp-disabling"]
connection.creation.destroy_test_db(name, verbosity=0)
thread.join(60)
print("ended" if not thread.is_alive() else "reads on")
"""


@pytest.mark.services
def test_a_test_run_on_postgresql_ends_without_reading_the_database_of_the_site():
    require(is_answering(*postgres_address()), "PostgreSQL does not answer")
    database = {"TEST_DATABASE": "postgresql", "PGDATABASE": f"disabling_{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "-c", END_OF_A_RUN],
        cwd=ROOT,
        env={**os.environ, **database, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "ended"
    assert "Cannot read" not in done.stderr
