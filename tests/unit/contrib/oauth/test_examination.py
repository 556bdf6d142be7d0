"""The doctor's reports on sites that would stop a client, each broken in one place."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.contrib.oauth import examination
from django_mcp.contrib.oauth.published_clients import find_published_clients
from django_mcp.management.doctor.http import Unreachable
from tests.support.fake_site import fake_site
from tests.support.sites import free_port

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"


CHALLENGE = {"www-authenticate": f'Bearer resource_metadata="http://HERE{RESOURCE}/mcp"'}
RESOURCE_METADATA = {"resource": "http://HERE/mcp", "authorization_servers": ["http://HERE"]}
SERVER_METADATA = {
    "issuer": "http://HERE",
    "authorization_endpoint": "http://HERE/authorize",
    "token_endpoint": "http://HERE/token",
    "registration_endpoint": "http://HERE/register",
    "response_types_supported": ["code"],
    "grant_types_supported": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_methods_supported": ["none"],
    "code_challenge_methods_supported": ["S256"],
    "client_id_metadata_document_supported": True,
}
SOUND: dict[str, Any] = {
    "/mcp": (401, CHALLENGE, {}),
    f"{RESOURCE}/mcp": (200, {}, RESOURCE_METADATA),
    SERVER: (200, {}, SERVER_METADATA),
    "/register": (201, {}, {"client_id": "a client"}),
    "/authorize": (400, {}, {}),
}


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"/mcp": (200, {}, {})}, "answers without a token"),
        ({"/mcp": (403, {}, {})}, "answers 403, not 401"),
        ({"/mcp": (401, {}, {})}, "answers 401, not 401 with a challenge"),
        ({"/mcp": (500, {}, {})}, "answers 500"),
        ({"/mcp": (401, {"www-authenticate": "Bearer"}, {})}, "names no resource_metadata"),
        ({f"{RESOURCE}/mcp": (404, {}, {})}, "no resource metadata at"),
        (
            {f"{RESOURCE}/mcp": (200, {}, {**RESOURCE_METADATA, "resource": "http://evil/mcp"})},
            "is about http://evil/mcp",
        ),
        (
            {f"{RESOURCE}/mcp": (200, {}, without(RESOURCE_METADATA, "authorization_servers"))},
            "names no authorization server",
        ),
        ({SERVER: (404, {}, {})}, "no authorization server metadata"),
        (
            {SERVER: (200, {}, {**SERVER_METADATA, "issuer": "http://evil"})},
            "issuer is http://evil",
        ),
        (
            {SERVER: (200, {}, without(SERVER_METADATA, "token_endpoint"))},
            "names no token_endpoint",
        ),
        (
            {SERVER: (200, {}, without(SERVER_METADATA, "code_challenge_methods_supported"))},
            "PKCE by other methods",
        ),
        (
            {SERVER: (200, {}, {**SERVER_METADATA, "grant_types_supported": []})},
            "grant_types_supported has no 'refresh_token'",
        ),
        (
            {SERVER: (200, {}, {**SERVER_METADATA, "token_endpoint": "http://evil/token"})},
            "of another host: token_endpoint",
        ),
        (
            {SERVER: (200, {}, without(SERVER_METADATA, "client_id_metadata_document_supported"))},
            "metadata documents are off",
        ),
        ({"/register": (401, {}, {"error_description": "Sign in"})}, "answers 401: Sign in"),
        ({"/register": (429, {}, {})}, "Too many clients"),
        ({"/authorize": (200, {}, {})}, "without PKCE is not refused"),
        ({"/authorize": (500, {}, {})}, "answers 500 to a valid request"),
    ],
)
def test_the_failing_step_is_reported_with_a_hint(broken: dict[str, Any], told: str):
    with fake_site(SOUND | broken) as url:
        findings = examination.run(url)

    bad = [finding for finding in findings if not finding.ok]
    assert any(told in finding.text for finding in bad), findings
    assert all(finding.fix for finding in bad)


def test_a_page_that_fails_has_not_refused_an_attack():
    def fail(url: str) -> str:
        raise Unreachable("The page answers 500")

    with fake_site(SOUND) as url:
        findings = examination.run(url, fail, clients=())

    assert [finding.text for finding in findings if not finding.ok] == ["The page answers 500"]


def test_nonsense_responses_do_not_crash_the_doctor():
    with fake_site(SOUND | {SERVER: (200, {}, ["no", "object"])}) as url:
        findings = examination.run(url)

    assert "no authorization server metadata" in findings[-2].text


def test_the_clients_that_cannot_even_begin_are_named():
    with fake_site(SOUND | {"/mcp": (403, {}, {})}) as url:
        findings = examination.run(url, clients=find_published_clients(["VS Code", "Cursor"]))

    assert findings[-1].text == "No client gets further: VS Code, Cursor."


def test_a_client_whose_registration_is_answered_otherwise_is_named():
    """Cursor registers three redirects, and would use one that is not there."""
    kept = {"client_id": "a client", "redirect_uris": [], "token_endpoint_auth_method": "none"}
    with fake_site(SOUND | {"/register": (201, {}, kept)}) as url:
        findings = examination.run(url, clients=find_published_clients(["Cursor"]))

    (told,) = [finding for finding in findings if finding.text.startswith("Cursor")]
    assert not told.ok
    assert "fails at introduction: the registration answers another redirect_uris" in told.text


def test_an_unreachable_site_is_reported():
    (finding,) = examination.run(f"http://127.0.0.1:{free_port()}/mcp")

    assert not finding.ok
    assert "cannot be reached" in finding.text


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/mcp", "mcp", "http://[::1/mcp"])
def test_an_invalid_url_is_reported(url: str):
    assert [finding.ok for finding in examination.run(url)] == [False]
