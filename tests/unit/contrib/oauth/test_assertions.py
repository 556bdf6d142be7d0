"""Clients with a key of their own: right assertions, wrong ones, and keys that change."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from jwcrypto import jwk
from oauth2_provider.models import get_access_token_model, get_application_model

from django_mcp.contrib.oauth import assertions, oauth2_provider_settings, sign_ins
from django_mcp.contrib.oauth.models import ClientKeys, SignIn, UsedAssertion
from tests.support.oauth.browser import hidden_fields, post_form
from tests.support.oauth.local_documents import (
    CERTIFICATE,
    HOST,
    document,
    response,
    serving_requests,
)
from tests.support.oauth.published import TYPE, key_set, proof, sign, signing_key

# Whole sign-ins, and many of them.
pytestmark = [pytest.mark.django_db, pytest.mark.slow]

REDIRECT = "https://client.example/callback"
ISSUER = "http://testserver"
TOKEN = "http://testserver/oauth/token/"
RESOURCE = "http://testserver/mcp"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()


@dataclass
class Maker:
    """The server of a client's maker: what it publishes may be changed, and requests are counted."""

    port: int = 0
    document: dict[str, Any] = field(default_factory=dict)
    keys: Any = field(default_factory=lambda: key_set(signing_key()))
    asked: list[str] = field(default_factory=list)

    @property
    def client_id(self) -> str:
        return f"https://{HOST}:{self.port}/client.json"

    @property
    def keys_uri(self) -> str:
        return f"https://{HOST}:{self.port}/keys.json"

    def publish(self, **changes: Any) -> None:
        told = {
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks_uri": self.keys_uri,
            **changes,
        }
        self.document = document(self.client_id, REDIRECT, **told)

    def answer(self, request: bytes, connection: socket.socket) -> None:
        path = request.split(b" ")[1].decode()
        self.asked.append(path)
        page = self.document if path == "/client.json" else self.keys
        if isinstance(page, bytes):
            connection.sendall(page)
        else:
            connection.sendall(
                response(json.dumps(page).encode(), extra="Cache-Control: max-age=600\r\n")
            )

    @property
    def times_asked(self) -> int:
        return self.asked.count("/keys.json")


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch, certificate: Path, settings: Any) -> Iterator[Maker]:
    monkeypatch.setenv(CERTIFICATE, str(certificate))
    cache.clear()
    sign_ins.forget_shares()
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(
        CIMD_METADATA_FETCHER="tests.support.oauth.local_documents.LocalFetcher",
    )
    settings.DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.contrib.oauth.OAuthAuthenticator"]}
    maker = Maker()
    with serving_requests(certificate, maker.answer) as maker.port:
        maker.publish()
        yield maker


@pytest.fixture
def browser() -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_user("ada"))
    return browser


def arrive(browser: Client, client_id: str, redirect_uri: str = REDIRECT) -> Any:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": "mcp",
        "resource": RESOURCE,
    }
    return browser.get(f"/oauth/authorize/?{urlencode(query)}")


def get_code(browser: Client, client_id: str) -> str:
    page = arrive(browser, client_id)
    assert page.status_code == 200, page.content
    form = {**hidden_fields(page.content.decode()), "allow": "true"}
    answer = browser.post(page.wsgi_request.get_full_path(), form)
    return parse_qs(urlsplit(answer["location"]).query)["code"][0]


def exchange(code: str, form: dict[str, str], **options: Any) -> Any:
    told = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
        "resource": RESOURCE,
        **form,
    }
    return post_form("/oauth/token/", told, **options)


def assert_refused(answer: Any, field: str | None = None) -> None:
    assert answer.status_code == 401, answer.content
    assert answer.json()["error"] == "invalid_client"
    if field is not None:
        assert answer.json()["error_description"].startswith(f"{field}: ")
    assert not get_access_token_model().objects.exists()


@pytest.mark.parametrize("audience", [ISSUER, TOKEN, [ISSUER]])
def test_an_assertion_gives_a_token(browser: Client, maker: Maker, audience: Any):
    code = get_code(browser, maker.client_id)

    answer = exchange(code, {"client_id": maker.client_id, **proof(maker.client_id, audience)})

    assert answer.status_code == 200, answer.content
    assert get_application_model().objects.get().client_type == "confidential"


def test_an_assertion_alone_names_the_client(browser: Client, maker: Maker):
    code = get_code(browser, maker.client_id)

    tokens = exchange(code, proof(maker.client_id, ISSUER))
    refreshed = post_form(
        "/oauth/token/",
        {
            "grant_type": "refresh_token",
            "refresh_token": tokens.json()["refresh_token"],
            **proof(maker.client_id, ISSUER),
        },
    )

    assert tokens.status_code == 200, tokens.content
    assert refreshed.status_code == 200, refreshed.content


def test_a_client_that_is_known_by_its_key_cannot_do_without(browser: Client, maker: Maker):
    code = get_code(browser, maker.client_id)

    assert_refused(exchange(code, {"client_id": maker.client_id}))
    assert_refused(exchange(code, {"client_id": maker.client_id, "client_secret": "a secret"}))
    assert maker.times_asked == 0


def test_none_is_used_only_if_no_assertion_comes(browser: Client, maker: Maker):
    maker.publish(token_endpoint_auth_methods_supported=["none", "private_key_jwt"])
    code = get_code(browser, maker.client_id)
    assert get_application_model().objects.get().client_type == "public"

    wrong = proof(maker.client_id, "https://other.example")
    assert_refused(exchange(code, {"client_id": maker.client_id, **wrong}), "aud")
    only_type = {"client_id": maker.client_id, "client_assertion_type": TYPE}
    assert_refused(exchange(code, only_type), "client_assertion")
    assert exchange(code, {"client_id": maker.client_id}).status_code == 200


def test_a_client_without_keys_cannot_sign(browser: Client, maker: Maker):
    maker.publish(token_endpoint_auth_method="none", jwks_uri=None)
    code = get_code(browser, maker.client_id)

    assert_refused(exchange(code, proof(maker.client_id, ISSUER)), "client_assertion")


@pytest.mark.parametrize(
    ("claims", "named"),
    [
        ({"aud": "https://other.example"}, "aud"),
        ({"aud": ISSUER + "/"}, "aud"),
        ({"aud": [ISSUER, "https://other.example"]}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": RESOURCE}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://other.example/client.json"}, "sub"),
        ({"iss": None}, "sub"),
        ({"sub": "https://other.example/client.json"}, "sub"),
        ({"sub": None}, "sub"),
        ({"sub": 7, "iss": 7}, "sub"),
        ({"exp": None}, "exp"),
        ({"exp": 0}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": int(time.time()) + 100_000}, "exp"),
        ({"exp": 10**30}, "exp"),
        ({"iat": int(time.time()) + 1_000_000}, "iat"),
        ({"nbf": int(time.time()) + 1_000_000}, "nbf"),
        ({"nbf": []}, "nbf"),
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"jti": "j" * 257}, "jti"),
        ({"jti": 7}, "jti"),
    ],
)
def test_a_wrong_claim_is_refused(
    browser: Client, maker: Maker, claims: dict[str, Any], named: str
):
    code = get_code(browser, maker.client_id)
    form = {
        "client_assertion_type": TYPE,
        "client_assertion": sign(maker.client_id, ISSUER, **claims),
    }

    assert_refused(exchange(code, form), named)
    assert maker.times_asked == 0
    row = SignIn.objects.get(is_refused=True)
    assert (row.step, row.field) == ("token", named)
    assert row.remedy
    assert exchange(code, proof(maker.client_id, ISSUER)).status_code == 200


def unsigned(client_id: str) -> str:
    _, claims, _ = sign(client_id, ISSUER).split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{claims}."


def with_another_payload(client_id: str) -> str:
    header, _, signature = sign(client_id, ISSUER).split(".")
    return f"{header}.{sign(client_id, ISSUER).split('.')[1]}.{signature}"


def signed_by_the_public_key_as_a_secret(client_id: str) -> str:
    secret = signing_key().export_to_pem()
    key = jwk.JWK(kty="oct", k=base64.urlsafe_b64encode(secret).rstrip(b"=").decode())
    return sign(client_id, ISSUER, key=key, header={"alg": "HS256"})


def as_json(client_id: str) -> str:
    header, claims, signature = sign(client_id, ISSUER).split(".")
    return json.dumps({"protected": header, "payload": claims, "signature": signature})


@pytest.mark.parametrize(
    "forge",
    [
        unsigned,
        with_another_payload,
        signed_by_the_public_key_as_a_secret,
        as_json,
        lambda client_id: sign(client_id, ISSUER, key=signing_key(kid="another")),
        lambda client_id: sign(client_id, ISSUER, key=signing_key("EC"), header={"alg": "ES256"}),
        lambda client_id: sign(client_id, ISSUER, header={"typ": "at+jwt"}),
        lambda client_id: sign(client_id, ISSUER, header={"kid": 7}),
        lambda client_id: sign(client_id, ISSUER) + "A" * 9000,
        lambda client_id: "",
        lambda client_id: "a.b.c",
        lambda client_id: "W10.W10.W10",
        lambda client_id: "\u00e9.b.c",
    ],
)
def test_a_forged_assertion_is_refused(browser: Client, maker: Maker, forge: Any):
    code = get_code(browser, maker.client_id)
    form = {"client_assertion_type": TYPE, "client_assertion": forge(maker.client_id)}

    assert_refused(exchange(code, form))
    assert not UsedAssertion.objects.exists()


def test_the_request_names_no_other_client_and_no_secret(browser: Client, maker: Maker):
    code = get_code(browser, maker.client_id)

    other = {"client_id": "https://other.example/client.json"}
    assert_refused(exchange(code, {**proof(maker.client_id, ISSUER), **other}), "sub")
    secret = {"client_secret": "a secret"}
    both = {**proof(maker.client_id, ISSUER), **secret}
    assert_refused(exchange(code, both), "client_assertion")
    basic = {"Authorization": f"Basic {base64.b64encode(b'a:b').decode()}"}
    assert_refused(
        exchange(code, proof(maker.client_id, ISSUER), headers=basic), "client_assertion"
    )
    kind = {**proof(maker.client_id, ISSUER), "client_assertion_type": "another"}
    assert_refused(exchange(code, kind), "client_assertion_type")


def test_an_assertion_is_used_once(browser: Client, maker: Maker):
    form = proof(maker.client_id, ISSUER)
    first = exchange(get_code(browser, maker.client_id), form)
    second = exchange(get_code(browser, maker.client_id), form)
    # A failure uses it up as well.
    spent = proof(maker.client_id, ISSUER)
    wrong = exchange("no code", spent)

    assert first.status_code == 200
    assert second.status_code == 401
    assert second.json()["error_description"].startswith("jti: ")
    assert wrong.status_code == 400
    assert exchange(get_code(browser, maker.client_id), spent).status_code == 401


def test_used_assertions_are_capped_and_forgotten(
    browser: Client, maker: Maker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(assertions, "MAX_USED", 2)
    get_code(browser, maker.client_id)
    answers = [exchange("no code", proof(maker.client_id, ISSUER)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [400, 400, 401]
    assert answers[2].json()["error_description"].startswith("exp: ")

    UsedAssertion.objects.update(expires=timezone.now() - timedelta(seconds=1))
    assert exchange("no code", proof(maker.client_id, ISSUER)).status_code == 400
    assert UsedAssertion.objects.count() == 1


def test_a_client_that_nobody_authorized_stores_few_assertions(browser: Client, maker: Maker):
    def use() -> int:
        answer = exchange("no code", proof(maker.client_id, ISSUER))
        return int(answer.status_code)

    get_code(browser, maker.client_id)
    strangers = [use() for _ in range(101)]
    UsedAssertion.objects.filter(pk=UsedAssertion.objects.latest("pk").pk).delete()
    granted = exchange(get_code(browser, maker.client_id), proof(maker.client_id, ISSUER))

    assert strangers == [*[400] * 100, 401]
    assert granted.status_code == 200
    assert use() == 400
    assert UsedAssertion.objects.count() == 101


def add_used(application: Any, count: int) -> None:
    UsedAssertion.objects.bulk_create(
        UsedAssertion(
            application=application,
            digest=f"{application.pk} {number}",
            expires=timezone.now() + timedelta(minutes=5),
        )
        for number in range(count)
    )


def use_assertion(client_id: str) -> int:
    """Return 400 if an assertion is accepted, and 401 if it is not: there is no such code."""
    return int(exchange("no code", proof(client_id, ISSUER)).status_code)


@pytest.fixture
def staff_client() -> Any:
    """A client that staff made, with the key of the tests."""
    found = get_application_model().objects.create(
        client_id="made-by-staff",
        client_type="confidential",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )
    ClientKeys.objects.create(application=found, jwks=json.dumps(key_set(signing_key())))
    return found


def test_a_client_that_staff_made_needs_no_token_to_store_assertions(
    staff_client: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(assertions, "MAX_USED", 120)
    add_used(staff_client, 119)

    assert [use_assertion("made-by-staff") for _ in range(2)] == [400, 401]


def test_many_assertions_of_other_clients_keep_no_staff_made_client_from_its_own(
    browser: Client, maker: Maker, staff_client: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
):
    exchange(get_code(browser, maker.client_id), proof(maker.client_id, ISSUER))
    application = get_application_model().objects.get(client_id=maker.client_id)
    add_used(application, 110)
    add_used(staff_client, 110)
    # Those of the client that staff made do not count.
    monkeypatch.setattr(assertions, "MAX_USED_IN_ALL", 112)
    accepted = [use_assertion(maker.client_id), use_assertion("made-by-staff")]
    # What a process knows is forgotten.
    settings.DJANGO_MCP = {**settings.DJANGO_MCP}

    assert accepted == [400, 400]
    assert [use_assertion(maker.client_id), use_assertion("made-by-staff")] == [401, 400]


def test_an_authentication_does_not_count_the_assertions_of_all_clients_each_time(
    browser: Client, maker: Maker
):
    exchange(get_code(browser, maker.client_id), proof(maker.client_id, ISSUER))
    add_used(get_application_model().objects.get(client_id=maker.client_id), 110)
    use_assertion(maker.client_id)

    with CaptureQueriesContext(connection) as queries:
        assert use_assertion(maker.client_id) == 400

    counts = [
        each["sql"]
        for each in queries
        if "usedassertion" in each["sql"] and "COUNT(" in each["sql"]
    ]
    assert len(counts) == 1
    assert '"application_id" =' in counts[0]


@pytest.mark.parametrize(
    ("kty", "algorithm"), [("EC", "ES256"), ("OKP", "EdDSA"), ("RSA", "PS256")]
)
def test_each_algorithm_of_the_metadata_works(
    browser: Client, maker: Maker, kty: str, algorithm: str
):
    key = signing_key(kty)
    maker.publish(jwks_uri=None, jwks=key_set(key), token_endpoint_auth_signing_alg=algorithm)
    del maker.document["jwks_uri"]
    code = get_code(browser, maker.client_id)

    if kty != "RSA":
        assert_refused(exchange(code, proof(maker.client_id, ISSUER)))
    form = proof(maker.client_id, ISSUER, key=key, header={"alg": algorithm})
    assert exchange(code, form).status_code == 200
    server = Client().get("/.well-known/oauth-authorization-server").json()
    assert algorithm in server["token_endpoint_auth_signing_alg_values_supported"]
    assert {"none", "private_key_jwt"} <= set(server["token_endpoint_auth_methods_supported"])


def test_other_members_of_a_key_are_ignored(browser: Client, maker: Maker):
    [key] = maker.keys["keys"]
    key |= {"nbf": 7, "x5c": ["none"], "use": "sig", "alg": "RS256", "key_ops": ["verify"]}
    code = get_code(browser, maker.client_id)

    assert exchange(code, proof(maker.client_id, ISSUER)).status_code == 200


def test_only_the_declared_algorithm_counts(browser: Client, maker: Maker):
    maker.publish(token_endpoint_auth_signing_alg="PS256")
    code = get_code(browser, maker.client_id)

    assert_refused(exchange(code, proof(maker.client_id, ISSUER)), "client_assertion")
    form = proof(maker.client_id, ISSUER, header={"alg": "PS256"})
    assert exchange(code, form).status_code == 200


# -- keys


def test_a_rotated_key_is_read_once_a_minute_at_most(browser: Client, maker: Maker):
    newer = signing_key(kid="newer")
    signed = {"key": newer, "header": {"kid": "newer"}}
    codes = [get_code(browser, maker.client_id) for _ in range(2)]
    assert exchange(codes[0], proof(maker.client_id, ISSUER)).status_code == 200
    maker.keys = key_set(newer)

    for _ in range(3):
        answer = exchange(codes[1], proof(maker.client_id, ISSUER, **signed))
        assert answer.status_code == 401
    assert maker.times_asked == 1
    ClientKeys.objects.update(tried=timezone.now() - timedelta(minutes=2))
    assert exchange(codes[1], proof(maker.client_id, ISSUER, **signed)).status_code == 200
    assert maker.times_asked == 2
    old = exchange("no code", proof(maker.client_id, ISSUER))
    assert old.status_code == 401


def test_keys_are_kept_while_they_cannot_be_read_but_not_for_ever(browser: Client, maker: Maker):
    codes = [get_code(browser, maker.client_id) for _ in range(3)]
    assert exchange(codes[0], proof(maker.client_id, ISSUER)).status_code == 200
    maker.keys = response(b"", status="503 Service Unavailable")
    ago = timezone.now() - timedelta(minutes=5)
    ClientKeys.objects.update(expires=ago, tried=ago)

    assert exchange(codes[1], proof(maker.client_id, ISSUER)).status_code == 200
    assert maker.times_asked == 2
    ClientKeys.objects.update(expires=timezone.now() - timedelta(days=2))
    assert exchange(codes[2], proof(maker.client_id, ISSUER)).status_code == 401


@pytest.mark.parametrize(
    "keys",
    [
        {"keys": []},
        {"keys": "none"},
        [],
        {"keys": [{"kty": "RSA"}]},
        {"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": ["AQAB"], "e": 7}]},
        {"keys": [{**signing_key("EC").export_public(as_dict=True), "x": "AQAB"}]},
        {"keys": [7]},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]},
        {"keys": [signing_key().export(as_dict=True)]},
        {"keys": [{**signing_key().export_public(as_dict=True), "use": "enc"}]},
        {"keys": [{**signing_key().export_public(as_dict=True), "alg": "PS256"}]},
        {
            "keys": [
                jwk.JWK.generate(kty="RSA", size=1024, kid="key of the tests").export_public(
                    as_dict=True
                )
            ]
        },
        key_set(*[signing_key()] * 2),
        key_set(*[signing_key()] * 21),
        {"keys": [signing_key().export_public(as_dict=True)], "padding": "x" * 20_000},
        response(b"{}", content_type="text/html"),
        response(b"{}", status="302 Found", extra="Location: https://client.test/other\r\n"),
    ],
)
def test_unsuitable_keys_verify_nothing(browser: Client, maker: Maker, keys: Any):
    maker.keys = keys
    code = get_code(browser, maker.client_id)

    assert_refused(exchange(code, proof(maker.client_id, ISSUER)), "client_assertion")


@pytest.mark.parametrize(
    "place",
    [
        "https://127.0.0.1/keys.json",
        "https://localhost/keys.json",
        "https://[::1]/keys.json",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/keys.json",
    ],
)
def test_keys_at_a_private_address_are_never_asked_for(
    browser: Client, maker: Maker, place: str, monkeypatch: pytest.MonkeyPatch
):
    maker.publish(jwks_uri=place)
    code = get_code(browser, maker.client_id)
    dialled: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *args, **_: dialled.append(args))

    assert_refused(exchange(code, proof(maker.client_id, ISSUER)), "client_assertion")
    assert dialled == []
    assert not ClientKeys.objects.get().jwks


@pytest.mark.parametrize(
    "place",
    ["http://client.test/keys.json", "file:///etc/passwd", "https://client.test", 7, "", "x" * 600],
)
def test_keys_at_no_https_address_make_no_client(browser: Client, maker: Maker, place: Any):
    maker.publish(jwks_uri=place)

    page = arrive(browser, maker.client_id)

    assert page.status_code == 400
    assert "jwks_uri" in page.content.decode()
    row = SignIn.objects.get(is_refused=True)
    assert (row.step, row.field, row.client_id) == ("document", "jwks_uri", maker.client_id)
    assert not get_application_model().objects.exists()


def test_wrong_assertions_are_limited_like_wrong_secrets(
    browser: Client, maker: Maker, settings: Any
):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "OAUTH_WRONG_SECRETS_PER_MINUTE": 2}
    code = get_code(browser, maker.client_id)
    wrong = {"key": signing_key(kid="another")}

    answers = [exchange(code, proof(maker.client_id, ISSUER, **wrong)) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert exchange(code, proof(maker.client_id, ISSUER)).status_code == 429


# -- registrations, revocation, and documents that change


def test_a_client_can_register_its_key(browser: Client, maker: Maker):
    metadata = {
        "client_name": "A client",
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": key_set(signing_key()),
    }
    answer = Client().post("/oauth/register/", metadata, content_type="application/json")
    found = answer.json()
    assert answer.status_code == 201, found
    assert found["token_endpoint_auth_method"] == "private_key_jwt"
    assert found["jwks"] == metadata["jwks"]
    assert "client_secret" not in found
    headers = {"Authorization": f"Bearer {found['registration_access_token']}"}
    shown = Client().get(found["registration_client_uri"], headers=headers).json()
    assert shown["token_endpoint_auth_method"] == "private_key_jwt"

    code = get_code(browser, found["client_id"])
    assert exchange(code, proof(found["client_id"], ISSUER)).status_code == 200
    assert maker.asked == []


@pytest.mark.parametrize("keys", [{"keys": []}, {"keys": [{"kty": "oct", "k": "YQ"}]}, "x", 7])
def test_a_registration_with_unsuitable_keys_is_refused(keys: Any):
    cache.clear()
    metadata = {
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": keys,
    }
    answer = Client().post("/oauth/register/", metadata, content_type="application/json")

    assert answer.status_code == 400
    assert answer.json()["error_description"].startswith("jwks: ")


def test_a_revocation_needs_the_assertion_as_well(browser: Client, maker: Maker):
    tokens = exchange(get_code(browser, maker.client_id), proof(maker.client_id, ISSUER)).json()
    form = {"token": tokens["access_token"], "client_id": maker.client_id}

    assert post_form("/oauth/revoke/", form).status_code == 401
    assert get_access_token_model().objects.exists()
    form |= proof(maker.client_id, TOKEN)
    assert post_form("/oauth/revoke/", form).status_code == 200
    assert not get_access_token_model().objects.exists()


def test_a_document_that_changes_rules_from_its_next_reading_on(browser: Client, maker: Maker):
    code = get_code(browser, maker.client_id)
    moved = "https://elsewhere.example/callback"
    maker.publish(redirect_uris=[moved], token_endpoint_auth_method="none")
    del maker.document["jwks_uri"]
    # Until then it is as it was read.
    assert arrive(browser, maker.client_id, moved).status_code == 400
    get_application_model().objects.update(cimd_expires_at=timezone.now() - timedelta(seconds=1))
    assert arrive(browser, maker.client_id, moved).status_code == 200

    page = arrive(browser, maker.client_id)
    assert page.status_code == 400
    assert "location" not in page
    assert not ClientKeys.objects.exists()
    # The code was for the client as it was, which has no key now.
    assert_refused(exchange(code, proof(maker.client_id, ISSUER)), "client_assertion")


def test_a_document_that_becomes_unusable_changes_nothing(browser: Client, maker: Maker):
    get_code(browser, maker.client_id)
    maker.publish(grant_types=["implicit"])
    get_application_model().objects.update(cimd_expires_at=timezone.now() - timedelta(seconds=1))

    code = get_code(browser, maker.client_id)

    assert exchange(code, proof(maker.client_id, ISSUER)).status_code == 200


def test_a_key_set_that_moves_is_read_from_its_new_place(browser: Client, maker: Maker):
    codes = [get_code(browser, maker.client_id)]
    assert exchange(codes[0], proof(maker.client_id, ISSUER)).status_code == 200
    maker.publish(jwks_uri=f"https://{HOST}:{maker.port}/moved.json")
    maker.keys = key_set(signing_key(kid="moved"))
    get_application_model().objects.update(cimd_expires_at=timezone.now() - timedelta(seconds=1))
    code = get_code(browser, maker.client_id)

    assert exchange(code, proof(maker.client_id, ISSUER)).status_code == 401
    signed = {"key": signing_key(kid="moved"), "header": {"kid": "moved"}}
    ClientKeys.objects.update(tried=None)
    assert exchange(code, proof(maker.client_id, ISSUER, **signed)).status_code == 200
    assert "/moved.json" in maker.asked
