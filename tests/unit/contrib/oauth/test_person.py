"""The consent that the doctor gives on behalf of a user."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.models import Session
from django.test import override_settings

from django_mcp.contrib.oauth.person import signed_in
from django_mcp.management.doctor.http import Unreachable

FORM = b'<form><input type="hidden" name="csrfmiddlewaretoken" value="t"></form>'

pytestmark = pytest.mark.django_db


class OthersOnly(ModelBackend):
    """A backend of other users, such as those of a directory."""

    def get_user(self, user_id: Any) -> None:
        return None


class _Page(BaseHTTPRequestHandler):
    """A consent page that sets two cookies and requires the first."""

    status = 302
    answer = (200, "", FORM)

    def do_GET(self) -> None:
        status, location, body = self.answer
        self.send_response(status)
        self.send_header("Set-Cookie", "csrftoken=c; Path=/")
        self.send_header("Set-Cookie", "language=de; Path=/")
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        cookies = self.headers.get("Cookie", "").split("; ")
        self.rfile.read(int(self.headers["Content-Length"]))
        status = self.status if "csrftoken=c" in cookies else 403
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://client/?code=1")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/authorize"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada")


def test_all_cookies_of_the_page_are_sent_back(url: str, user: Any):
    with signed_in(user) as person:
        assert person(url) == "http://client/?code=1"


def test_a_form_that_is_refused_is_reported(url: str, user: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_Page, "status", 403)

    with signed_in(user) as person, pytest.raises(Unreachable, match="403 when its form is sent"):
        person(url)


def test_a_refusal_on_the_page_is_told_in_its_words(
    url: str, user: Any, monkeypatch: pytest.MonkeyPatch
):
    page = b"<h1>No</h1><small>invalid_request:\n Mismatching redirect URI.</small> <p>Bye"
    monkeypatch.setattr(_Page, "answer", (400, "", page))

    with signed_in(user) as person, pytest.raises(Unreachable) as refused:
        person(url)

    told = "400 to a user who is signed in: invalid_request: Mismatching redirect URI."
    assert str(refused.value).endswith(told)


def test_a_redirect_to_the_client_needs_no_form(
    url: str, user: Any, monkeypatch: pytest.MonkeyPatch
):
    place = "http://client/callback?error=invalid_scope"
    monkeypatch.setattr(_Page, "answer", (302, place, b""))

    with signed_in(user) as person:
        assert person(f"{url}?redirect_uri=http%3A%2F%2Fclient%2Fcallback") == place


@pytest.mark.parametrize("place", ["/login/?next=/", "http://client/callbacks?code=1"])
def test_any_other_redirect_is_none_to_the_client(
    url: str, user: Any, monkeypatch: pytest.MonkeyPatch, place: str
):
    monkeypatch.setattr(_Page, "answer", (302, place, b""))

    with signed_in(user) as person, pytest.raises(Unreachable, match="answers 302"):
        person(f"{url}?redirect_uri=http%3A%2F%2Fclient%2Fcallback")


@override_settings(
    AUTHENTICATION_BACKENDS=[f"{__name__}.OthersOnly", "django.contrib.auth.backends.ModelBackend"]
)
def test_the_session_names_the_backend_that_knows_the_user(user: Any):
    with signed_in(user):
        (session,) = Session.objects.all()
        found = session.get_decoded()[BACKEND_SESSION_KEY]

    assert found == "django.contrib.auth.backends.ModelBackend"
