"""`mcp_doctor` against a healthy site, and against broken ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.support.answering import answering
from tests.support.commands import Shell
from tests.support.sites import Running, free_port, running


@pytest.fixture(scope="module", params=["uvicorn", "wsgi"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shell: Shell
) -> Iterator[Running]:
    # The site's processes and the command share one database.
    database = shell(
        "shell", "-c", "from django.db import connection as c; print(c.settings_dict['NAME'])"
    )
    log = tmp_path_factory.mktemp("doctor") / "server.log"
    name = database.stdout.splitlines()[-1]
    with running("example_project", request.param, log=log, extra={"SHOP_DATABASE": name}) as site:
        yield site


@pytest.mark.parametrize("path", ["/mcp", "/staff/mcp"])
def test_a_healthy_site_has_no_problems_over_asgi(site: Running, shell: Shell, path: str) -> None:
    done = shell("mcp_doctor", "--url", site.url.removesuffix("/mcp") + path, "--json")
    findings = {each["text"]: each for each in json.loads(done.stdout)["findings"]}

    assert findings["The endpoint answers"]["ok"]
    assert findings["Pages of other sites are rejected"]["ok"]
    assert findings["It answers at the paths with toolsets"]["ok"]
    if "uvicorn" in str(site.process.args):
        assert (done.returncode, done.stderr) == (0, "")
        assert findings["Events arrive as they are sent"]["ok"]
        assert findings["A change in another process reaches clients"]["ok"]
    else:
        assert done.returncode == 1
        assert "over ASGI" in findings["Nothing can be pushed: answers cannot stream here"]["fix"]


def test_a_site_that_is_to_be_listed_is_told_what_the_directory_demands(
    site: Running, shell: Shell
) -> None:
    done = shell("mcp_doctor", "--url", site.url, "--directory", "chatgpt", "--json")
    findings = {each["text"]: each for each in json.loads(done.stdout)["findings"]}

    assert done.returncode == 1
    (hints,) = [text for text in findings if "of find_products is not stated" in text]
    assert hints.startswith("ChatGPT: ")
    assert "open_world=False" in findings[hints]["fix"]
    assert any("http://127.0.0.1" in text and "not https" in text for text in findings)
    assert findings["The endpoint answers"]["ok"]


def test_tools_that_only_read_are_called_with_consent(site: Running, shell: Shell) -> None:
    done = shell("mcp_doctor", "--url", site.url, "--call-tools")

    (line,) = [line for line in done.stdout.splitlines() if "tools that only read" in line]
    called, fitting = map(int, re.findall(r"\d+", line))
    assert called == fitting > 0


def test_a_site_whose_sessions_cannot_be_stored(shell: Shell, tmp_path: Path) -> None:
    empty = {"SHOP_DATABASE": str(tmp_path / "empty.sqlite3")}
    with running("example_project", "wsgi", log=tmp_path / "log", extra=empty) as site:
        done = shell("mcp_doctor", "--url", site.url, "--json")

    findings = {each["text"]: each for each in json.loads(done.stdout)["findings"]}
    (text,) = [text for text in findings if text.startswith("A handshake fails with 503")]
    assert "migrate" in findings[text]["fix"]
    assert not findings[text]["ok"]


def test_a_server_without_a_handshake_is_healthy(shell: Shell, tmp_path: Path) -> None:
    extra = {"DJANGO_SETTINGS_MODULE": "tests.support.site.no_handshake_settings"}
    with running("example_project", "wsgi", log=tmp_path / "log", extra=extra) as site:
        done = shell("mcp_doctor", "--url", site.url)

    assert "ok    Clients that use a handshake get an error that names the stateless" in done.stdout


def test_a_rejected_token_is_reported(shell: Shell) -> None:
    with answering(401, {"WWW-Authenticate": "Bearer"}, b"") as front:
        done = shell("mcp_doctor", "--url", front.url, "--token", "wrong")

    assert "The token is refused" in done.stdout
    assert "Without a token" not in done.stdout


def test_an_endpoint_that_asks_for_sign_in_has_no_fault(shell: Shell) -> None:
    with answering(401, {"WWW-Authenticate": "Bearer"}, b"") as front:
        done = shell("mcp_doctor", "--url", front.url)

    assert (done.returncode, done.stderr) == (0, "")
    assert "note  Without a token nothing else was tried" in done.stdout


def test_an_unreachable_site_is_an_error(shell: Shell) -> None:
    done = shell("mcp_doctor", "--url", f"http://127.0.0.1:{free_port()}/mcp")

    assert done.returncode == 1
    assert "--url" in done.stderr


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (302, {"Location": "/login/"}, b"", "redirects to /login/"),
        (403, {"Content-Type": "text/html"}, b"<h1>CSRF</h1>", "with a page"),
        (401, {}, b"", "rejected without a challenge"),
        (400, {"Content-Type": "application/json"}, b'{"error": {"message": "no"}}', "400: no"),
    ],
)
def test_a_proxy_in_front(
    shell: Shell, status: int, headers: dict[str, str], body: bytes, told: str
) -> None:
    with answering(status, headers, body) as front:
        done = shell("mcp_doctor", "--url", front.url)

    assert done.returncode == 1
    assert told in done.stdout


@pytest.mark.django_db
def test_a_server_that_cannot_be_identified_by_its_url(
    site: Running, server_in_urlconf: str
) -> None:
    # The command has another URLconf than the site.
    out = StringIO()
    with suppress(CommandError):
        call_command("mcp_doctor", "--url", site.url, stdout=out, stderr=out)

    is_streamed = "Events arrive as they are sent" in out.getvalue()
    assert is_streamed is ("uvicorn" in str(site.process.args))
    assert ("Changes in another process were not tried" in out.getvalue()) is is_streamed


def test_an_address_that_redirects_gets_no_word_about_other_processes(shell: Shell) -> None:
    with answering(302, {"Location": "/login/"}, b"") as front:
        done = shell("mcp_doctor", "--url", f"{front.url}/elsewhere")

    assert "redirects to /login/" in done.stdout
    assert "another process" not in done.stdout


def test_a_server_without_a_url(shell: Shell, tmp_path: Path) -> None:
    done = shell("mcp_doctor", "--server", "nobody")

    assert done.returncode == 2
    assert "No MCP server is called" in done.stderr
