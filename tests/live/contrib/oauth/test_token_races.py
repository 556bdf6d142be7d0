"""Concurrent requests with one code or refresh token: nobody loses a session that others use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from tests.support.backends import Backends, connect
from tests.support.sites import ROOT, environment

SITE = "tests.support.site.oauth_races"
WON = [200, None]
LOST = [400, "invalid_grant"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    if request.param == "sqlite":
        yield Backends(sqlite=tmp_path / "db.sqlite3")
        return
    request.getfixturevalue("postgres")
    name = f"django_mcp_races_{os.getpid()}"
    with connect("postgres") as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield Backends(postgres=name)
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


def run_races(backends: Backends) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", SITE],
        cwd=ROOT,
        env=environment(SITE, backends.environment()),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_code_works_once_and_a_refresh_token_in_each_process(backends: Backends):
    found = run_races(backends)

    assert found["codes"].count(WON) == 1
    assert found["codes"].count(LOST) == 5
    # One exchanges the token, and five get further pairs, which is as many as there are.
    assert found["refreshes"] == [WON] * 6
    assert found["families"] == 1
    assert found["seventh"] == 400
    assert found["revocations"] == [200] * 6
    # The assertion got one of them as far as the code, which nobody had.
    assert found["assertions"].count(LOST) == 1
    assert found["assertions"].count([401, "invalid_client"]) == 5
    assert found["winners"] == [200] * 6
    # Much later, a reuse counts as theft and revokes the session, with all that was given.
    assert found["thief"] == 400
    assert found["after_the_thief"] == [400] * 6
    # A user's revocation beside refreshes leaves no token, whoever comes first.
    assert found["left_after_revocation"] == 0
    # Nor does the end of a sign-in whose oldest token is deleted while it waits.
    assert found["after_the_end"] == ([400] * 2 if backends.postgres else [])
