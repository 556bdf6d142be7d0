"""API keys: creation, use, restriction, revocation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator, BearerAuthenticator
from django_mcp.auth.principal import Rejection
from django_mcp.auth.recheck import recheck
from django_mcp.models.keys import APIKey
from tests.support.auth.asking import admit, bearer, challenges_of, queries, refuse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("keyed", authenticators=[APIKeyAuthenticator(cache_s=0)])


def issue(user: Any, **fields: Any) -> tuple[APIKey, str]:
    return APIKey.objects.issue(user=user, name="tests", **fields)


def test_a_key_is_long_random_and_stored_as_a_digest(user: Any):
    key, text = issue(user)

    secret = text.split("_", 2)[2]
    stored = {str(value) for value in APIKey.objects.values().get(pk=key.pk).values()}
    assert text.startswith(f"mcp_{key.prefix}_")
    assert len(secret) == 43
    assert not any(secret in value for value in stored)
    assert issue(user)[1] != text


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_a_key_authenticates_its_user(server: MCPServer, user: Any, header: str):
    expires_at = timezone.now() + timedelta(days=1)
    server.tool(name="look")(lambda: "")
    key, text = issue(user, scopes=["a", "b"], tools=["look"], expires_at=expires_at)

    principal = admit(server, {header: f"Bearer {text}" if header == "authorization" else text})

    assert principal.user == user
    assert principal.auth.scopes == {"a", "b"}
    assert principal.auth.allowed_tools == {"look"}
    assert principal.auth.client_id == f"mcp_{key.prefix}"
    assert principal.auth.authenticator == "api-key"
    assert principal.auth.expires_at == pytest.approx(expires_at.timestamp())


def test_a_key_without_a_secret_is_not_saved(user: Any):
    for create in (
        lambda: APIKey.objects.create(user=user, name="x"),
        lambda: APIKey(user=user, name="x").save(),
        lambda: APIKey.objects.bulk_create([APIKey(user=user, name="x")]),
        lambda: APIKey.objects.get_or_create(user=user, name="x"),
        lambda: user.mcp_api_keys.create(name="x"),
    ):
        with pytest.raises(ValueError, match=r"nobody could use it.*APIKey\.objects\.issue\("):
            create()
    assert not APIKey.objects.exists()


async def test_a_key_without_a_secret_is_not_saved_asynchronously(user: Any):
    with pytest.raises(ValueError, match="nobody could use it"):
        await APIKey.objects.acreate(user=user, name="x")


def test_a_key_that_is_stored_already_can_be_revoked_whatever_it_lacks(user: Any):
    key = issue(user)[0]
    APIKey.objects.update(digest="")
    key.refresh_from_db()

    key.revoke()

    assert APIKey.objects.get().revoked_at is not None


def test_keys_with_secrets_are_saved_in_bulk(user: Any):
    key = APIKey(user=user, name="x")
    key.renew_secret()

    APIKey.objects.bulk_create(iter([key]))

    assert APIKey.objects.get().digest == key.digest


def test_a_misspelt_scope_is_an_error_and_another_unknown_one_is_logged(
    server: MCPServer, user: Any, caplog: pytest.LogCaptureFixture
):
    server.tool(name="look", scopes=["orders:read"])(lambda: "")

    with pytest.raises(
        ValueError, match=r"names the scope 'orders:raed'\. Did you mean 'orders:read'\?"
    ):
        issue(user, scopes=["orders:raed"])
    assert not APIKey.objects.exists()
    assert caplog.text == ""

    issue(user, scopes=["orders:read", "zzz"])
    assert "A key gets the scope 'zzz', which no MCP server names." in caplog.text


def test_a_key_that_nothing_accepts_is_logged(
    server: MCPServer, user: Any, caplog: pytest.LogCaptureFixture
):
    issue(user, expires_at=timezone.now() + timedelta(days=1))
    assert caplog.text == ""

    issue(user, expires_at=timezone.now() - timedelta(days=1))
    assert "expired at" in caplog.text
    caplog.clear()

    issue(get_user_model().objects.create_user("gone", is_active=False))
    assert "A key was made for gone, who is not active" in caplog.text


def test_a_misspelt_tool_is_an_error(server: MCPServer, user: Any):
    server.tool(name="look")(lambda: "")

    with pytest.raises(ValueError, match="No MCP server has the tools 'loook', 'fnid'"):
        issue(user, tools=["look", "loook", "fnid"])
    assert not APIKey.objects.exists()


def test_a_key_is_revoked_in_python(server: MCPServer, user: Any):
    key, text = issue(user)

    key.revoke()

    revoked_at = APIKey.objects.get().revoked_at
    assert revoked_at is not None
    assert challenges_of(refuse(server, bearer(text)))
    key.revoke()
    assert APIKey.objects.get().revoked_at == revoked_at


@pytest.mark.parametrize("why", ["of an inactive user", "revoked or has expired"])
def test_the_log_tells_the_holder_of_a_key_why_it_is_refused(
    server: MCPServer, user: Any, why: str, caplog: pytest.LogCaptureFixture
):
    key, text = issue(user)
    if why == "of an inactive user":
        get_user_model().objects.update(is_active=False)
    else:
        key.revoke()

    refusals = [refuse(server, bearer(text)) for _ in range(3)]
    guessed = refuse(server, bearer(text[:-1] + ("a" if text[-1] != "a" else "b")))

    # The client cannot tell it from a key that was guessed.
    assert {each.body for each in refusals} == {guessed.body}
    told = [each.getMessage() for each in caplog.records]
    assert told == [f"The API key mcp_{key.prefix} was refused, since it is {why}"]


def test_another_scheme_gets_the_right_challenge(server: MCPServer, user: Any):
    _key, text = issue(user)

    refusal = refuse(server, {"authorization": f"Token {text}"})

    assert b"send Authorization: Bearer, followed by a key or token" in (refusal.body or b"")


def test_a_key_without_restriction_may_use_every_tool(server: MCPServer, user: Any):
    assert admit(server, bearer(issue(user)[1])).auth.allowed_tools is None
    assert admit(server, bearer(issue(user, tools=[])[1])).auth.allowed_tools == frozenset()


def test_a_key_lookup_needs_one_query(server: MCPServer, user: Any):
    key, text = issue(user)
    APIKey.objects.filter(pk=key.pk).update(last_used_at=timezone.now())

    with queries(1):
        assert admit(server, bearer(text)).user.username == "ada"


def test_a_cached_key_needs_no_query(user: Any):
    server = MCPServer("remembering", authenticators=[APIKeyAuthenticator])
    text = issue(user)[1]
    admit(server, bearer(text))

    with queries(0):
        first, second = admit(server, bearer(text)), admit(server, bearer(text))

    assert first.user == second.user
    assert first.user is not second.user


@pytest.mark.parametrize(
    "token",
    [
        "mcp_",
        "mcp_x",
        "mcp_000000000000",
        "mcp_000000000000_",
        "mcp_" + "0" * 12 + "_" + "x" * 42,
        "mcp_" + "0" * 12 + "_" + "x" * 44,
        "mcp_" + "G" * 12 + "_" + "x" * 43,
        "mcp_" + "0" * 5000,
    ],
)
def test_a_malformed_key_is_rejected_without_a_query(server: MCPServer, token: str):
    with queries(0):
        assert refuse(server, bearer(token)).status == 401
        assert refuse(server, {"x-api-key": token}).status == 401


def test_all_invalid_keys_get_the_same_error(server: MCPServer, user: Any):
    """A guess reveals nothing about existing keys."""
    now = timezone.now()
    other = get_user_model().objects.create_user("gone", is_active=False)
    right = issue(user)[1]
    revoked, revoked_text = issue(user)
    APIKey.objects.filter(pk=revoked.pk).update(revoked_at=now)
    replies = [
        refuse(server, bearer(token))
        for token in (
            issue(user, expires_at=now - timedelta(seconds=1))[1],
            issue(other)[1],
            revoked_text,
            right[:-1] + ("A" if right[-1] != "A" else "B"),
            "mcp_" + "0" * 12 + "_" + "x" * 43,
        )
    ]

    assert {(reply.status, reply.body) for reply in replies} == {(401, replies[0].body)}
    assert {tuple(challenges_of(reply)) for reply in replies} == {tuple(challenges_of(replies[0]))}


@pytest.mark.parametrize("token", ["opaque", "a.b.c"])
def test_other_tokens_are_left_to_other_authenticators(token: str):
    server = MCPServer("public too", public=True, authenticators=[APIKeyAuthenticator])

    # No authenticator accepts it then.
    assert b"check that the key or token is complete" in (refuse(server, bearer(token)).body or b"")


def test_the_api_key_header_accepts_only_api_keys():
    server = MCPServer("public as well", public=True, authenticators=[APIKeyAuthenticator])

    assert refuse(server, {"x-api-key": "opaque"}).status == 401


def test_api_keys_reach_their_authenticator_after_other_bearer_ones(user: Any):
    class Opaque(BearerAuthenticator):
        async def verify(self, token: str, exchange: Any) -> Rejection:
            return Rejection(reason="Unknown")

    server = MCPServer("both", authenticators=[Opaque(), APIKeyAuthenticator()])

    assert admit(server, bearer(issue(user)[1])).user == user
    assert refuse(server, bearer("opaque")).status == 401


def test_a_key_in_two_headers_is_rejected(server: MCPServer, user: Any):
    one, other = issue(user)[1], issue(user)[1]

    assert refuse(server, {"x-api-key": one, **bearer(other)}).status == 400
    assert refuse(server, {"x-api-key": one, **bearer("opaque")}).status == 400
    # A gateway in front may use its own keys.
    assert admit(server, {"x-api-key": "gateway", **bearer(one)}).user == user


# -- recording of use


def test_key_use_is_recorded_once_a_minute(server: MCPServer, user: Any):
    key, text = issue(user)
    admit(server, bearer(text))
    first = APIKey.objects.get(pk=key.pk).last_used_at
    assert first is not None

    with queries(1):
        admit(server, bearer(text))
    APIKey.objects.filter(pk=key.pk).update(last_used_at=first - timedelta(minutes=2))
    admit(server, bearer(text))

    last = APIKey.objects.get(pk=key.pk).last_used_at
    assert last is not None
    assert last >= first


# -- rechecks


def test_rechecking_finds_ended_keys_in_one_query(server: MCPServer, user: Any):
    users = [get_user_model().objects.create_user(name) for name in ("b", "c", "d", "e")]
    keys = [issue(each) for each in users]
    principals = [admit(server, bearer(text)) for _, text in keys]
    staying = admit(server, bearer(issue(user)[1]))

    APIKey.objects.filter(pk=keys[0][0].pk).update(revoked_at=timezone.now())
    APIKey.objects.filter(pk=keys[1][0].pk).update(expires_at=timezone.now())
    APIKey.objects.filter(pk=keys[2][0].pk).delete()
    get_user_model().objects.filter(pk=users[3].pk).update(is_active=False)

    with queries(1):
        ended = async_to_sync(recheck)([*principals, staying])
    assert ended == set(principals)


def test_rechecking_skips_anonymous_principals():
    from django_mcp.server.exchange.caller import ANONYMOUS

    assert async_to_sync(recheck)([ANONYMOUS]) == set()


@override_settings(
    DJANGO_MCP={"AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"]}
)
def test_settings_accept_the_authenticators_dotted_path(user: Any):
    from django_mcp import default_server

    assert refuse(default_server).status == 401


@pytest.mark.django_db
@pytest.mark.parametrize("argument", ["scopes", "tools"])
def test_a_string_instead_of_a_list_is_rejected(argument: str) -> None:
    """It would be read letter by letter."""
    user = get_user_model().objects.create_user("ann")
    wrong: Any = {argument: "look"}

    with pytest.raises(TypeError, match=rf"write {argument}=\['look'\]"):
        APIKey.objects.issue(user=user, name="x", **wrong)

    assert not APIKey.objects.exists()
