"""What the doctor reports of a running endpoint that is to be listed in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_mcp import MCPServer, default_server
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.management.doctor.examination import Finding
from django_mcp.management.doctor.listing import examine_listing
from tests.support.fake_site import fake_site

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
CHALLENGE = "/.well-known/openai-apps-challenge"
NAMED = {"resource": "http://HERE/mcp", "authorization_servers": ["http://HERE"]}


@pytest.fixture(autouse=True)
def _token() -> Iterator[None]:
    with override_settings(DJANGO_MCP={"OPENAI_APPS_CHALLENGE": "token"}):
        yield


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("to-list", authenticators=[OAuthAuthenticator()])


def look(server: MCPServer, directory: str, answers: dict[str, Any]) -> dict[str, Finding]:
    with fake_site(answers) as url:
        return {each.text: each for each in examine_listing(server, url, directory)}


def the(found: dict[str, Finding], part: str) -> Finding:
    (text,) = [text for text in found if part in text]
    assert found[text].ok or found[text].fix
    return found[text]


def test_metadata_that_clients_can_read_is_no_fault(server: MCPServer):
    answers: dict[str, Any] = {
        RESOURCE: (200, {}, NAMED),
        SERVER: (200, {}, {"registration_endpoint": "x"}),
    }

    found = look(server, "claude", answers)

    assert the(found, "the metadata of the endpoint is found").ok
    assert the(found, "with their callback address").ok


def test_an_issuer_may_have_openid_metadata_alone(server: MCPServer):
    known = {"client_id_metadata_document_supported": True}
    answers: dict[str, Any] = {RESOURCE: (200, {}, NAMED), OPENID: (200, {}, known)}

    assert the(look(server, "chatgpt", answers), "with their callback address").ok


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, "names an authorization server"),
        ({RESOURCE: (200, {}, {"resource": "http://HERE/mcp"})}, "names an authorization server"),
        ({RESOURCE: (200, {}, NAMED)}, "no metadata of the authorization server"),
        (
            {RESOURCE: (200, {}, {**NAMED, "resource": "http://elsewhere/mcp"})},
            "the metadata is about http://elsewhere/mcp",
        ),
    ],
)
def test_metadata_that_clients_do_not_find_is_a_fault(
    server: MCPServer, answers: dict[str, Any], told: str
):
    assert not the(look(server, "claude", answers), told).ok


@pytest.mark.parametrize(
    ("directory", "callback"),
    [
        ("claude", "https://claude.ai/api/mcp/auth_callback"),
        ("chatgpt", "https://chatgpt.com/connector/oauth/"),
    ],
)
def test_clients_that_cannot_become_known_need_their_callback_by_hand(
    server: MCPServer, directory: str, callback: str
):
    answers: dict[str, Any] = {
        RESOURCE: (200, {}, NAMED),
        SERVER: (200, {}, {"issuer": "http://HERE"}),
    }

    finding = the(look(server, directory, answers), "neither metadata documents of clients nor")
    assert not finding.ok
    assert callback in finding.fix


def test_a_server_without_oauth_has_no_metadata_to_find():
    server = MCPServer("open-to-list", public=True)

    assert not any("metadata" in text for text in look(server, "claude", {}))


@pytest.mark.parametrize(
    ("answer", "is_served"),
    [
        ((200, {}, "token"), True),
        ((200, {}, "another"), False),
        ((404, {}, "token"), False),
    ],
)
def test_the_token_of_chatgpt_is_read(server: MCPServer, answer: Any, is_served: bool):
    found = look(server, "chatgpt", {CHALLENGE: answer})

    assert the(found, "token").ok is is_served
    assert not any("token" in text for text in look(server, "claude", {CHALLENGE: answer}))


@pytest.mark.parametrize(("status", "is_there"), [(200, True), (302, True), (404, False)])
def test_links_are_read(status: int, is_there: bool):
    with fake_site({"/privacy": (status, {}, "text")}) as url:
        link = url.replace("/mcp", "/privacy")
        server = MCPServer("linked", public=True, privacy_url=link, support_url="mailto:a@b.org")
        found = {each.text: each for each in examine_listing(server, url, "claude")}

    assert the(found, f"PRIVACY_URL {link} answers").ok is is_there
    assert not any("mailto" in text for text in found)


def test_an_endpoint_on_this_machine_is_not_reached():
    server = MCPServer("local-to-list", public=True)

    assert not the(look(server, "claude", {}), "would not reach http://127.0.0.1").ok


@pytest.mark.parametrize("resource", ["http://HERE/mcp", "https://shop.example.org/mcp"])
def test_a_site_with_a_public_address_may_be_examined_on_its_own_machine(resource: str):
    site = {"PUBLIC_URL": "https://shop.example.org", "AUTHENTICATORS": [OAuthAuthenticator()]}
    with override_settings(DJANGO_MCP=site):
        found = look(
            default_server, "claude", {RESOURCE: (200, {}, {**NAMED, "resource": resource})}
        )

    assert the(found, "the metadata of the endpoint is found").ok
    assert not any("would not reach" in text for text in found)


@pytest.mark.django_db
def test_the_command_needs_a_server_of_the_site():
    with pytest.raises(CommandError, match="--server") as refused:
        call_command("mcp_doctor", "--url", "https://elsewhere.example/x", "--directory", "claude")
    assert refused.value.returncode == 2


@pytest.mark.django_db
def test_the_command_tells_the_demands_of_each_directory_once():
    out = StringIO()
    listed = override_settings(DJANGO_MCP={"DIRECTORIES": ["claude"], "PUBLIC": True})
    with listed, fake_site({}) as url, pytest.raises(CommandError):
        options = ("--directory", "claude", "--directory", "registry")
        call_command("mcp_doctor", "--url", url, *options, stdout=out, stderr=out)

    assert out.getvalue().count("names no privacy policy") == 1
    assert "Set PRIVACY_URL." in out.getvalue()
    assert "The MCP registry: server.json: /description: is required" in out.getvalue()
