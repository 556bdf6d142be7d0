"""Django's session cookie: accepted only for same-site pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import get_random_string

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator, SessionAuthenticator
from django_mcp.auth.recheck import recheck
from django_mcp.models.keys import APIKey
from tests.support.auth.asking import admit, queries, refuse

pytestmark = pytest.mark.django_db

SECRET = get_random_string(32)
OWN = "https://testserver"


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada", password="x")


@pytest.fixture
def cookie(user: Any) -> str:
    return sign_in(user)


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("browsed", authenticators=[SessionAuthenticator(cache_s=0)])


def sign_in(user: Any) -> str:
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    assert store.session_key is not None
    return store.session_key


def headers(cookie: str, **changes: str | None) -> dict[str, str]:
    found: dict[str, str | None] = {
        "cookie": f"sessionid={cookie}; csrftoken={SECRET}",
        "origin": OWN,
        "x-csrftoken": SECRET,
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_page_of_the_site_acts_as_the_logged_in_user(
    server: MCPServer, user: Any, cookie: str, method: str
):
    principal = admit(server, headers(cookie), method=method)

    assert principal.user == user
    assert principal.auth.authenticator == "session"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    "changes",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": "http://testserver"},
        {"origin": "https://testserver.evil.example"},
        {"origin": "https://testserver:8443"},
        {"x-csrftoken": None},
        {"x-csrftoken": "x" * 64},
        {"x-csrftoken": "abcb" * 8},
    ],
    ids=str,
)
def test_cross_site_requests_are_rejected(
    server: MCPServer, cookie: str, changes: dict[str, str | None], method: str
):
    assert refuse(server, headers(cookie, **changes), method=method).status == 403


def test_trusted_origins_come_from_djangos_settings(server: MCPServer, cookie: str, settings: Any):
    settings.CSRF_TRUSTED_ORIGINS = ["https://app.example"]

    assert admit(server, headers(cookie, origin="https://app.example"))


def test_the_csrf_secret_may_be_in_the_session(
    server: MCPServer, user: Any, cookie: str, settings: Any
):
    settings.CSRF_USE_SESSIONS = True
    store = SessionStore(cookie)
    store["_csrftoken"] = SECRET
    store.save()

    assert admit(server, headers(cookie)).user == user
    assert refuse(server, headers(cookie, **{"x-csrftoken": None})).status == 403


def test_a_stream_can_be_opened_without_a_token(server: MCPServer, user: Any, cookie: str):
    found = admit(server, headers(cookie, **{"origin": None, "x-csrftoken": None}), method="GET")

    assert found.user == user


@pytest.mark.parametrize("where", ["cross-site", "same-site"])
def test_cross_site_pages_cannot_open_a_stream(server: MCPServer, cookie: str, where: str):
    lines = headers(cookie, **{"origin": None, "sec-fetch-site": where})

    assert refuse(server, lines, method="GET").status == 403


@pytest.mark.parametrize("given", ["", "x", "x" * 32, "x" * 10_000, "\x7f", "a b"])
@pytest.mark.parametrize("origin", [OWN, None])
def test_a_cookie_without_a_session_is_rejected(server: MCPServer, given: str, origin: str | None):
    assert refuse(server, headers(given, origin=origin)).status == 401


@pytest.mark.parametrize("in_session", [False, True])
def test_a_cookie_does_not_override_a_token(
    user: Any, cookie: str, settings: Any, in_session: bool
):
    settings.CSRF_USE_SESSIONS = in_session
    both = MCPServer("both", authenticators=[SessionAuthenticator(cache_s=0), APIKeyAuthenticator])
    other = get_user_model().objects.create_user("bob")
    _, token = APIKey.objects.issue(user=other, name="x")

    for given in (cookie, "nonsense"):
        lines = {**headers(given, origin=None), "authorization": f"Bearer {token}"}
        assert admit(both, lines).user == other
        assert refuse(both, {**lines, "authorization": "Bearer wrong"}).status == 401
    assert admit(both, {**headers("nonsense", origin=None), "x-api-key": token}).user == other
    assert refuse(both, headers(cookie, origin=None)).status == 403


def test_an_expired_session_is_rejected(server: MCPServer, user: Any, cookie: str):
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert refuse(server, headers(cookie)).status == 401


def test_a_deactivated_user_is_rejected(server: MCPServer, user: Any, cookie: str):
    get_user_model().objects.update(is_active=False)

    assert refuse(server, headers(cookie)).status == 401


def test_changing_the_password_ends_the_session(server: MCPServer, user: Any, cookie: str):
    user.set_password("another")
    user.save()

    assert refuse(server, headers(cookie)).status == 401


def test_a_cached_session_needs_no_query(user: Any, cookie: str):
    server = MCPServer("remembering", authenticators=[SessionAuthenticator])
    with queries(2):
        admit(server, headers(cookie))

    with queries(0):
        assert admit(server, headers(cookie)).user == user
        assert refuse(server, headers(cookie, origin="https://evil.example")).status == 403


def test_rechecking_finds_ended_sessions(server: MCPServer):
    users = [get_user_model().objects.create_user(name) for name in "abcd"]
    cookies = [sign_in(user) for user in users]
    principals = [admit(server, headers(cookie)) for cookie in cookies]

    SessionStore(cookies[0]).flush()
    get_user_model().objects.filter(pk=users[1].pk).update(is_active=False)
    users[2].set_password("another")
    users[2].save()

    with queries(2):
        ended = async_to_sync(recheck)(principals)
    assert ended == set(principals[:3])


def test_a_principal_does_not_contain_the_cookie(server: MCPServer, cookie: str):
    principal = admit(server, headers(cookie))

    assert cookie not in repr([getattr(principal, slot) for slot in ("key", "handle", "auth")])
