"""Run `mcp_doctor --oauth` in a process of its own, with the settings and the database of a site."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.oauth.browser import SITE
from tests.support.sites import ROOT, environment

TOLD = {
    "django_mcp_busmessage",
    "django_mcp_callrecord",
    "django_mcp_calltally",
    "django_mcp_lastcall",
    "django_mcp_errorgroup",
    "django_mcp_errortally",
    "django_mcp_oauth_signin",
    "django_mcp_worker",
    "sqlite_sequence",
}
"""Tables of what happened, which the doctor leaves as everybody does."""


class Examined:
    """What the doctor told: the findings by their texts, in their order."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status = done.returncode
        assert done.stdout, done.stderr
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        self.good = [each["text"] for each in findings if each["ok"]]
        self.fixes = {each["text"]: each["fix"] for each in findings if not each["ok"]}

    def passed(self) -> dict[str, list[str]]:
        """Return the steps of each client that passes."""
        told = (text.split(" passes: ") for text in self.good if " passes: " in text)
        return {client: steps.split(", ") for client, steps in told}

    def failed(self) -> dict[str, str]:
        """Return the step at which each other client fails."""
        told = (text.partition(" fails at ") for text in self.fixes if " fails at " in text)
        return {client: rest.partition(":")[0] for client, _, rest in told}


def examine(url: str, extra: dict[str, str], *options: str) -> Examined:
    """Run the command on an endpoint.

    Args:
        extra: the variables with which the site runs.
    """
    arguments = ["mcp_doctor", "--url", url, "--oauth", "--json", *options]
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(SITE, extra),
        capture_output=True,
        text=True,
        check=False,
    )
    return Examined(done)


def read_rows(database: str | Path) -> dict[str, list[Any]]:
    """Return the rows of a site's tables, but for those that tell what happened."""
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = sorted(name for (name,) in names if name not in TOLD)
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
