"""How `mcp_doctor` reports on the site's workers, and uses credentials."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.urls import path
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator, Authenticator, SessionAuthenticator
from django_mcp.contrib.introspection import IntrospectionAuthenticator
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.management.commands.mcp_doctor import find_busy_threads
from django_mcp.management.doctor.examination import Finding
from django_mcp.management.doctor.http import ask
from django_mcp.management.doctor.services import examine_layer
from django_mcp.models import Worker
from django_mcp.push import layer_bus
from tests.support.answering import answering
from tests.support.fake_site import fake_site

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("model_store"),
]


@pytest.fixture
def model_store() -> Any:
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model"}):
        yield


def find(in_flight: Any, lease_s: float = 60) -> list[Finding]:
    lease_until = timezone.now() + timedelta(seconds=lease_s)
    Worker.objects.create(host="web", pid=os.getpid(), lease_until=lease_until, in_flight=in_flight)
    return list(find_busy_threads())


def test_calls_waiting_for_a_thread_are_reported_with_the_holders():
    held = [["tools/call slow by user:1", time.time() - 40]]
    (finding,) = find({"threads": [32, 32, 5], "held": held})

    assert not finding.ok
    assert f"web:{os.getpid()}: 32 of 32 threads are busy, and 5 calls wait" in finding.text
    assert "tools/call slow by user:1 for 40 s" in finding.text
    assert "SYNC_THREADS" in finding.fix


@override_settings(DJANGO_MCP={"PUSH_BUS": "layer"})
def test_a_channel_layer_that_carries_messages_is_no_fault():
    (finding,) = examine_layer()

    assert finding.ok
    assert finding.text == "The channel layer InMemoryChannelLayer carries messages"


class Silent(InMemoryChannelLayer):
    """Loses what is sent."""

    async def send(self, channel: str, message: Any) -> None:
        pass


@override_settings(
    DJANGO_MCP={"PUSH_BUS": "layer"},
    CHANNEL_LAYERS={"default": {"BACKEND": f"{__name__}.Silent"}},
)
def test_a_channel_layer_that_loses_messages_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layer_bus, "TIMEOUT_S", 0.05)
    (finding,) = examine_layer()

    assert not finding.ok
    assert "Silent, carries no messages: TimeoutError" in finding.text


def test_busy_threads_without_waiting_calls_are_no_fault():
    (finding,) = find({"threads": [3, 32, 0], "held": []})

    assert finding.ok
    assert finding.text.endswith("3 of 32 are busy")


@pytest.mark.parametrize(
    ("in_flight", "lease_s"), [(None, 60), ({"total": 1}, 60), ({"threads": [32, 32, 5]}, -1)]
)
def test_idle_and_dead_workers_are_not_reported(in_flight: Any, lease_s: float):
    assert find(in_flight, lease_s) == []


# -- credentials


class Badges(Authenticator):
    """Accepts a custom credential."""


ISSUER = "https://issuer.example"
KEY = (
    "Create an API key in the admin, under API keys, and put it into the environment variable "
    "DJANGO_MCP_TOKEN."
)
FLOW = "--oauth --user NAME"


def examine(url: str, *options: str) -> tuple[str, bool]:
    """Return what the command prints about an endpoint, and whether it reports a fault."""
    out = StringIO()
    try:
        call_command("mcp_doctor", "--url", url, *options, stdout=out, stderr=out)
    except CommandError:
        return out.getvalue(), True
    return out.getvalue(), False


def doctor(*options: str) -> tuple[str, list[str | None]]:
    """Return what the command prints about an endpoint that needs credentials, and what it sent."""
    with answering(401, {"WWW-Authenticate": "Bearer"}, b"") as front:
        text, _ = examine(front.url, *options)
    return text, front.authorizations


@pytest.mark.parametrize(
    ("authenticators", "told", "not_told"),
    [
        ([APIKeyAuthenticator()], KEY, FLOW),
        ([OAuthAuthenticator()], FLOW, "API key"),
        ([APIKeyAuthenticator(), OAuthAuthenticator()], KEY, "access token"),
        (
            [APIKeyAuthenticator(), OAuthAuthenticator()],
            f" Or: Have the OAuth flow bring a token with {FLOW}",
            "access token",
        ),
        (
            [
                IntrospectionAuthenticator(
                    url=f"{ISSUER}/introspect",
                    client_id="site",
                    client_secret="secret",
                    audience="https://x.org/mcp",
                    issuer=ISSUER,
                )
            ],
            f"Put an access token of {ISSUER} into the environment variable",
            FLOW,
        ),
        ([SessionAuthenticator()], "No authenticator of the server takes a token", KEY),
        ([Badges()], "If Badges accepts bearer tokens, put one into the environment", FLOW),
    ],
)
def test_the_hint_names_the_credentials_the_server_accepts(
    authenticators: list[Authenticator], told: str, not_told: str
):
    server = MCPServer("closed", authenticators=authenticators)

    for options in ((), ("--token", "wrong")):
        text, _ = doctor("--server", server.name, *options)
        assert told in text
        assert not_told not in text


METADATA = "/.well-known/oauth-protected-resource/mcp"
CHALLENGE = {"WWW-Authenticate": f'Bearer resource_metadata="http://HERE{METADATA}"'}
NAMED = {"resource": "http://HERE/mcp", "authorization_servers": ["http://HERE"]}


def test_an_endpoint_that_asks_for_sign_in_has_no_fault_and_a_note():
    with fake_site({"/mcp": (401, CHALLENGE, ""), METADATA: (200, {}, NAMED)}) as url:
        text, _ = examine(url)

    assert "ok    The endpoint asks clients to sign in, with 401 and WWW-Authenticate" in text
    assert "ok    The metadata of the endpoint is found" in text
    assert "note  Without a token nothing else was tried\n      No authenticator" in text


def test_a_warning_of_a_check_is_a_note_and_an_error_a_fault():
    with answering(401, {"WWW-Authenticate": "Bearer"}, b"") as front:
        assert "note  django_mcp.W007" in examine(front.url)[0]
        with override_settings(DJANGO_MCP={"NO_SUCH_SETTING": 1}):
            assert "fault django_mcp.E002" in examine(front.url)[0]


def test_a_silenced_check_is_left_out():
    with (
        answering(401, {"WWW-Authenticate": "Bearer"}, b"") as front,
        override_settings(SILENCED_SYSTEM_CHECKS=["django_mcp.W007"]),
    ):
        assert "W007" not in examine(front.url)[0]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"/mcp": (401, CHALLENGE, "")}, "No metadata at"),
        (
            {
                "/mcp": (401, CHALLENGE, ""),
                METADATA: (200, {}, {**NAMED, "resource": "http://elsewhere/mcp"}),
            },
            "The metadata is about http://elsewhere/mcp",
        ),
        ({"/mcp": (401, {}, "")}, "A client is rejected without a challenge"),
    ],
)
def test_a_sign_in_that_clients_do_not_find_is_a_fault(answers: dict[str, Any], told: str):
    with fake_site(answers) as url:
        text, is_faulty = examine(url)

    assert is_faulty
    assert f"fault {told}" in text


def test_a_proxy_that_knows_only_the_endpoint_is_noted():
    served = (200, {"content-type": "application/json"}, {"jsonrpc": "2.0", "id": 1, "result": {}})
    lost = "note  It does not answer at /mcp/x/doctor, so clients cannot narrow it by the path"
    with fake_site({"/mcp": served, "/mcp/": served}) as url:
        assert lost in examine(url)[0]
    with fake_site({"/mcp": served, "/mcp/": served, "/mcp/x/doctor": served}) as url:
        assert "ok    It answers at the paths with toolsets" in examine(url)[0]


def test_clients_know_an_endpoint_on_this_machine_by_its_public_url():
    closed = MCPServer("closed", authenticators=[OAuthAuthenticator()])
    public = {**NAMED, "resource": "https://shop.example.com/closed/mcp"}
    answers = {"/mcp": (401, CHALLENGE, ""), METADATA: (200, {}, public)}
    urls = ModuleType("urls")
    urls.__dict__["urlpatterns"] = [path("closed/", closed.urls)]
    with (
        override_settings(
            ROOT_URLCONF=urls,
            DJANGO_MCP={"PUBLIC_URL": "https://shop.example.com"},
        ),
        fake_site(answers) as url,
    ):
        text, _ = examine(url, "--server", "closed")

    assert "ok    The metadata of the endpoint is found" in text


def test_a_challenge_for_a_token_is_found_beside_another():
    headers = [("WWW-Authenticate", 'Bearer realm="x"'), ("WWW-Authenticate", 'Basic realm="x"')]
    with HTTPServer(("127.0.0.1", 0), refusing(headers)) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answer = ask("POST", f"http://127.0.0.1:{server.server_port}/mcp", b"{}")
        thread.join()

    assert answer.headers["www-authenticate"] == 'Bearer realm="x", Basic realm="x"'


def refusing(headers: list[tuple[str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(401)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    return Handler


def test_a_token_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DJANGO_MCP_TOKEN", "from-env")

    text, authorizations = doctor()

    assert "The token is refused" in text
    assert "from-env" not in text
    assert authorizations == ["Bearer from-env"]


def test_the_option_overrides_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DJANGO_MCP_TOKEN", "from-env")

    assert doctor("--token", "given")[1] == ["Bearer given"]


def test_a_refusal_of_http_names_the_remedy():
    body = b'{"jsonrpc": "2.0", "error": {"code": -32600, "message": "This site is served over https only"}}'
    with answering(403, {"Content-Type": "application/json"}, body) as front:
        out = StringIO()
        with pytest.raises(CommandError):
            call_command("mcp_doctor", "--url", front.url, stdout=out, stderr=out)

    assert "Give --url the https address." in out.getvalue()


# -- a wrong path


@pytest.mark.parametrize("options", [(), ("--server", "shop-staff")])
def test_a_path_without_an_endpoint_is_answered_with_those_that_exist(options: tuple[str, ...]):
    with answering(404, {"Content-Type": "text/html"}, b"<h1>Not Found</h1>") as front:
        out = StringIO()
        url = front.url.replace("/mcp", "/mpc")
        with pytest.raises(CommandError, match="for a client"):
            call_command("mcp_doctor", "--url", url, *options, stdout=out, stderr=out)

    assert "The URLconf has no endpoint at this path, and the site answers 404" in out.getvalue()
    assert f"--url: {front.url}, " in out.getvalue()
    assert "/mcp/, " not in out.getvalue()
    fine = [line for line in out.getvalue().splitlines() if line.startswith("ok  ")]
    assert fine == ["ok    The database 'default' answers"]


def test_a_page_at_the_path_of_an_endpoint_comes_from_something_in_front_of_it():
    with answering(404, {"Content-Type": "text/html"}, b"<h1>Not Found</h1>") as front:
        out = StringIO()
        with pytest.raises(CommandError):
            call_command("mcp_doctor", "--url", front.url, stdout=out, stderr=out)

    assert "Something stands in front of it" in out.getvalue()


def test_a_client_that_nobody_knows_is_wrong_use():
    with pytest.raises(CommandError, match="No client is named 'Netscape'") as refused:
        call_command("mcp_doctor", "--oauth", "--url=http://127.0.0.1:1/mcp", client=["Netscape"])

    assert refused.value.returncode == 2
