"""The official suite's scenarios for authorization servers, with a browser in place of a user."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.conformance.suite import PRERELEASE, Suite
from tests.support.backends import require
from tests.support.oauth.browser import Browser
from tests.support.sites import Running, free_port

LIMIT_S = 120.0
AUTHORIZATION_URL = re.compile(r"http\S*response_type=code\S*")


@pytest.fixture(scope="module")
def suite() -> Suite:
    require(shutil.which("npm"), "npm is not installed")
    found = Suite()
    found.install(PRERELEASE)
    return found


def test_the_authorization_scenarios_pass(suite: Suite, shop: Running, tmp_path: Path):
    issuer, port = shop.url.removesuffix("/mcp"), free_port()
    redirect = f"http://127.0.0.1:{port}/callback"
    registration = {"redirect_uris": [redirect], "token_endpoint_auth_method": "none"}
    client = httpx.post(f"{issuer}/oauth/register/", json=registration, timeout=60.0).json()[
        "client_id"
    ]
    log = tmp_path / "log"
    arguments = ["--url", issuer, "--client-id", client, "--resource", shop.url]
    with running(suite, [*arguments, "-p", str(port), "-o", str(tmp_path / "out")], log) as process:
        url = await_authorization_url(log, process)
        with httpx.Client(timeout=60.0) as person:
            answer = Browser().visit(url)
            person.get(redirect, params=answer)
        status = process.wait(LIMIT_S)

    checks = [
        check
        for file in (tmp_path / "out").rglob("checks.json")
        for check in json.loads(file.read_text())
    ]
    statuses = {check["id"]: check["status"] for check in checks}
    assert status == 0, log.read_text()
    assert set(statuses.values()) <= {"SUCCESS", "INFO"}, checks
    assert len({file.parent for file in (tmp_path / "out").rglob("checks.json")}) == 2


@contextmanager
def running(suite: Suite, arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        command = [*suite.node(PRERELEASE), "authorization", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def await_authorization_url(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        found = AUTHORIZATION_URL.search(log.read_text())
        if found is not None:
            return re.sub(r"\x1b\[[0-9;]*m", "", found[0])
        time.sleep(0.05)
    raise AssertionError(log.read_text())
