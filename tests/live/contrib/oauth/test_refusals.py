"""Every refusal of the authorization endpoint: a page for the person, one warning, and one row."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from html import escape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from django.utils import translation

from django_mcp.contrib.oauth import documents, refusals
from tests.support.oauth.browser import PASSWORD, SITE, hidden_fields
from tests.support.oauth.local_documents import CERTIFICATE, HOST, document, publish, serving
from tests.support.sites import ROOT, Running, environment, running

REDIRECT = "https://client.example/callback"
MAKE_PEOPLE = """
from django.contrib.auth import get_user_model
users = get_user_model().objects
password = users.get(username="ada").password
users.bulk_create(users.model(username=f"person-{n}", password=password) for n in range(100))
"""
numbers = count()


@dataclass(kw_only=True)
class Case:
    """A request that is refused.

    Attributes:
        changes: of a good request's parameters; None leaves one out.
        more: the end of the query.
        published: the document of the client.
        settings: of the site.
        fields: changes of the form of the consent page.
    """

    changes: dict[str, str | None] = field(default_factory=dict)
    name: str
    field: str
    happened: Any
    more: str = ""
    published: dict[str, Any] | None = None
    settings: str = "{}"
    fields: dict[str, str] | None = None
    status: int = 400
    code: str = "invalid_request"
    goes_on: bool = False


CASES = [
    Case(
        name="no client", field="client_id", happened=refusals.UNKNOWN, changes={"client_id": None}
    ),
    Case(
        name="an unknown client",
        field="client_id",
        happened=refusals.UNKNOWN,
        changes={"client_id": "nobody"},
    ),
    Case(
        name="a document that cannot be read",
        field="client_id",
        happened=documents.UNREADABLE,
        changes={"client_id": "https://client.test:9/client.json"},
        code="invalid_client",
    ),
    Case(
        name="a document of another client",
        field="client_id",
        happened=documents.UNUSABLE,
        published={"client_id": "https://client.test/other.json"},
        code="invalid_client",
    ),
    Case(
        name="a document without an allowed redirect",
        field="redirect_uris",
        happened=documents.UNUSABLE,
        published={"redirect_uris": ["http://client.example/"]},
        code="invalid_client",
    ),
    Case(
        name="too many of a network",
        field="client_id",
        happened=documents.TOO_MANY_OF_NETWORK,
        published={},
        settings='{"OAUTH_REGISTRATIONS_PER_HOUR": 1}',
        status=429,
        code="temporarily_unavailable",
    ),
    Case(
        name="no room",
        field="client_id",
        happened=documents.TOO_MANY,
        published={},
        settings='{"OAUTH_MAX_REGISTERED": 1}',
        status=429,
        code="temporarily_unavailable",
    ),
    Case(
        name="another redirect",
        field="redirect_uri",
        happened=refusals.WRONG_PLACE,
        changes={"redirect_uri": "https://evil.example/"},
    ),
    Case(
        name="no PKCE",
        field="code_challenge",
        happened=refusals.UNPROTECTED,
        changes={"code_challenge": None, "code_challenge_method": None},
        goes_on=True,
    ),
    Case(
        name="PKCE by plain",
        field="code_challenge_method",
        happened=refusals.UNPROTECTED,
        changes={"code_challenge_method": "plain"},
        goes_on=True,
    ),
    Case(
        name="PKCE by an unknown method",
        field="code_challenge_method",
        happened=refusals.UNPROTECTED,
        changes={"code_challenge_method": "S512"},
        goes_on=True,
    ),
    Case(
        name="an unknown scope",
        field="scope",
        happened=refusals.NO_SUCH_SCOPE,
        changes={"scope": "shop <everything>"},
        code="invalid_scope",
        goes_on=True,
    ),
    Case(
        name="no response type",
        field="response_type",
        happened=refusals.FAULTY,
        changes={"response_type": None},
        goes_on=True,
    ),
    Case(
        name="a token as response",
        field="response_type",
        happened=refusals.FAULTY,
        changes={"response_type": "token"},
        code="unauthorized_client",
        goes_on=True,
    ),
    Case(
        name="an unknown response type",
        field="response_type",
        happened=refusals.FAULTY,
        changes={"response_type": "codes"},
        code="unauthorized_client",
        goes_on=True,
    ),
    Case(
        name="a resource elsewhere",
        field="resource",
        happened=refusals.NO_SUCH_ENDPOINT,
        changes={"resource": "https://evil.example/mcp"},
        code="invalid_target",
        goes_on=True,
    ),
    Case(
        name="a resource that is no address",
        field="resource",
        happened=refusals.NO_SUCH_ENDPOINT,
        changes={"resource": "mcp"},
        code="invalid_target",
        goes_on=True,
    ),
    Case(name="two clients", field="client_id", happened=refusals.FAULTY, more="&client_id=nobody"),
    Case(name="two states", field="state", happened=refusals.FAULTY, more="&state=2"),
    Case(
        name="two challenges",
        field="code_challenge",
        happened=refusals.FAULTY,
        more="&code_challenge=" + "d" * 43,
        goes_on=True,
    ),
    Case(
        name="a NUL character", field="request", happened=refusals.FAULTY, changes={"state": "\0"}
    ),
    Case(
        name="a request that is too long",
        field="request",
        happened=refusals.FAULTY,
        changes={"state": "x" * 20_000},
    ),
    Case(
        name="too many parameters",
        field="request",
        happened=refusals.FAULTY,
        more="".join(f"&a{number}" for number in range(1500)),
    ),
    Case(
        name="a form that was changed",
        field="seal",
        happened=refusals.CHANGED,
        fields={"redirect_uri": "https://evil.example/"},
    ),
    Case(
        name="a form without its signature",
        field="seal",
        happened=refusals.CHANGED,
        fields={"seal": ""},
    ),
]


@pytest.fixture(scope="module")
def site_of(
    tmp_path_factory: pytest.TempPathFactory, certificate: Path
) -> Iterator[Callable[[str], Running]]:
    """Return the site with these settings, which starts when it is needed first."""
    found: dict[str, Running] = {}
    with ExitStack() as stack:

        def start(settings: str) -> Running:
            if settings not in found:
                folder = tmp_path_factory.mktemp("refusals")
                extra = {
                    "SHOP_DATABASE": str(folder / "db.sqlite3"),
                    "TESTS_DJANGO_MCP": settings,
                    CERTIFICATE: str(certificate),
                }
                for command in (["demo", "--prepare"], ["shell", "-v", "0", "-c", MAKE_PEOPLE]):
                    subprocess.run(
                        [sys.executable, "manage.py", *command],
                        cwd=ROOT,
                        env=environment(SITE, extra),
                        check=True,
                    )
                site = running(SITE, "uvicorn", log=folder / "log", extra=extra)
                found[settings] = stack.enter_context(site)
            return found[settings]

        yield start


def sign_in(person: httpx.Client, root: str) -> None:
    """Sign in a person whom no other test is about: what is told of each is limited."""
    page = person.get(f"{root}/login/")
    form = {**hidden_fields(page.text), "username": f"person-{next(numbers)}", "password": PASSWORD}
    answer = person.post(f"{root}/login/?next=/products/", data=form)
    assert answer.is_redirect, answer.text


def rows_of(site: Running) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(site.log.parent / "db.sqlite3")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM django_mcp_oauth_signin")]


def warnings_of(site: Running) -> list[str]:
    return [line for line in site.log.read_text().splitlines() if line.startswith("OAuth: ")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refusal_shows_a_page_and_is_told_once(
    site_of: Callable[[str], Running], certificate: Path, case: Case
):
    site = site_of(case.settings)
    root = site.url.removesuffix("/mcp")
    client = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    registered = httpx.post(f"{root}/oauth/register/", json=client, timeout=30).json()
    query: dict[str, str | None] = {
        "response_type": "code",
        "client_id": registered.get("client_id"),
        "redirect_uri": REDIRECT,
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "state": "the state",
        "scope": "shop",
        "resource": site.url,
        **case.changes,
    }
    published: dict[str, Any] = {}
    with (
        httpx.Client(timeout=30, headers={"Accept-Language": "de"}) as person,
        serving(certificate, publish(published)) as port,
    ):
        sign_in(person, root)
        if case.published is not None:
            client_id = f"https://{HOST}:{port}/client.json"
            published.update({**document(client_id, REDIRECT), **case.published})
            query["client_id"] = client_id
        given = {name: value for name, value in query.items() if value is not None}
        url = f"{root}/oauth/authorize/?{urlencode(given)}{case.more}"
        rows, warnings = len(rows_of(site)), len(warnings_of(site))
        answer = person.get(url)
        if case.fields is not None:
            form = {**hidden_fields(answer.text), "allow": "true", **case.fields}
            answer = person.post(url, data=form, headers={"Referer": url})

    assert answer.status_code == case.status, answer.text
    assert "location" not in answer.headers
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    with translation.override("de"):
        assert escape(str(case.happened)) in answer.text
    assert "Das lässt sich nicht erlauben" in answer.text
    assert f"<small>{case.code}: {case.field}: " in answer.text
    assert ("dorthin zurückgehen" in answer.text) is case.goes_on
    assert "<everything>" not in answer.text
    (row,) = rows_of(site)[rows:]
    assert (bool(row["is_refused"]), row["field"]) == (True, case.field)
    assert row["reason"]
    assert row["remedy"]
    (warning,) = warnings_of(site)[warnings:]
    assert f"{case.field}: {row['reason']}. {row['remedy']}" in warning
    assert json.dumps(warning).count("\\n") == 0
