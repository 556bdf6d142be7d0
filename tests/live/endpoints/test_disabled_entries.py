"""Entries disabled in the database disappear in other processes without a message."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import R5, headers_for, message

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
    request = message(method, params, revision=R5)
    answer = httpx.post(site.url, json=request, headers=headers_for(request, R5), timeout=30)
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
