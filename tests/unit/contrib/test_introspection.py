"""Opaque tokens, verified by introspection at their issuer."""

from __future__ import annotations

import asyncio
import base64
import gc
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from django_mcp import MCPServer
from django_mcp.auth.principal import Principal
from django_mcp.auth.recheck import recheck
from django_mcp.contrib.introspection import IntrospectionAuthenticator
from django_mcp.contrib.jwt import JWTAuthenticator
from tests.support.auth.asking import (
    LIMIT_S,
    admit,
    arecheck_until,
    bearer,
    challenges_of,
    exchange_with,
    recheck_until,
    refuse,
)
from tests.support.auth.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.http.harness import until

GOOD: dict[str, Any] = {"active": True, "sub": "ada", "aud": AUDIENCE, "scope": "a b"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as found:
        yield found


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


def server_for(issuer: Issuer, **options: Any) -> MCPServer:
    given = {
        "url": f"{issuer.url}/introspect",
        "client_id": "shop:1",
        "client_secret": "s&cret",
        "audience": AUDIENCE,
        "issuer": issuer.url,
        "cache_s": 0,
        **options,
    }
    return MCPServer("asking", authenticators=[IntrospectionAuthenticator(**given)])


def test_introspection_identifies_the_tokens_subject(issuer: Issuer):
    issuer.tokens["opaque"] = {**GOOD, "client_id": "c", "exp": 4e9, "iss": issuer.url}

    auth = admit(server_for(issuer), bearer("opaque")).auth

    assert (auth.subject, auth.client_id, auth.scopes) == ("ada", "c", {"a", "b"})
    assert (auth.authenticator, auth.expires_at) == ("introspection", 4e9)


def test_introspection_requests_follow_rfc_7662(issuer: Issuer):
    refuse(server_for(issuer), bearer("opaque"))

    ((authorization, form),) = issuer.forms
    assert base64.b64decode(authorization.split(" ")[1]) == b"shop%3A1:s%26cret"
    assert form == {"token": ["opaque"], "token_type_hint": ["access_token"]}


@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        {**GOOD, "active": "true"},
        {**GOOD, "active": 1},
        {**GOOD, "aud": None},
        {**GOOD, "aud": AUDIENCE + "/x"},
        {**GOOD, "aud": ["other"]},
        {**GOOD, "iss": "https://evil.example"},
        {**GOOD, "exp": 1},
        {**GOOD, "exp": "9999999999"},
        {**GOOD, "sub": None},
        {**GOOD, "token_use": "refresh_token"},
        {**GOOD, "token_use": ["access_token"]},
        {**GOOD, "token_type": "refresh_token"},
        {**GOOD, "typ": "Refresh"},
        {**GOOD, "typ": "ID"},
        [],
        "yes",
    ],
    ids=str,
)
def test_a_token_for_another_audience_or_time_is_rejected(issuer: Issuer, answer: Any):
    issuer.tokens["opaque"] = answer

    reply = refuse(server_for(issuer), bearer("opaque"))

    assert reply.status == 401
    assert 'error="invalid_token"' in challenges_of(reply)[0]


@pytest.mark.parametrize(("status", "raw"), [(500, None), (302, None), (200, b"{"), (401, None)])
def test_an_unreachable_issuer_is_a_server_error(
    issuer: Issuer, status: int, raw: bytes | None, caplog: pytest.LogCaptureFixture
):
    issuer.tokens["opaque"] = GOOD
    issuer.status, issuer.raw = status, raw

    reply = refuse(server_for(issuer), bearer("opaque"))

    assert reply.status == 503
    assert b"127.0.0.1" not in (reply.body or b"")
    assert "about a token: 127.0.0.1" in caplog.text
    assert "opaque" not in caplog.text
    assert set(issuer.asked) == {"/introspect"}


@pytest.mark.parametrize(
    "kind",
    [{"token_use": "access_token", "token_type": "Bearer"}, {"typ": "Bearer"}, {"token_use": None}],
    ids=str,
)
def test_what_an_issuer_calls_an_access_token_is_accepted(issuer: Issuer, kind: Any):
    issuer.tokens["opaque"] = {**GOOD, **kind}

    assert admit(server_for(issuer), bearer("opaque"))


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": None, "scp": "a b"}, ["a", "b"]),
        ({"scope": ["a", "b"]}, ["a", "b"]),
        ({"scope": None}, []),
        ({"scope": {"a": 1}}, []),
        ({"scope": ["a", 1]}, []),
        ({"scope": True}, []),
    ],
    ids=str,
)
def test_scopes_are_a_text_or_a_list_of_texts(issuer: Issuer, claims: Any, scopes: list[str]):
    issuer.tokens["opaque"] = {**GOOD, **claims}

    assert admit(server_for(issuer), bearer("opaque")).auth.scopes == set(scopes)


def test_required_scopes_apply_to_every_token(issuer: Issuer):
    issuer.tokens["opaque"] = GOOD

    assert admit(server_for(issuer, required_scopes=["a"]), bearer("opaque"))
    assert refuse(server_for(issuer, required_scopes=["c"]), bearer("opaque")).status == 403


def test_an_introspection_response_is_cached_briefly(issuer: Issuer):
    issuer.tokens["opaque"] = GOOD
    server = server_for(issuer, cache_s=2)

    for _ in range(3):
        admit(server, bearer("opaque"))
        refuse(server, bearer("wrong"))

    assert issuer.asked["/introspect"] == 2


@pytest.mark.django_db
def test_an_inactive_account_is_rejected(issuer: Issuer):
    user = get_user_model().objects.create_user("ada")
    issuer.tokens["opaque"] = GOOD
    server = server_for(issuer, user_field="username")

    assert admit(server, bearer("opaque")).user == user
    get_user_model().objects.update(is_active=False)
    assert refuse(server, bearer("opaque")).status == 401


@pytest.mark.parametrize(
    "options",
    [
        {"url": "http://i.example"},
        {"issuer": "http://i.example"},
        {"audience": ""},
        {"audience": None},
    ],
    ids=str,
)
def test_untrustworthy_configuration_is_rejected(options: dict[str, Any]):
    given: dict[str, Any] = {
        "url": "https://i.example/introspect",
        "issuer": "https://i.example",
        "client_id": "shop",
        "client_secret": "s",
        "audience": "a",
    }
    with pytest.raises(ValueError, match="must"):
        IntrospectionAuthenticator(**{**given, **options})


def test_open_streams_end_when_the_issuer_revokes_the_token(issuer: Issuer):
    issuer.tokens.update(first=GOOD, second=GOOD)
    server = server_for(issuer, recheck_s=0)
    first, again, second = (admit(server, bearer(name)) for name in ("first", "first", "second"))
    opened = [first, again, second]
    asked = len(issuer.forms)

    @async_to_sync
    async def look_once() -> None:
        assert await recheck(opened) == set()
        # The caller does not wait for a round that takes long.
        await until(lambda: len(issuer.forms) >= asked + 2)

    look_once()
    # Of each token once.
    assert len(issuer.forms) == asked + 2
    del issuer.tokens["first"]
    assert recheck_until(bool, opened) == {first, again}
    assert "first" not in repr(first.handle)


def test_an_unreachable_issuer_ends_no_stream(issuer: Issuer):
    issuer.tokens["opaque"] = GOOD
    principal = admit(server_for(issuer, recheck_s=0), bearer("opaque"))
    for status in (500, 200):
        issuer.status = status
        asked = len(issuer.forms)
        was_asked = lambda _ended, asked=asked: len(issuer.forms) > asked + 1  # noqa: E731
        assert recheck_until(was_asked, [principal]) == set()

    issuer.tokens["opaque"] = {**GOOD, "sub": "eve"}
    assert recheck_until(bool, [principal]) == {principal}


def test_a_slow_issuer_does_not_block_other_requests(issuer: Issuer):
    issuer.tokens["opaque"] = GOOD
    server = server_for(issuer, recheck_s=0)
    principal = admit(server, bearer("opaque"))
    issuer.tokens.clear()

    @async_to_sync
    async def look() -> None:
        issuer.go.clear()
        assert await recheck([principal]) == set()
        issuer.go.set()
        assert await arecheck_until(bool, [principal]) == {principal}

    look()


def test_a_cached_result_does_not_contain_the_token(issuer: Issuer):
    issuer.tokens["opaque"] = GOOD
    server = server_for(issuer, cache_s=2)
    principal = admit(server, bearer("opaque"))
    key, handle = principal.key, principal.handle
    assert admit(server, bearer("opaque")).handle == handle

    del principal
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, Principal) and each.key == key]
    assert [each.handle for each in kept] == [None]


def test_without_rechecks_streams_end_at_the_tokens_expiry(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
):
    now = time.time()
    issuer.tokens["opaque"] = {**GOOD, "exp": now + 60}
    issuer.tokens["endless"] = GOOD
    server = server_for(issuer, recheck_s=None)
    principals = {name: admit(server, bearer(name)) for name in ("opaque", "endless")}
    asked = len(issuer.forms)
    issuer.tokens.clear()

    assert async_to_sync(recheck)(principals.values()) == set()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert async_to_sync(recheck)(principals.values()) == {principals["opaque"]}
    assert len(issuer.forms) == asked
    assert refuse(server, bearer("endless")).status == 401


# -- many junk tokens


def admit_all(server: MCPServer, tokens: Iterable[str], address: str) -> list[asyncio.Task[Any]]:
    """Present tokens at the same time, from one address."""
    found = []
    for token in tokens:
        exchange = exchange_with(bearer(token))
        exchange.caller.address = address
        authenticate: Any = server.engine.authenticate
        found.append(asyncio.create_task(authenticate(exchange)))
    return found


async def present(server: MCPServer, token: str, address: str = "192.0.2.1") -> Any:
    (task,) = admit_all(server, [token], address)
    async with asyncio.timeout(LIMIT_S):
        return await task


def junk(number: int, name: str = "junk") -> list[str]:
    return [f"{name}-{each}" for each in range(number)]


def test_junk_tokens_of_one_address_do_not_delay_other_addresses(issuer: Issuer):
    issuer.tokens["good"] = GOOD
    issuer.held = set(junk(48))
    issuer.go.clear()
    server = server_for(issuer)

    @async_to_sync
    async def run() -> None:
        tasks = admit_all(server, junk(48), "198.51.100.1")
        assert await present(server, "good") is None
        assert not any(task.done() for task in tasks)
        issuer.go.set()
        replies = await asyncio.gather(*tasks)
        assert {reply.status for reply in replies} <= {401, 503}

    run()


def test_junk_tokens_of_many_addresses_do_not_delay_known_clients(issuer: Issuer):
    issuer.tokens["good"] = GOOD
    issuer.held = set(junk(100))
    server = server_for(issuer)

    @async_to_sync
    async def run() -> None:
        assert await present(server, "good") is None
        issuer.go.clear()
        tasks = []
        for number, token in enumerate(junk(100)):
            tasks += admit_all(server, [token], f"198.51.100.{number}")
        assert await present(server, "good") is None
        assert not any(task.done() for task in tasks)
        issuer.go.set()
        await asyncio.gather(*tasks)

    run()


def test_too_many_junk_tokens_are_rejected_with_retry_after(issuer: Issuer):
    issuer.go.clear()
    server = server_for(issuer)

    @async_to_sync
    async def run() -> None:
        tasks = admit_all(server, junk(60), "198.51.100.1")
        done, waiting = await asyncio.wait(
            tasks, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED
        )
        assert {task.result().status for task in done} == {503}
        assert {dict(task.result().headers)[b"retry-after"] for task in done} == {b"2"}
        assert b"try again" in next(iter(done)).result().body
        issuer.go.set()
        await asyncio.gather(*waiting)

    run()


def test_issuer_keys_are_fetched_while_junk_tokens_wait(issuer: Issuer):
    issuer.held = set(junk(20))
    issuer.go.clear()
    server = server_for(issuer)
    with running_issuer() as other:
        keys = JWTAuthenticator(issuer=other.url, audience=AUDIENCE)
        signed = MCPServer("signed", authenticators=[keys])

        @async_to_sync
        async def run() -> None:
            tasks = []
            for number, token in enumerate(junk(20)):
                tasks += admit_all(server, [token], f"198.51.100.{number}")
            assert await present(signed, other.sign()) is None
            assert not any(task.done() for task in tasks)
            issuer.go.set()
            await asyncio.gather(*tasks)

        run()


def test_concurrent_introspections_of_a_token_share_one_request(issuer: Issuer):
    issuer.tokens["good"] = GOOD
    issuer.go.clear()
    server = server_for(issuer)

    @async_to_sync
    async def run() -> None:
        tasks = admit_all(server, ["good"] * 20, "192.0.2.1")
        await asyncio.to_thread(issuer.came.wait, LIMIT_S)
        tasks[0].cancel()
        issuer.go.set()
        assert await asyncio.gather(*tasks[1:]) == [None] * 19

    run()
    assert issuer.asked == {"/introspect": 1}


def test_an_inactive_token_is_not_introspected_again_for_a_while(issuer: Issuer):
    server = server_for(issuer)

    for _ in range(5):
        assert refuse(server, bearer("junk")).status == 401
    assert issuer.asked["/introspect"] == 1
    fresh = server_for(issuer, inactive_cache_s=0)
    for _ in range(5):
        assert refuse(fresh, bearer("junk")).status == 401
    assert issuer.asked["/introspect"] == 6


def test_an_unreachable_issuer_does_not_make_a_token_inactive(issuer: Issuer):
    issuer.tokens["good"] = GOOD
    server = server_for(issuer)
    issuer.status = 500
    assert refuse(server, bearer("good")).status == 503
    issuer.status = 200

    assert admit(server, bearer("good"))
