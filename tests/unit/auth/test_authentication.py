"""Authentication of requests, and the challenges for rejected requests."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from django.test import override_settings

from django_mcp import MCPServer, default_server
from django_mcp.auth.authenticators import Authenticator, BearerAuthenticator
from django_mcp.auth.challenges import insufficient_scope
from django_mcp.auth.principal import MAX_KEY_LENGTH, AuthInfo, Principal, Rejection, make_key
from django_mcp.auth.recheck import recheck
from django_mcp.server.exchange.exchange import Exchange
from tests.support.auth.asking import admit, ask, bearer, challenges_of, exchange_with, refuse


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


class Known(BearerAuthenticator):
    """Accepts the token `good`, and counts its calls."""

    kind = "known"
    required_scopes = ("shop:read",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[str] = []

    def is_mine(self, token: str) -> bool:
        return not token.startswith("other")

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        self.asked.append(token)
        if token != "good":
            return Rejection(reason="No such token")
        auth = AuthInfo(subject="1", authenticator=self.kind, scopes=frozenset({"shop:read"}))
        return Principal(key=make_key(self.kind, 1), auth=auth, source=self)


class InThread(Authenticator):
    """Implemented without `async`."""

    def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        assert exchange.headers is not None
        who = exchange.headers.get("x-who")
        return None if who is None else Principal(key=make_key("thread", who))

    def challenge(self, exchange: Exchange) -> str | None:
        return 'Who realm="here"'


def server_with(*authenticators: Any, **options: Any) -> MCPServer:
    return MCPServer("gated", authenticators=list(authenticators), **options)


# -- a server cannot be open by accident


def test_a_server_without_authentication_settings_rejects_everybody():
    for headers in ({}, bearer("good")):
        assert refuse(MCPServer("silent"), headers).status == 403


@pytest.mark.parametrize("name", [None, "silent"])
def test_a_closed_server_reveals_no_settings_to_clients(
    name: str | None, settings: Any, caplog: pytest.LogCaptureFixture
):
    settings.DJANGO_MCP = {}
    server = default_server if name is None else MCPServer(name)
    remedy = "DJANGO_MCP['PUBLIC']" if name is None else "public=True"

    message = json.loads(refuse(server).body or b"")["error"]["message"]

    assert message == "This server is not configured to accept requests."
    assert remedy in caplog.text


@override_settings(DJANGO_MCP={}, DEBUG=True)
def test_a_closed_server_shows_a_hint_in_debug():
    reply = refuse(default_server)

    assert reply.status == 403
    assert b"DJANGO_MCP['PUBLIC']" in (reply.body or b"")


def test_a_closed_server_logs_a_rate_limited_hint(caplog: pytest.LogCaptureFixture):
    server = MCPServer("silent")

    for _ in range(5):
        refuse(server)

    assert caplog.text.count("public=True") == 1


def test_a_public_server_requires_no_credentials():
    assert MCPServer("open", public=True).engine.authenticate is None


@override_settings(DJANGO_MCP={"PUBLIC": True, "AUTHENTICATORS": [Known()]})
def test_settings_apply_only_to_the_default_server():
    assert admit(default_server).is_authenticated is False
    assert admit(default_server, bearer("good")).is_authenticated
    assert refuse(MCPServer("other")).status == 403


def test_credentials_are_optional_on_a_public_server_with_authenticators():
    server = server_with(Known(), public=True)

    assert admit(server).is_authenticated is False
    assert admit(server, bearer("good")).key == "known:1"
    assert refuse(server, bearer("bad")).status == 401
    assert refuse(server, bearer("other")).status == 401
    assert refuse(server, {"authorization": "Basic eDp5"}).status == 401


@pytest.mark.parametrize("entry", ["no.such.Thing", "tests.unit.auth.test_gate.ask", 7])
def test_an_invalid_authenticator_raises(entry: Any):
    if isinstance(entry, int):
        with pytest.raises(ValueError, match="authenticators"):
            server_with(entry)
        return
    with pytest.raises(ImproperlyConfigured, match=entry.split(".")[-1]):
        _ = server_with(entry).engine.authenticate


# -- in order


def test_authenticators_are_tried_in_order_until_one_matches():
    first, second = Known(), InThread()
    server = server_with(first, second)

    assert admit(server, {"x-who": "me"}).key == "thread:me"
    assert admit(server, {"x-who": "me", **bearer("good")}).key == "known:1"
    assert refuse(server, {"x-who": "me", **bearer("bad")}).status == 401


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("held", "is_enough"),
    [
        (None, False),
        ({"scopes": frozenset({"shop:read"})}, False),
        ({"scopes": frozenset({"shop:read", "shop:write"})}, True),
        ({"has_all_scopes": True}, True),
    ],
)
def test_the_required_scopes_of_every_authenticator_apply(
    held: dict[str, Any] | None, is_enough: bool, is_async: bool
):
    class Plain(Authenticator):
        required_scopes = ("shop:read", "shop:write")

        def authenticate(self, exchange: Exchange) -> Any:
            auth = None if held is None else AuthInfo(subject="1", authenticator="x", **held)
            return Principal(key="x", auth=auth)

    class Async(Plain):
        async def authenticate(self, exchange: Exchange) -> Any:
            return super().authenticate(exchange)

    server = server_with(Async() if is_async else Plain())

    if is_enough:
        assert admit(server).key == "x"
    else:
        reply = refuse(server)
        assert reply.status == 403
        assert b'error="insufficient_scope"' in dict(reply.headers)[b"www-authenticate"]


def test_authenticate_may_be_an_async_callable_object():
    class Ask:
        async def __call__(self, exchange: Exchange) -> Principal:
            return Principal(key="object:me", user=None)

    class Asking(Authenticator):
        authenticate = Ask()

    assert admit(server_with(Asking())).key == "object:me"


def test_an_unavailable_database_does_not_block_other_authenticators(
    monkeypatch: pytest.MonkeyPatch,
):
    """RFC 9110 section 15.6.4"""
    monkeypatch.setattr("django_mcp.execution.outages.PAUSE_S", 3600)

    class Away(InThread):
        asked = 0

        def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
            type(self).asked += 1
            raise OperationalError("away")

    class AwayAsync(Authenticator):
        async def authenticate(self, exchange: Exchange) -> Principal | None:
            raise InterfaceError("away")

    refused = [refuse(server_with(AwayAsync()))]
    server = server_with(Known(), Away())
    refused += [refuse(server) for _ in range(3)]

    assert [each.status for each in refused] == [503] * 4
    assert {dict(each.headers).get(b"retry-after") for each in refused} == {b"2"}
    assert Away.asked == 1
    assert admit(server, bearer("good")).key == "known:1"


@pytest.mark.django_db
def test_an_inactive_user_is_rejected_by_every_authenticator():
    user = get_user_model()(pk=1, username="gone", is_active=False)

    class Careless(Authenticator):
        async def authenticate(self, exchange: Exchange) -> Principal:
            return Principal(key="x:1", user=user)

    server = server_with(Careless())

    assert refuse(server).status == 401
    user.is_active = True
    principal = admit(server)
    assert principal.source is not None
    assert async_to_sync(recheck)([principal]) == {principal}


def test_each_scheme_is_challenged_once():
    reply = refuse(server_with(Known(), Known(), InThread()))

    assert len(challenges_of(reply)) == 2
    assert challenges_of(reply)[1] == 'Who realm="here"'


# -- challenges


def test_without_credentials_the_challenge_names_no_error():
    reply = refuse(server_with(Known()))

    assert reply.status == 401
    assert challenges_of(reply) == ['Bearer realm="gated", scope="shop:read"']


def test_invalid_credentials_get_invalid_token():
    (challenge,) = challenges_of(refuse(server_with(Known()), bearer("bad")))

    assert 'error="invalid_token"' in challenge
    assert 'error_description="No such token"' in challenge


def test_all_missing_scopes_are_listed():
    exchange = exchange_with(bearer("good"))
    assert ask(server_with(Known()), exchange) is None

    refusal = insufficient_scope(exchange, ["shop:read", "shop:write", "offline_access"])

    assert refusal.status == 403
    ((name, challenge),) = refusal.headers
    assert name == b"www-authenticate"
    assert b'error="insufficient_scope"' in challenge
    assert b'scope="shop:read shop:write"' in challenge


def test_a_missing_scope_of_an_anonymous_caller_is_a_plain_401():
    exchange = exchange_with()
    assert ask(server_with(Known(), public=True), exchange) is None

    refusal = insufficient_scope(exchange, ["shop:write"])

    assert refusal.status == 401
    assert b"error" not in refusal.headers[0][1]


def test_a_realm_cannot_break_out_of_its_quotes():
    server = MCPServer('a", error="x\r\nSet-Cookie: y', authenticators=[Known()])

    (challenge,) = challenges_of(refuse(server))

    assert challenge.startswith('Bearer realm="a?, error=?x??Set-Cookie: y"')


# -- hostile headers


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer ",
        "bearer",
        "Bearer a b",
        "Bearer \x00good",
        "Bearer go\x00od",
        "Bearer good\x01",
        "Bearer g\xf6od",
        "Bearer\tgood",
        "Bearer good,good",
        "",
        "Bearer\xa0good",
    ],
)
def test_a_malformed_header_is_a_bad_request(value: str):
    known = Known()
    reply = refuse(server_with(known, public=True), {"authorization": value})

    assert reply.status == 400
    assert known.asked == []


@pytest.mark.parametrize(
    "value", ["Bearer good", "bearer good", "BEARER good", "Bearer    good", " Bearer good "]
)
def test_every_valid_header_value_is_accepted(value: str):
    assert admit(server_with(Known()), {"authorization": value}).key == "known:1"


def test_several_authorization_headers_are_a_bad_request():
    known = Known()
    lines = [("authorization", "Bearer good"), ("authorization", "Bearer good")]

    assert refuse(server_with(known), lines).status == 400
    assert known.asked == []


def test_a_token_of_100_kb_is_rejected_before_any_lookup():
    known = Known()

    assert refuse(server_with(known), bearer("x" * 100_000)).status == 401
    assert known.asked == []


@pytest.mark.parametrize("scheme", ["Basic", "Digest", "Negotiate", "bearerx", "OAuth"])
def test_another_scheme_is_rejected(scheme: str):
    known = Known()

    assert refuse(server_with(known), {"authorization": f"{scheme} good"}).status == 401
    assert known.asked == []


@pytest.mark.parametrize("query", ["access_token=good", "token=good", "authorization=Bearer+good"])
def test_a_token_in_the_query_string_is_ignored(query: str):
    known = Known()

    assert refuse(server_with(known), query=query).status == 401
    assert known.asked == []


# -- caching


def test_positive_and_negative_results_are_cached():
    known = Known()
    server = server_with(known)

    for _ in range(3):
        admit(server, bearer("good"))
        refuse(server, bearer("bad"))

    assert known.asked == ["good", "bad"]


def test_results_are_cached_for_at_most_two_seconds():
    known = Known(cache_s=3600)

    assert known._cache._max_age_s == 2


def test_an_authenticator_may_disable_caching():
    known = Known(cache_s=0)
    server = server_with(known)

    admit(server, bearer("good"))
    admit(server, bearer("good"))

    assert known.asked == ["good", "good"]


def test_a_token_is_not_cached_beyond_its_expiry():
    class Expiring(Known):
        async def verify(self, token: str, exchange: Exchange) -> Principal:
            self.asked.append(token)
            auth = AuthInfo(
                subject="1",
                authenticator=self.kind,
                scopes=frozenset({"shop:read"}),
                expires_at=time.time() - 1,
            )
            return Principal(key="known:1", auth=auth)

    known = Expiring()
    server = server_with(known)

    admit(server, bearer("good"))
    admit(server, bearer("good"))

    assert known.asked == ["good", "good"]


def test_invalid_tokens_do_not_evict_valid_ones():
    known = Known(cache_s=2)
    server = server_with(known)
    admit(server, bearer("good"))

    for number in range(5000):
        known._cache.remember(number, Rejection(reason="x"))
    admit(server, bearer("good"))

    assert known.asked == ["good"]
    assert len(known._cache._bad) <= 4096


# -- no token leaks


def test_no_token_is_stored_or_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    known = Known()
    server = server_with(known)
    exchange = exchange_with(bearer("good"))
    assert ask(server, exchange) is None
    replies = [
        refuse(server, bearer("wrong-canary")),
        refuse(server, {"authorization": "Bearer wrong canary"}),
    ]

    assert exchange.headers is not None
    assert exchange.headers.get("authorization") is None
    assert "canary" not in caplog.text
    # The transport logs their reasons.
    assert all(b"canary" not in (each.body or b"") + each.note.encode() for each in replies)
    assert "'good'" not in repr(vars(known._cache))


# -- keys


def test_principal_keys_are_unique():
    keys = {
        make_key("a", "b"),
        make_key("a", "b", "c"),
        make_key("a", "b:c"),
        make_key("a:b", "c"),
        make_key("a", "x" * 500),
        make_key("a", "x" * 501),
    }

    assert len(keys) == 6
    assert max(map(len, keys)) <= MAX_KEY_LENGTH


@pytest.mark.parametrize("user", ["ada", 7])
def test_a_name_or_a_key_is_no_user(user: Any):
    with pytest.raises(TypeError, match="object of the user model, not"):
        Principal(key="token:1", user=user)
