"""Tokens of an external issuer: its keys, its name and the audience are checked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import jwt
import pytest
from django.contrib.auth import get_user_model
from django.db.models.lookups import IExact
from django.test.utils import register_lookup

from django_mcp import MCPServer
from django_mcp.contrib.jwt import JWTAuthenticator
from django_mcp.contrib.jwt.keys import FETCHERS
from tests.support.auth.asking import admit, bearer, challenges_of, exchange_with, queries, refuse
from tests.support.auth.issuer import (
    AUDIENCE,
    PRIVATE,
    Issuer,
    public_jwk,
    public_pem,
    running_issuer,
    unsigned,
)
from tests.support.library.models import Sample


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as found:
        yield found


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


def server_for(issuer: Issuer, **options: Any) -> MCPServer:
    given = {"audience": AUDIENCE, "cache_s": 0, "issuer": issuer.url, **options}
    return MCPServer("tokens", authenticators=[JWTAuthenticator(**given)])


def test_a_token_of_the_issuer_identifies_its_subject(issuer: Issuer):
    expires = int(time.time()) + 60
    principal = admit(server_for(issuer), bearer(issuer.sign(exp=expires, groups=["a"])))

    assert principal.auth.subject == "ada"
    assert principal.auth.client_id == "some-client"
    assert principal.auth.scopes == {"read", "write"}
    assert principal.auth.claims["groups"] == ["a"]
    assert principal.auth.expires_at == expires
    assert principal.auth.authenticator == "jwt"
    assert principal.user.is_anonymous
    with pytest.raises(TypeError):
        principal.auth.claims["sub"] = "eve"


def test_the_next_token_of_the_same_client_is_the_same_principal(issuer: Issuer):
    server = server_for(issuer)
    first = admit(server, bearer(issuer.sign()))
    refreshed = admit(server, bearer(issuer.sign(exp=int(time.time()) + 900)))
    others: list[dict[str, Any]] = [{"sub": "eve"}, {"azp": "x"}]
    keys = {admit(server, bearer(issuer.sign(**claims))).key for claims in others}

    assert first.key == refreshed.key
    assert len({first.key, *keys}) == 3


@pytest.mark.parametrize(("key", "algorithm"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_each_pinned_algorithm_works(issuer: Issuer, key: str, algorithm: str):
    assert admit(server_for(issuer, algorithms=[algorithm]), bearer(issuer.sign(key)))


def test_one_matching_audience_is_enough(issuer: Issuer):
    assert admit(server_for(issuer), bearer(issuer.sign(aud=["x", AUDIENCE])))
    assert admit(server_for(issuer, audience=["y", AUDIENCE]), bearer(issuer.sign()))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": 1e400},
        {"exp": 10**400},
        {"exp": "9999999999"},
        {"nbf": 4e9},
        {"aud": None},
        {"aud": "https://testserver/other"},
        {"aud": "https://testserver/mc"},
        {"aud": AUDIENCE + "/"},
        {"aud": AUDIENCE + "/more"},
        {"aud": ["https://testserver"]},
        {"aud": {AUDIENCE: 1}},
        {"aud": [1, None]},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_token_with_wrong_audience_issuer_or_time_is_rejected(
    issuer: Issuer, claims: dict[str, Any]
):
    reply = refuse(server_for(issuer), bearer(issuer.sign(**claims)))

    assert reply.status == 401
    assert 'error="invalid_token"' in challenges_of(reply)[0]


def test_a_small_clock_skew_is_tolerated(issuer: Issuer):
    just_now = int(time.time()) - 5

    assert admit(server_for(issuer), bearer(issuer.sign(exp=just_now)))
    assert refuse(server_for(issuer, leeway_s=0), bearer(issuer.sign(exp=just_now))).status == 401


def hmac_token(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    head = unsigned(header, claims).rsplit(".", 1)[0]
    signature = hmac.new(secret, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def forgeries(issuer: Issuer) -> dict[str, str]:
    claims = issuer.claims()
    good = issuer.sign()
    head, _, signature = good.split(".")
    other_body = unsigned({}, issuer.claims(sub="root")).split(".")[1]
    own_key = public_jwk("stranger")
    return {
        "alg none": unsigned({"alg": "none", "typ": "JWT"}, claims, b"x"),
        "alg None": unsigned({"alg": "None"}, claims, b"x"),
        "no alg": unsigned({}, claims, b"x"),
        "alg a list": unsigned({"alg": ["RS256"]}, claims, b"x"),
        "HMAC with the public key": hmac_token(
            {"alg": "HS256", "kid": "rsa"}, claims, public_pem("rsa")
        ),
        "HMAC with the key's text": hmac_token(
            {"alg": "HS256", "kid": "rsa"}, claims, json.dumps(public_jwk("rsa")).encode()
        ),
        "another algorithm of the key": jwt.encode(
            claims, PRIVATE["rsa"], algorithm="PS256", headers={"kid": "rsa"}
        ),
        "not pinned": issuer.sign("ec"),
        "key of another type": issuer.sign("rsa", headers={"kid": "ec"}),
        "a stranger's key": issuer.sign("stranger", headers={"kid": "rsa"}),
        "a key brought along": issuer.sign("stranger", headers={"kid": "rsa", "jwk": own_key}),
        "a key from elsewhere": issuer.sign(
            "stranger", headers={"kid": "rsa", "jku": "https://evil.example/keys"}
        ),
        "a path as key": issuer.sign("stranger", headers={"kid": "../../dev/null"}),
        "unknown key": issuer.sign(headers={"kid": "unknown"}),
        "critical extension": issuer.sign(headers={"crit": ["x"], "x": 1}),
        "changed claims": f"{head}.{other_body}.{signature}",
        "cut signature": good[:-4],
        "no JSON": "YQ.YQ.YQ",
        "an array": unsigned([], []),  # type: ignore[arg-type]
        "deep": f"{head}.{'W1tb' * 3000}.{signature}",
    }


@pytest.mark.parametrize("name", forgeries(Issuer("http://127.0.0.1:1")))
def test_a_forged_token_is_rejected(issuer: Issuer, name: str):
    reply = refuse(server_for(issuer), bearer(forgeries(issuer)[name]))

    assert reply.status == 401
    assert set(issuer.asked) <= {"/.well-known/openid-configuration", "/keys"}


@pytest.mark.parametrize("algorithms", [["none"], ["HS256"], ["RS256", "HS512"], []])
def test_only_algorithms_with_public_keys_can_be_pinned(algorithms: list[str]):
    with pytest.raises(ValueError, match="algorithms"):
        JWTAuthenticator(issuer="https://i.example", audience="a", algorithms=algorithms)


def test_algorithms_must_be_a_list():
    with pytest.raises(TypeError, match=r"algorithms must be a list, such as \['RS256'\]"):
        JWTAuthenticator(issuer="https://i.example", audience="a", algorithms="RS256")


@pytest.mark.parametrize(
    "options",
    [
        {"issuer": "http://i.example"},
        {"issuer": "ftp://i.example"},
        {"issuer": "file:///etc/passwd"},
        {"jwks_url": "http://i.example/keys"},
        {"audience": ""},
        {"audience": []},
        {"audience": None},
        {"audience": [None]},
    ],
    ids=str,
)
def test_untrustworthy_configuration_is_rejected(options: dict[str, Any]):
    with pytest.raises(ValueError, match="must"):
        JWTAuthenticator(**{"issuer": "https://i.example", "audience": "a", **options})


def test_an_encryption_key_does_not_verify_signatures(issuer: Issuer):
    issuer.keys = [public_jwk("rsa", use="enc")]

    assert refuse(server_for(issuer), bearer(issuer.sign())).status == 401


def test_a_token_without_kid_is_tried_with_every_key(issuer: Issuer):
    token = jwt.encode(
        issuer.claims(), PRIVATE["rsa"], algorithm="RS256", headers={"typ": "at+jwt"}
    )

    assert admit(server_for(issuer), bearer(token))


def test_required_scopes_apply_to_every_token(issuer: Issuer):
    server = server_for(issuer, required_scopes=["write"])
    assert admit(server, bearer(issuer.sign()))

    reply = refuse(server, bearer(issuer.sign(scope="read")))

    assert reply.status == 403
    assert 'error="insufficient_scope"' in challenges_of(reply)[0]
    assert 'scope="write"' in challenges_of(reply)[0]


def test_a_broad_scope_includes_the_scopes_it_implies(issuer: Issuer, settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0, "SCOPE_IMPLIES": {"write": ["mcp"]}}

    assert admit(server_for(issuer, required_scopes=["mcp"]), bearer(issuer.sign()))


def test_tokens_of_several_issuers_are_distinguished():
    with running_issuer() as one, running_issuer() as two:
        server = MCPServer(
            "two",
            authenticators=[
                JWTAuthenticator(issuer=each.url, audience=AUDIENCE) for each in (one, two)
            ],
        )

        assert admit(server, bearer(one.sign())).key != admit(server, bearer(two.sign())).key


@pytest.mark.django_db
@pytest.mark.parametrize("claims", [{}, {"azp": None}], ids=["a client", "no client"])
def test_clients_of_one_user_at_several_issuers_are_distinguished(claims: dict[str, Any]):
    """They may have the same name, and see neither the sessions nor the tasks of each other."""
    ada = get_user_model().objects.create_user("ada")
    with running_issuer() as one, running_issuer() as two:
        server = MCPServer(
            "two",
            authenticators=[
                JWTAuthenticator(issuer=each.url, audience=AUDIENCE, user_field="username")
                for each in (one, two)
            ],
        )
        found = [admit(server, bearer(each.sign(**claims))) for each in (one, two)]

    assert [each.user for each in found] == [ada, ada]
    assert found[0].key != found[1].key


# -- the type of a token

ABSENT: Any = {"typ": None}


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"])
def test_an_access_token_may_name_its_type_in_every_form_of_rfc_9068(issuer: Issuer, typ: str):
    token = issuer.sign(headers={"typ": typ})

    assert admit(server_for(issuer), bearer(token))
    assert admit(server_for(issuer, token_types=["at+jwt"]), bearer(token))


def test_a_token_without_a_type_is_accepted_unless_the_types_say_otherwise(issuer: Issuer):
    token = issuer.sign(headers=ABSENT)

    assert "typ" not in jwt.get_unverified_header(token)
    assert admit(server_for(issuer), bearer(token))
    assert refuse(server_for(issuer, token_types=["at+jwt"]), bearer(token)).status == 401


@pytest.mark.parametrize(
    "typ",
    ["JWT", "dpop+jwt", "logout+jwt", "at+jwt ", "at", "application/", "", 7, ["at+jwt"], {}, True],
    ids=str,
)
def test_a_token_of_another_type_is_rejected(issuer: Issuer, typ: Any):
    claims = issuer.claims()
    token = with_header(issuer, {"alg": "RS256", "kid": "rsa", "typ": typ}, claims)

    reply = refuse(server_for(issuer), bearer(token))

    assert reply.status == 401
    assert 'error="invalid_token"' in challenges_of(reply)[0]


def test_the_types_of_an_issuer_that_differs_can_be_set(issuer: Issuer):
    token = issuer.sign(headers={"typ": "JWT"})

    for types in (["JWT"], ["at+jwt", "jwt"], ["application/jwt"]):
        assert admit(server_for(issuer, token_types=types), bearer(token))
    access_token = issuer.sign(headers={"typ": "at+jwt"})
    assert refuse(server_for(issuer, token_types=["JWT"]), bearer(access_token)).status == 401


def test_the_log_and_not_the_client_learns_how_to_accept_a_type(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
):
    server = server_for(issuer)

    token = issuer.sign(headers={"typ": "JWT" + "x" * 500})

    replies = [refuse(server, bearer(token)) for _ in range(3)]

    assert all(b"token_types" not in (reply.body or b"") for reply in replies)
    assert caplog.text.count("token_types") == 1
    assert "x" * 100 not in caplog.text


def test_an_unverified_token_cannot_put_its_type_in_the_log(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
):
    refuse(server_for(issuer), bearer(issuer.sign("stranger", headers={"typ": "evil"})))

    assert "evil" not in caplog.text


@pytest.mark.parametrize("crit", [[], [""], None, "", 0, {}, ["exp"]], ids=str)
def test_a_token_with_any_critical_extension_is_rejected(issuer: Issuer, crit: Any):
    header = {"alg": "RS256", "kid": "rsa", "typ": "at+jwt", "crit": crit}
    token = with_header(issuer, header, issuer.claims())

    assert refuse(server_for(issuer), bearer(token)).status == 401


@pytest.mark.parametrize("types", [[], "JWT", [7], [""]], ids=str)
def test_token_types_must_be_a_list_of_strings(types: Any):
    with pytest.raises((TypeError, ValueError), match="token_types must"):
        JWTAuthenticator(issuer="https://i.example", audience="a", token_types=types)


def with_header(issuer: Issuer, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return a token with a valid signature over a header that PyJWT would not write."""
    head = unsigned(header, claims).rsplit(".", 1)[0]
    signature = jwt.get_algorithm_by_name("RS256").sign(head.encode(), PRIVATE["rsa"])
    return f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


# -- fetching of keys


def keys_of(server: MCPServer) -> Any:
    assert server.engine.authentication is not None
    return vars(server.engine.authentication.authenticators[0])["_keys"]


def test_concurrent_tokens_fetch_the_keys_once(issuer: Issuer):
    server = server_for(issuer)
    issuer.go.clear()

    async def run() -> list[Any]:
        authenticate: Any = server.engine.authenticate
        asks = [
            asyncio.create_task(authenticate(exchange_with(bearer(issuer.sign()))))
            for _ in range(20)
        ]
        await asyncio.to_thread(issuer.came.wait, 10)
        asks[0].cancel()
        issuer.go.set()
        return await asyncio.gather(*asks[1:])

    assert asyncio.run(run()) == [None] * 19
    assert issuer.asked == {"/.well-known/openid-configuration": 1, "/keys": 1}


def test_unknown_key_ids_do_not_refetch_the_keys(issuer: Issuer):
    server = server_for(issuer)
    admit(server, bearer(issuer.sign()))

    for number in range(20):
        refuse(server, bearer(issuer.sign(headers={"kid": f"k{number}"})))

    assert issuer.asked["/keys"] == 1


def test_a_new_key_is_found_after_the_refetch_interval(issuer: Issuer):
    server = server_for(issuer)
    admit(server, bearer(issuer.sign()))
    issuer.keys.append(public_jwk("stranger", "new"))
    keys = keys_of(server)
    keys._asked_at -= 60

    assert admit(server, bearer(issuer.sign("stranger", headers={"kid": "new"})))
    assert issuer.asked["/keys"] == 2


@pytest.mark.parametrize(
    ("status", "raw"),
    [(500, None), (302, None), (200, b"<html>"), (200, b"[1]"), (200, b" " * 300_000)],
    ids=str,
)
def test_an_unreachable_issuer_is_a_server_error(
    issuer: Issuer, status: int, raw: bytes | None, caplog: pytest.LogCaptureFixture
):
    issuer.status, issuer.raw = status, raw
    server = server_for(issuer)

    for _ in range(3):
        reply = refuse(server, bearer(issuer.sign()))
        assert reply.status == 503
        assert challenges_of(reply) == []

    assert issuer.asked == {"/.well-known/openid-configuration": 1}
    assert "Could not get the keys" in caplog.text


def test_known_keys_work_while_the_issuer_is_down(issuer: Issuer):
    server = server_for(issuer)
    admit(server, bearer(issuer.sign()))
    issuer.status = 500
    keys = keys_of(server)
    keys._asked_at -= 60
    keys._fetched_at -= 700

    assert admit(server, bearer(issuer.sign()))
    keys._fetched_at -= 3600
    assert refuse(server, bearer(issuer.sign())).status == 503


def test_a_known_key_does_not_wait_for_the_issuer(issuer: Issuer):
    server = server_for(issuer, timeout_s=60.0)
    admit(server, bearer(issuer.sign()))
    keys = keys_of(server)
    keys._asked_at -= 60
    keys._fetched_at -= 700
    issuer.keys.clear()
    issuer.go.clear()

    assert admit(server, bearer(issuer.sign()))


def test_a_token_waits_for_the_keys_as_long_as_for_two_answers(issuer: Issuer):
    server = server_for(issuer, timeout_s=0.1)
    over = threading.Event()
    for _ in range(FETCHERS._max_workers):
        FETCHERS.submit(over.wait, 5)

    try:
        assert refuse(server, bearer(issuer.sign())).status == 503
        assert not issuer.asked
    finally:
        over.set()


def test_metadata_of_another_issuer_is_rejected(issuer: Issuer):
    issuer.raw = json.dumps(
        {"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"}
    ).encode()

    assert refuse(server_for(issuer), bearer(issuer.sign())).status == 503


# -- local accounts


@pytest.mark.django_db
def test_a_claim_can_select_an_account(issuer: Issuer):
    ada = get_user_model().objects.create_user("ada")
    server = server_for(issuer, user_field="username")

    with queries(1):
        principal = admit(server, bearer(issuer.sign()))
        assert principal.user == ada
    assert refuse(server, bearer(issuer.sign(sub="nobody"))).status == 401
    get_user_model().objects.update(is_active=False)
    assert refuse(server, bearer(issuer.sign())).status == 401


@pytest.mark.django_db
def test_an_ambiguous_claim_selects_no_account(issuer: Issuer):
    for name in ("a", "b"):
        get_user_model().objects.create_user(name, email="same@example.com")
    server = server_for(issuer, user_field="email", user_claim="email")
    verified: dict[str, Any] = {"email": "same@example.com", "email_verified": True}

    assert refuse(server, bearer(issuer.sign(**verified))).status == 401
    assert refuse(server, bearer(issuer.sign())).status == 401


@pytest.mark.django_db
@pytest.mark.parametrize("claim", ["email", "phone_number"])
@pytest.mark.parametrize("verified", [None, False, "false", "true", 0, 1, []], ids=repr)
def test_a_claim_that_the_issuer_has_not_verified_selects_no_account(
    issuer: Issuer, claim: str, verified: Any
):
    user = get_user_model().objects.create_user("ada", email="ada@example.com")
    server = server_for(issuer, user_field="email", user_claim=claim)
    claims: dict[str, Any] = {claim: user.email, f"{claim}_verified": True}

    assert admit(server, bearer(issuer.sign(**claims))).user == user
    claims[f"{claim}_verified"] = verified
    reply = refuse(server, bearer(issuer.sign(**claims)))

    assert reply.status == 401
    assert b"not verified" in (reply.body or b"")


@pytest.mark.parametrize(
    "claim", ["preferred_username", "upn", "unique_name", "name", "nickname", "username"]
)
def test_a_claim_that_users_can_change_cannot_select_accounts(issuer: Issuer, claim: str):
    with pytest.raises(ValueError, match=f"{claim}.*find_user"):
        server_for(issuer, user_field="username", user_claim=claim)


@pytest.mark.django_db
def test_an_account_is_selected_by_exactly_the_text_of_the_claim(issuer: Issuer):
    ada = get_user_model().objects.create_user("Ada")
    server = server_for(issuer, user_field="username")
    field: Any = get_user_model()._meta.get_field("username")

    # As a database compares whose collation ignores case.
    with register_lookup(field, IExact, lookup_name="exact"):
        assert admit(server, bearer(issuer.sign(sub="Ada"))).user == ada
        assert refuse(server, bearer(issuer.sign(sub="ada"))).status == 401


@pytest.mark.django_db
@pytest.mark.parametrize("subject", ["ada", "1.5", "9" * 30, "9" * 5000, "a\0b"])
def test_a_claim_that_the_field_cannot_hold_selects_no_account(issuer: Issuer, subject: str):
    get_user_model().objects.create_user("ada")

    for field in ("pk", "email", "last_login"):
        server = server_for(issuer, user_field=field)
        assert refuse(server, bearer(issuer.sign(sub=subject))).status == 401


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["0{}", " {}", "+{}", "{}\n", "٠{}", "0_{}"])
def test_a_number_is_written_in_one_way(issuer: Issuer, form: str):
    """Else two subjects of the issuer would be one account."""
    ada = get_user_model().objects.create_user("ada")
    server = server_for(issuer, user_field="pk")

    assert admit(server, bearer(issuer.sign(sub=str(ada.pk)))).user == ada
    assert refuse(server, bearer(issuer.sign(sub=form.format(ada.pk)))).status == 401


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["{{{}}}", "urn:uuid:{}", "uuid:{}", "{}\n"])
def test_a_uuid_is_written_in_one_way(issuer: Issuer, form: str):
    ada = get_user_model().objects.create_user("ada")
    uid = uuid4()
    Sample.objects.create(code="of-ada", owner=ada, uid=uid)
    server = server_for(issuer, user_field="sample__uid")

    assert admit(server, bearer(issuer.sign(sub=str(uid)))).user == ada
    for subject in (form.format(uid), str(uid).upper(), uid.hex):
        assert refuse(server, bearer(issuer.sign(sub=subject))).status == 401


def test_names_that_no_text_can_hold_are_rejected(issuer: Issuer):
    server = server_for(issuer)

    assert refuse(server, bearer(issuer.sign(sub="\ud800"))).status == 401
    assert refuse(server, bearer(issuer.sign(azp="\ud800"))).status == 401


@pytest.mark.django_db
def test_a_function_can_find_or_create_the_account(issuer: Issuer):
    def find(claims: Any) -> Any:
        return get_user_model().objects.get_or_create(username=f"sso-{claims['sub']}")[0]

    server = server_for(issuer, find_user=find)

    assert admit(server, bearer(issuer.sign())).user.username == "sso-ada"
