"""The doctor passes every known client on a correct site, leaves nothing behind, and names who would fail elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from django_mcp.contrib.oauth import examination
from django_mcp.contrib.oauth.published_clients import find_published_clients
from django_mcp.management.doctor.http import Unreachable
from tests.support.backends import require
from tests.support.doc_blocks import blocks_of
from tests.support.nginx import nginx
from tests.support.oauth.browser import SITE, arrive_or_tell
from tests.support.oauth.doctor import Examined, examine, read_rows
from tests.support.oauth.local_documents import CERTIFICATE, PUBLISHED
from tests.support.oauth.played import Played, call
from tests.support.sites import ROOT, Running, environment, free_port, running

CLIENTS = find_published_clients()
EACH = ["introduction", "consent", "token", "call", "expiry", "refresh", "step-up", "revocation"]
STREAMS = "Nothing can be pushed: answers cannot stream here"

Extra = dict[str, str]


@pytest.fixture
def extra(shop: Running, certificate: Path, published: int) -> Extra:
    """The variables with which the shop runs."""
    return {
        "SHOP_DATABASE": str(shop.log.parent / "db.sqlite3"),
        CERTIFICATE: str(certificate),
        PUBLISHED: str(published),
    }


def steps_of(client: Any) -> list[str]:
    steps = [*EACH]
    if client.registers_twice:
        steps.insert(1, "second registration")
    if "jwks_uri" in client.metadata:
        steps.insert(steps.index("call"), "keys")
    if client.refreshes_at_once:
        steps.insert(steps.index("step-up"), "refresh in two processes")
    return steps


def test_every_known_client_passes_on_a_correct_site_and_nothing_is_left(
    shop: Running, extra: Extra, request: pytest.FixtureRequest
):
    """The same user is signed in by one of the clients, whose document the site knows, and stays so."""
    client = next(
        each for each in CLIENTS if each.name == "Claude Code" and each.kind == "document"
    )
    played = Played.arrive(client, shop.url)
    played.introduce()
    tokens = played.get_tokens()
    before = read_rows(extra["SHOP_DATABASE"])

    examined = examine(shop.url, extra, "--user", "ada")

    assert read_rows(extra["SHOP_DATABASE"]) == before
    is_wsgi = "wsgi" in request.node.name
    assert list(examined.fixes) == [STREAMS] * is_wsgi
    assert examined.status == int(is_wsgi)
    assert examined.passed() == {str(each): steps_of(each) for each in CLIENTS}
    # The token that the first flow brings is used for all other tests of the endpoint.
    taken = examined.good.index("The endpoint takes the token.")
    assert taken < examined.good.index("The endpoint answers")
    assert "A revoked token is refused." in examined.good
    assert call(shop.url, tokens["access_token"]).status_code == 200
    assert played.post(grant_type="refresh_token", refresh_token=tokens["refresh_token"])


def test_without_a_user_clients_introduce_themselves(shop: Running, extra: Extra):
    before = read_rows(extra["SHOP_DATABASE"])

    examined = examine(shop.url, extra)

    registrations = {str(each) for each in CLIENTS if each.kind == "registration"}
    assert set(examined.passed()) == registrations
    assert {steps[0] for steps in examined.passed().values()} == {"introduction"}
    assert [text for text in examined.good if text.startswith("Not played without a person")]
    assert list(examined.fixes) == []
    assert "Without a token nothing else was tried" in examined.good
    assert read_rows(extra["SHOP_DATABASE"]) == before


def test_only_the_named_clients_are_played(shop: Running, extra: Extra):
    examined = examine(shop.url, extra, "--user", "ada", "--client", "claude", "--client", "Goose")

    assert set(examined.passed()) == {
        "Claude (document)",
        "Claude (registration)",
        "Goose (document)",
    }


def test_from_python_without_the_database_nothing_expires(shop: Running):
    findings = examination.run(shop.url, arrive_or_tell, clients=find_published_clients(["Cursor"]))

    assert [finding for finding in findings if not finding.ok] == []
    passed, told = findings[-2:]
    steps = ", ".join(step for step in EACH if step != "expiry")
    assert passed.text == f"Cursor (registration) passes: {steps}"
    assert told.text == "Not played without the site's database: tokens that expire."


def test_clients_are_played_although_the_page_answers_nobody(shop: Running):
    """As behind a second factor, which the doctor does not have."""

    def stay_outside(url: str) -> str:
        raise Unreachable("The page answers 403")

    findings = examination.run(shop.url, stay_outside, clients=find_published_clients(["Cursor"]))

    failed = [finding.text for finding in findings if not finding.ok]
    assert failed[0] == "The page answers 403"
    assert failed[1].startswith("Cursor (registration) fails at consent: The page answers 403.")


def test_a_command_that_may_not_write_plays_what_needs_no_person(shop: Running, extra: Extra):
    changed = {**extra, "SHOP_DATABASE": f"file:{extra['SHOP_DATABASE']}?mode=ro"}

    examined = examine(shop.url, changed, "--user", "ada", "--client", "Cursor")

    assert examined.passed() == {"Cursor (registration)": ["introduction"]}
    assert [text for text in examined.fixes if text.startswith("Nobody can be signed in")]
    assert [text for text in examined.good if text.startswith("Not played without a person")]
    assert examined.status == 1


def test_a_foreign_url_is_reported(shop: Running):
    findings = examination.run(shop.url.replace("127.0.0.1", "localhost") + "/nothing")

    assert not findings[-1].ok


# -- other sites


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a shop that nobody has used."""
    database = tmp_path_factory.mktemp("prepared") / "db.sqlite3"
    subprocess.run(
        [sys.executable, "manage.py", "demo", "--prepare"],
        cwd=ROOT,
        env=environment(SITE, {"SHOP_DATABASE": str(database)}),
        check=True,
    )
    return database


Serve = Callable[..., Any]


@pytest.fixture
def serve(prepared: Path, tmp_path: Path, certificate: Path, published: int) -> Serve:
    """Serve a shop of its own with other settings; yields it, and the variables with which it runs."""

    @contextmanager
    def serve(server: str, changes: Extra) -> Iterator[tuple[Running, Extra]]:
        database = tmp_path / "db.sqlite3"
        shutil.copyfile(prepared, database)
        extra = {
            "SHOP_DATABASE": str(database),
            CERTIFICATE: str(certificate),
            PUBLISHED: str(published),
            **changes,
        }
        with running(SITE, server, log=tmp_path / "log", extra=extra) as site:
            yield site, extra

    return serve


def ways(*names: str, kinds: tuple[str, ...] = ("document", "registration")) -> set[str]:
    return {str(each) for each in CLIENTS if each.name in names and each.kind in kinds}


SHARING = ("Claude Code", "Codex", "opencode", "mcp-remote")
UNDOCUMENTED = ("Claude Desktop", "Cursor", "Gemini CLI", "mcp-remote")
REST = {client.name for client in CLIENTS} - {"ChatGPT"}


@pytest.mark.parametrize(
    ("server", "changes", "step", "failing", "fix"),
    [
        pytest.param(
            "uvicorn",
            {"TESTS_DJANGO_MCP": '{"OAUTH_REFRESH_GRACE_S": 0}'},
            "refresh in two processes",
            ways(*SHARING),
            "OAUTH_REFRESH_GRACE_S",
            id="no grace",
        ),
        pytest.param(
            "wsgi",
            {"TESTS_DJANGO_MCP": '{"OAUTH_APP_REDIRECTS": ["vscode://a/"]}'},
            "introduction",
            ways("Cursor", "Claude Desktop"),
            "OAUTH_APP_REDIRECTS",
            id="no redirects to programs",
        ),
        pytest.param(
            "uvicorn",
            {"TESTS_OAUTH2_PROVIDER": '{"DCR_ENABLED": false}'},
            "introduction",
            ways(*UNDOCUMENTED),
            "DCR_ENABLED",
            id="no registration",
        ),
        pytest.param(
            "wsgi",
            {"TESTS_OAUTH2_PROVIDER": '{"CIMD_ENABLED": false}'},
            "introduction",
            ways("Goose"),
            "CIMD_ENABLED",
            id="no documents",
        ),
        pytest.param(
            "wsgi",
            {"TESTS_DJANGO_MCP": '{"AUTH_CHALLENGE": "http"}'},
            "step-up",
            ways("ChatGPT"),
            "AUTH_CHALLENGE",
            id="challenges by status alone",
        ),
        pytest.param(
            "uvicorn",
            {"TESTS_DJANGO_MCP": '{"AUTH_CHALLENGE": "tool_result"}'},
            "step-up",
            ways(*REST),
            "AUTH_CHALLENGE",
            id="challenges in results alone",
        ),
    ],
)
def test_the_clients_that_a_site_would_stop_are_named(
    server: str,
    changes: Extra,
    step: str,
    failing: set[str],
    fix: str,
    serve: Serve,
):
    with serve(server, changes) as (site, extra):
        before = read_rows(extra["SHOP_DATABASE"])
        examined = examine(site.url, extra, "--user", "ada")
        after = read_rows(extra["SHOP_DATABASE"])

    assert examined.status == 1
    assert examined.failed() == dict.fromkeys(failing, step)
    assert {fix in remedy for text, remedy in examined.fixes.items() if " fails at " in text} == {
        True
    }
    assert {each.name for each in CLIENTS} == names_in(examined.passed()) | names_in(failing)
    assert after == before


def names_in(clients: Any) -> set[str]:
    return {each.rpartition(" (")[0] for each in clients}


def test_documents_that_the_site_cannot_read_are_named_with_the_reason(serve: Serve):
    with serve("uvicorn", {PUBLISHED: str(free_port())}) as (site, extra):
        examined = examine(site.url, extra, "--user", "ada")

    assert set(examined.failed()) == {str(each) for each in CLIENTS if each.kind == "document"}
    assert set(examined.failed().values()) == {"consent"}
    text = next(each for each in examined.fixes if each.startswith("Claude (document)"))
    assert "could not fetch the document in time" in text
    assert "Check that this site can reach it" in examined.fixes[text]


# -- a path prefix

LINES = """
proxy_http_version 1.1;
proxy_buffering off;
proxy_set_header Host $http_host;
"""


def documented_locations() -> str:
    """Return what the deployment guide writes for a site below `/shop/`."""
    blocks = blocks_of(ROOT / "docs" / "howto" / "deploy.md")
    (block,) = [each.text for each in blocks if "location /shop/" in each.text]
    return LINES + block


def examine_below_a_prefix(
    serve: Serve, server: str, forced: str, tmp_path: Path, *options: str
) -> Examined:
    program = shutil.which("nginx")
    require(program, "there is no nginx (Debian: apt-get install nginx)")
    folder = tmp_path / "nginx"
    folder.mkdir()
    with (
        serve(server, {"TESTS_SCRIPT_NAME": forced}) as (site, extra),
        nginx(
            str(program),
            folder,
            documented_locations(),
            upstream=f"upstream mcp {{ server 127.0.0.1:{site.port}; }}",
        ) as front,
    ):
        url = f"http://127.0.0.1:{front.port}/shop/mcp"
        return examine(url, extra, "--user", "ada", *options)


@pytest.mark.parametrize("server", ["uvicorn", "wsgi"])
def test_every_known_client_passes_below_a_path_prefix(server: str, serve: Serve, tmp_path: Path):
    examined = examine_below_a_prefix(serve, server, "/shop", tmp_path)

    assert list(examined.fixes) == [STREAMS] * (server == "wsgi")
    assert examined.passed() == {str(client): steps_of(client) for client in CLIENTS}


def test_with_a_wrong_prefix_no_client_gets_further(serve: Serve, tmp_path: Path):
    examined = examine_below_a_prefix(serve, "uvicorn", "/other", tmp_path, "--client", "VS Code")

    assert "No client gets further: VS Code." in examined.fixes
    assert examined.status == 1
