"""Every refusal of the authorization endpoint: a page for the person, one warning, and one row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from django_mcp.contrib.oauth import documents, refusals
from tests.support.oauth.local_documents import HOST, document, publish, serving
from tests.support.oauth.watched import (
    REDIRECT,
    Watched,
    allow,
    authorize_url,
    person,
    register,
    watched,
)


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
    Case(name="a broken escape", field="request", happened=refusals.FAULTY, more="&x=%zz"),
    Case(
        name="a long nonce",
        field="nonce",
        happened=refusals.FAULTY,
        changes={"nonce": "x" * 256},
        goes_on=True,
    ),
    Case(
        name="an account to be made",
        field="prompt",
        happened=refusals.FAULTY,
        changes={"prompt": "create"},
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
) -> Iterator[Callable[[str], Watched]]:
    """Return the site with these settings, which starts when it is needed first."""
    found: dict[str, Watched] = {}
    with ExitStack() as stack:

        def start(settings: str) -> Watched:
            if settings not in found:
                folder = tmp_path_factory.mktemp("refusals")
                site = watched(folder, certificate, json.loads(settings))
                found[settings] = stack.enter_context(site)
            return found[settings]

        yield start


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refusal_shows_a_page_and_is_told_once(
    site_of: Callable[[str], Watched], certificate: Path, case: Case
):
    site = site_of(case.settings)
    published: dict[str, Any] = {}
    with (
        person(site, headers={"Accept-Language": "de"}) as browser,
        serving(certificate, publish(published)) as port,
    ):
        client_id = register(browser).json().get("client_id")
        if case.published is not None:
            client_id = f"https://{HOST}:{port}/client.json"
            published.update({**document(client_id, REDIRECT), **case.published})
        url = authorize_url(site, **{"client_id": client_id, **case.changes}) + case.more
        with site.refusing(case.field):
            if case.fields is None:
                answer = browser.get(url)
            else:
                answer = allow(browser, url, **case.fields)

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
