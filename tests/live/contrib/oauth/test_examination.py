"""The doctor reports nothing on a correct site, and names what would stop a client on another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from django_mcp.contrib.oauth import examination
from tests.support.oauth.browser import SITE, Browser
from tests.support.sites import ROOT, Running, environment


def test_a_correct_site_passes_every_step_of_the_doctor(shop: Running):
    findings = examination.run(shop.url, Browser().arrive)

    assert [finding for finding in findings if not finding.ok] == []
    assert [finding.text for finding in findings][-1] == "A revoked token is refused."
    assert len(findings) == 9


def test_the_command_runs_the_whole_flow_with_a_site_user(
    shop: Running, request: pytest.FixtureRequest
):
    """The token that it obtains is used for all further requests."""
    # The command needs the site's own database, to sign the user in.
    folder = shop.log.parent
    done = subprocess.run(
        [
            sys.executable,
            "manage.py",
            "mcp_doctor",
            "--url",
            shop.url,
            "--oauth",
            "--user",
            "ada",
            "--json",
        ],
        cwd=ROOT,
        env=environment(SITE, {"SHOP_DATABASE": str(folder / "db.sqlite3")}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    findings = json.loads(done.stdout)["findings"]
    found = [each["text"] for each in findings]
    faults = [each["text"] for each in findings if not each["ok"]]
    is_wsgi = "wsgi" in request.node.name

    assert faults == ["Nothing can be pushed: answers cannot stream here"] * is_wsgi
    assert done.returncode == int(is_wsgi)
    assert found.index("The endpoint takes the token.") < found.index("The endpoint answers")
    assert found[-1] == "A revoked token is refused."


def test_without_a_user_it_stops_at_the_consent_page(shop: Running):
    findings = examination.run(shop.url)

    assert all(finding.ok for finding in findings)
    assert findings[-1].text == "The authorization page asks people to sign in."


def test_a_foreign_url_is_reported(shop: Running):
    findings = examination.run(shop.url.replace("127.0.0.1", "localhost") + "/nothing")

    assert not findings[-1].ok
