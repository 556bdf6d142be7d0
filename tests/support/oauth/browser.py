"""The example shop with OAuth on, served beside the tests, and the parts of a client's browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from django.test import Client as DjangoClient

from django_mcp.contrib.oauth.person import PageRefuses
from tests.support.oauth.local_documents import (
    CERTIFICATE,
    PUBLISHED,
    PUBLISHED_HOSTS,
    make_certificate,
)
from tests.support.oauth.published import publishing
from tests.support.sites import ROOT, Running, environment, running

SITE = "tests.support.site.oauth"
PASSWORD = "shop"  # of the sample data's customers


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the key and certificate of `client.test` and of the hosts of known clients."""
    return make_certificate(tmp_path_factory.mktemp("certificate"), others=sorted(PUBLISHED_HOSTS))


@pytest.fixture(scope="session")
def published(certificate: Path) -> Iterator[int]:
    """The port on which this machine serves the documents and keys of known clients."""
    with publishing(certificate) as port:
        yield port


@pytest.fixture(scope="session", params=["uvicorn", "wsgi"])
def shop(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificate: Path,
    published: int,
) -> Iterator[Running]:
    """The shop behind the consumer and behind the plain view."""
    folder = tmp_path_factory.mktemp(f"shop-{request.param}")
    extra = {
        "SHOP_DATABASE": str(folder / "db.sqlite3"),
        CERTIFICATE: str(certificate),
        PUBLISHED: str(published),
        # All tests come from one address, and the doctor registers a dozen clients.
        "TESTS_DJANGO_MCP": '{"OAUTH_REGISTRATIONS_PER_HOUR": 1000}',
    }
    subprocess.run(
        [sys.executable, "manage.py", "demo", "--prepare"],
        cwd=ROOT,
        env=environment(SITE, extra),
        check=True,
    )
    with running(SITE, request.param, log=folder / "log", extra=extra) as site:
        yield site


@dataclass
class Browser:
    """A customer's browser: signs in when required, and presses a button of the consent page."""

    username: str = "ada"
    allows: bool = True
    pages: list[str] = field(default_factory=list)
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)

    def visit(self, url: str) -> dict[str, str]:
        """Open an authorization URL; return the parameters of the redirect to the client."""
        return callback_of(self.arrive(url))

    def arrive(self, url: str) -> str:
        """Open an authorization URL; return the final URL of the browser."""
        with httpx.Client(timeout=30, cookies=self.cookies) as self.client:
            try:
                return str(self._answer(url).headers["location"])
            finally:
                self.cookies = self.client.cookies

    def _answer(self, url: str) -> httpx.Response:
        response = self.client.get(url)
        if response.next_request is not None and "/login/" in response.headers["location"]:
            response = self._sign_in(str(response.next_request.url))
        if response.is_redirect:
            return response
        assert response.status_code == 200, response.text
        self.pages.append(response.text)
        form = hidden_fields(response.text)
        if self.allows:
            form["allow"] = "true"
        response = self.client.post(url, data=form, headers={"Referer": url})
        assert response.is_redirect, response.text
        return response

    def _sign_in(self, url: str) -> httpx.Response:
        page = self.client.get(url)
        form = hidden_fields(page.text)
        form |= {"username": self.username, "password": PASSWORD}
        response = self.client.post(url, data=form, headers={"Referer": url})
        assert response.next_request is not None, response.text
        return self.client.get(str(response.next_request.url))


def post_form(path: str, form: dict[str, Any], **options: Any) -> Any:
    """Post a form as OAuth's clients do; Django's test client alone would make it multipart."""
    kind = "application/x-www-form-urlencoded"
    return DjangoClient().post(path, urlencode(form, doseq=True), content_type=kind, **options)


def hidden_fields(html: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    found = {}
    for tag in re.findall(r"<input[^>]*>", html):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if attributes.get("type") == "hidden":
            found[attributes["name"]] = unescape(attributes.get("value", ""))
    return found


def place_of(response: Any) -> str:
    """Return where an answer leads: the redirect, or the link on the page that refuses the request."""
    if response.status_code == 302:
        return str(response["location"])
    link = re.search(r'<a href="([^"]+)">go back there</a>', response.content.decode())
    assert link is not None, response.content
    return unescape(link[1])


def callback_of(url: str) -> dict[str, str]:
    """Return the parameters with which a redirect calls a client back."""
    query = parse_qs(urlsplit(url).query)
    assert all(len(values) == 1 for values in query.values()), query
    return {name: values[0] for name, values in query.items()}


os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")


def arrive_or_tell(url: str) -> str:
    """Allow what a page asks, and tell the doctor if none asks."""
    try:
        return Browser().arrive(url)
    except AssertionError as error:
        raise PageRefuses("The page refuses the request") from error
