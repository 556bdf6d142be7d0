"""The shop with OAuth on a server of its own, whose log and database a test reads, and people and clients who use it."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.support.oauth.browser import PASSWORD, SITE, hidden_fields
from tests.support.oauth.local_documents import CERTIFICATE
from tests.support.sites import ROOT, Running, environment, running

REDIRECT = "https://client.example/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()
MAKE_PEOPLE = """
from django.contrib.auth import get_user_model
users = get_user_model().objects
password = users.get(username="ada").password
users.bulk_create(users.model(username=f"person-{n}", password=password) for n in range(200))
"""
_numbers = count()


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A running site, its log and its database."""

    site: Running

    @property
    def base(self) -> str:
        return self.site.url.removesuffix("/mcp")

    def select(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.site.log.parent / "db.sqlite3")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]

    def change(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.site.log.parent / "db.sqlite3", timeout=30)) as database:
            database.execute(statement, values)
            database.commit()

    def rows(self) -> list[dict[str, Any]]:
        """Return the sign-ins."""
        return self.select("SELECT * FROM django_mcp_oauth_signin ORDER BY id")

    def warnings(self) -> list[str]:
        """Return the refusals in the log."""
        lines = self.site.log.read_text().splitlines()
        return [line for line in lines if line.startswith("OAuth: ") and "refused" in line]

    def tokens(self) -> int:
        """Return how many access tokens clients got."""
        query = "SELECT * FROM oauth2_provider_accesstoken WHERE scope LIKE '%shop%'"
        return len(self.select(query))

    @contextmanager
    def refusing(self, field: str) -> Iterator[None]:
        """Check that what is done here is refused once, for a field, and that nothing is issued."""
        rows, warnings, tokens = len(self.rows()), len(self.warnings()), self.tokens()
        yield
        refused = [row for row in self.rows()[rows:] if row["is_refused"]]
        assert [row["field"] for row in refused] == [field], refused
        assert refused[0]["reason"]
        assert refused[0]["remedy"]
        told = self.warnings()[warnings:]
        assert len(told) == 1, told
        assert f"{field}: {refused[0]['reason']}. {refused[0]['remedy']}" in told[0]
        assert self.tokens() <= tokens


@contextmanager
def watched(
    folder: Path,
    certificate: Path,
    settings: Mapping[str, Any] | None = None,
    toolkit: Mapping[str, Any] | None = None,
) -> Iterator[Watched]:
    """Serve the site with further settings of the package and of the toolkit."""
    extra = {
        "SHOP_DATABASE": str(folder / "db.sqlite3"),
        # The limit of the package, which other tests of the site raise.
        "TESTS_DJANGO_MCP": json.dumps({"OAUTH_REGISTRATIONS_PER_HOUR": 60, **(settings or {})}),
        "TESTS_OAUTH2_PROVIDER": json.dumps(toolkit or {}),
        CERTIFICATE: str(certificate),
    }
    for command in (["demo", "--prepare"], ["shell", "-v", "0", "-c", MAKE_PEOPLE]):
        subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=environment(SITE, extra),
            check=True,
        )
    with running(SITE, "uvicorn", log=folder / "log", extra=extra) as site:
        yield Watched(site=site)


@contextmanager
def caller(site: Watched, **options: Any) -> Iterator[httpx.Client]:
    """Yield an HTTP client at an address of its own, since what is told of each is limited."""
    address = f"127.0.1.{next(_numbers) % 250 + 1}"
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(base_url=site.base, transport=transport, timeout=30, **options) as client:
        yield client


@contextmanager
def person(site: Watched, **options: Any) -> Iterator[httpx.Client]:
    """Yield the browser of a person whom no other test is about, signed in."""
    with caller(site, **options) as browser:
        page = browser.get("/login/")
        name = f"person-{next(_numbers) % 200}"
        form = {**hidden_fields(page.text), "username": name, "password": PASSWORD}
        answer = browser.post("/login/?next=/products/", data=form)
        assert answer.is_redirect, answer.text
        yield browser


def register(client: httpx.Client, **metadata: Any) -> httpx.Response:
    told = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none", **metadata}
    return client.post("/oauth/register/", json=told)


def authorize_url(site: Watched, client_id: str | None, **changes: str | None) -> str:
    """Return the path of an authorization request; None leaves a parameter out."""
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "the state",
        "scope": "shop",
        "resource": site.site.url,
        **changes,
    }
    given = {name: value for name, value in query.items() if value is not None}
    return f"/oauth/authorize/?{urlencode(given)}"


def allow(browser: httpx.Client, url: str, **fields: str) -> httpx.Response:
    """Send the form of the consent page, with changed fields."""
    page = browser.get(url)
    assert page.status_code == 200, page.text
    form = {**hidden_fields(page.text), "allow": "true", **fields}
    return browser.post(url, data=form, headers={"Referer": str(page.url)})


def code_for(site: Watched, browser: httpx.Client, client_id: str, **changes: str | None) -> str:
    answer = allow(browser, authorize_url(site, client_id, **changes))
    assert answer.is_redirect, answer.text
    return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


def exchange(client: httpx.Client, client_id: str, code: str, **changes: str) -> httpx.Response:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "client_id": client_id,
        "code_verifier": VERIFIER,
        **changes,
    }
    return client.post("/oauth/token/", data=form)


def refresh(client: httpx.Client, client_id: str, token: str) -> httpx.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    return client.post("/oauth/token/", data=form)
