"""Dynamic registration: accepted and rejected metadata, and limits."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client, override_settings
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings, sign_ins
from django_mcp.contrib.oauth.models import SignIn

pytestmark = pytest.mark.django_db

METADATA = {
    "client_name": "A client",
    "redirect_uris": ["https://client.example/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    cache.clear()
    sign_ins.forget_shares()


def register(body: Any = METADATA, address: str = "192.0.2.1") -> Any:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Client(enforce_csrf_checks=True).post(
        "/oauth/register/", text, content_type="application/json", REMOTE_ADDR=address
    )


def clients() -> Any:
    return get_application_model().objects


def test_a_public_client_gets_an_id_and_no_secret():
    response = register()

    found = response.json()
    assert response.status_code == 201
    assert response["cache-control"] == "no-store"
    assert found["redirect_uris"] == METADATA["redirect_uris"]
    assert "client_secret" not in found
    assert clients().get().client_id == found["client_id"]
    assert not clients().get().skip_authorization


def test_a_confidential_client_gets_the_expiry_of_its_secret():
    found = register({**METADATA, "token_endpoint_auth_method": "client_secret_post"}).json()

    assert found["client_secret"]
    assert found["client_secret_expires_at"] == 0


@pytest.mark.parametrize(
    "more",
    ['"redirect_uris": ["https://evil.example/"]', '"other": {"a": 1, "a": 1}'],
)
def test_metadata_with_a_repeated_key_is_rejected(more: str):
    body = json.dumps(METADATA)[:-1] + f", {more}}}"

    response = register(body.encode())

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"
    assert not clients().exists()


EDITORS = [
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "cursor://anysphere.cursor-retrieval/oauth/user-ada/callback",
    "claude://claude.ai/mcp-auth-callback/sdk",
    "grokbot://mcp/oauth/callback",
    "vscode://publisher.extension/callback",
    "vscode-insiders://publisher.extension/callback",
    "windsurf://codeium.windsurf/callback",
]


@pytest.mark.parametrize("redirect", EDITORS)
def test_an_editor_without_a_secret_may_register(redirect: str):
    response = register({**METADATA, "redirect_uris": [redirect, "http://localhost:8787/callback"]})

    assert response.status_code == 201
    assert response.json()["redirect_uris"] == [redirect, "http://localhost:8787/callback"]


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_a_client_with_a_secret_may_not_start_a_program(method: str):
    changes = {"redirect_uris": EDITORS[:1], "token_endpoint_auth_method": method}
    response = register({**METADATA, **changes})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "redirect",
    [
        "zed://oauth/callback",
        "cursor://evil.example/oauth/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback/other",
        "cursor://anysphere.cursor-mcp:1/oauth/callback",
        "cursor://anysphere.cursor-retrieval/../anysphere.other/callback",
        "cursor:anysphere.cursor-mcp/oauth/callback",
        "CURSOR://anysphere.cursor-mcp/oauth/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback?code=1",
        "cursor://user@anysphere.cursor-mcp/oauth/callback",
        "vscode:publisher.extension",
        "vscode-other://publisher.extension/callback",
    ],
)
def test_a_program_that_no_setting_lists_may_not_register(redirect: str):
    response = register({**METADATA, "redirect_uris": ["https://client.example/", redirect]})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_redirect_uri"
    assert "OAUTH_APP_REDIRECTS" in response.json()["error_description"]
    assert not clients().exists()


def test_a_setting_lists_the_programs():
    with override_settings(DJANGO_MCP={"OAUTH_APP_REDIRECTS": ["zed://oauth/callback"]}):
        zed = register({**METADATA, "redirect_uris": ["zed://oauth/callback"]})
        cursor = register({**METADATA, "redirect_uris": EDITORS[:1]})

    assert [zed.status_code, cursor.status_code] == [201, 400]


def test_what_is_not_supported_is_left_out_of_the_answer():
    response = register(
        {
            **METADATA,
            "grant_types": [
                "implicit",
                "authorization_code",
                "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
            "response_types": ["token", "code", "code id_token"],
            "scope": "openid mcp unheard-of mcp",
            "application_type": "native",
            "software_id": {"not": "a text"},
        }
    )

    found = response.json()
    assert response.status_code == 201
    assert found["grant_types"] == ["authorization_code", "refresh_token"]
    assert found["response_types"] == ["code"]
    assert found["scope"] == "mcp"
    assert clients().get().authorization_grant_type == "authorization-code"


def test_the_first_method_that_is_supported_is_taken():
    changes = {
        "token_endpoint_auth_method": "tls_client_auth",
        "token_endpoint_auth_methods_supported": ["self_signed_tls_client_auth", "none"],
    }

    found = register({**METADATA, **changes}).json()

    assert found["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in found


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_the_answer_names_the_method_that_the_client_chose(method: str):
    found = register({**METADATA, "token_endpoint_auth_method": method}).json()

    assert found["token_endpoint_auth_method"] == method


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"grant_types": ["implicit", "refresh_token"]}, "grant_types"),
        ({"response_types": ["token"]}, "response_types"),
        ({"response_types": "code"}, "response_types"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": ["none"]}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "jwks_uri"),
        ({"redirect_uris": ["https://client.example/", "http://other.example/"]}, "redirect_uris"),
    ],
)
def test_a_refusal_names_the_field_and_the_remedy(changes: dict[str, Any], field: str, caplog: Any):
    response = register({**METADATA, **changes})

    assert response.status_code == 400
    name, _, text = response.json()["error_description"].partition(": ")
    assert name == field
    assert text.count(".") >= 2
    [told] = [each for each in caplog.messages if each.startswith("OAuth: ")]
    assert f"{field}: " in told
    row = SignIn.objects.get()
    assert (row.step, row.is_refused, row.field) == ("registration", True, field)


@pytest.mark.parametrize(
    "redirect",
    [
        "http://client.example/callback",
        "http://127.0.0.1.evil.example/",
        "http://localhost.evil.example/",
        "http://127.0.0.1@evil.example/",
        "https://user:password@client.example/",
        "https://client.example/#fragment",
        "https://*.example/",
        "https://client.example/?iss=https%3A%2F%2Fevil.example",
        "https://client.example/?a=b&%69ss=",
        "https://client.example/?code=1",
        "https://client.example/?state",
        "http://127.0.0.1/?error=none",
        "https://client.example\\@evil.example/",
        "https://client.example/ https://evil.example/",
        "https://cl\u0456ent.example/",
        "https://",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "",
        7,
        None,
    ],
)
def test_an_unsafe_redirect_uri_is_rejected(redirect: Any):
    response = register({**METADATA, "redirect_uris": ["https://client.example/", redirect]})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_redirect_uri"
    assert not clients().exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uris": []},
        {"redirect_uris": "https://client.example/"},
        {"redirect_uris": ["https://client.example/"] * 11},
        {"redirect_uris": {"https://client.example/": 1}},
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["password"]},
        {"grant_types": ["implicit"]},
        {"grant_types": "authorization_code"},
        {"grant_types": [["authorization_code"]]},
        {"grant_types": []},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_name": 7},
        {"client_name": "A" * 81},
        {"client_name": "Bank\u202egnp.exe"},
        {"client_name": "two\nlines"},
        {"client_name": "nul\0"},
        {"client_name": "hidden\u200bspace"},
        {"client_name": "\u3164"},
        {"client_name": "\u2800\ufe0f"},
    ],
)
def test_invalid_or_deceptive_metadata_is_rejected(changes: dict[str, Any]):
    response = register({**METADATA, **changes})

    assert response.status_code == 400
    assert not clients().exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 415),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"redirect_uris": ' + b"[" * 100_00, 400),
        (b" " * 20_000, 413),
        (b"\xff", 400),
    ],
)
def test_a_body_without_client_metadata_is_rejected(body: bytes, status: int):
    assert register(body).status_code == status


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 3})
def test_registrations_are_limited_per_address():
    statuses = [register().status_code for _ in range(5)]
    over = register()

    assert statuses == [201, 201, 201, 429, 429]
    assert 0 < int(over["retry-after"]) <= 3600
    assert register(address="192.0.2.2").status_code == 201
    assert clients().count() == 4


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_addresses_of_one_network_count_as_one():
    assert register(address="2001:db8:1:2::1").status_code == 201
    assert register(address="2001:db8:1:2:ffff::1").status_code == 429
    assert register(address="2001:db8:1:3::1").status_code == 201


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_an_ip_address_from_a_header_is_not_trusted():
    register()
    response = Client().post(
        "/oauth/register/",
        METADATA,
        content_type="application/json",
        headers={"X-Forwarded-For": "198.51.100.7"},
        REMOTE_ADDR="192.0.2.1",
    )

    assert response.status_code == 429


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 2})
def test_rejected_metadata_does_not_count_as_a_registration():
    wrong = [{**METADATA, "redirect_uris": []}, {**METADATA, "grant_types": []}, b"{"]
    statuses = [register(body).status_code for body in wrong * 2]

    assert statuses == [400] * 6
    assert [register().status_code for _ in range(3)] == [201, 201, 429]


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_registration_attempts_are_limited_per_address():
    statuses = [register(b"{").status_code for _ in range(11)]

    assert statuses == [400] * 10 + [429]
    assert register().status_code == 429
    assert register(address="192.0.2.2").status_code == 201


@override_settings(DJANGO_MCP={"OAUTH_REGISTRATIONS_PER_HOUR": 1})
def test_ipv4_clients_are_counted_separately_on_a_dual_stack_socket():
    assert register(address="::ffff:192.0.2.1").status_code == 201
    assert register(address="::ffff:192.0.2.1").status_code == 429
    assert register(address="::ffff:192.0.2.2").status_code == 201


def grow_older(*client_ids: str, minutes: int) -> None:
    created = timezone.now() - timedelta(minutes=minutes)
    clients().filter(client_id__in=client_ids).update(created=created, updated=created)


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 3})
def test_unauthorized_clients_are_evicted_after_minutes_oldest_first():
    oldest, older, new = (register().json()["client_id"] for _ in range(3))
    grow_older(oldest, minutes=8)
    grow_older(older, minutes=6)

    assert register().status_code == 201
    assert not clients().filter(client_id=oldest).exists()
    assert clients().filter(client_id__in=[older, new]).count() == 2
    assert register().status_code == 201
    assert clients().filter(client_id=new).exists()
    assert register().status_code == 429


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2})
def test_a_full_server_sends_retry_after():
    first = register().json()["client_id"]
    register()
    full = register()

    assert full.status_code == 429
    assert 0 < int(full["retry-after"]) <= 300
    grow_older(first, minutes=4)
    assert 0 < int(register()["retry-after"]) <= 60


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2, "OAUTH_REGISTRATIONS_PER_HOUR": 2})
def test_a_full_server_does_not_use_up_the_address_limit():
    register(address="192.0.2.2")
    first = register(address="192.0.2.2").json()["client_id"]

    assert [register().status_code for _ in range(3)] == [429] * 3
    grow_older(first, minutes=6)
    assert register().status_code == 201


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2})
def test_authorized_clients_are_not_evicted(django_user_model: Any):
    used = register().json()["client_id"]
    unused = register().json()["client_id"]
    get_access_token_model().objects.create(
        application=clients().get(client_id=used),
        user=django_user_model.objects.create(username="ada"),
        token="a token",
        scope="mcp",
        expires=timezone.now() + timedelta(hours=1),
    )
    grow_older(used, unused, minutes=120)

    assert register().status_code == 201
    assert clients().filter(client_id=used).exists()
    assert not clients().filter(client_id=unused).exists()


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 8})
def test_registrations_leave_room_for_document_clients():
    statuses = [register().status_code for _ in range(7)]

    assert statuses == [201] * 6 + [429]


@override_settings(OAUTH2_PROVIDER=oauth2_provider_settings(DCR_ENABLED=False))
def test_registration_can_be_turned_off():
    assert register().status_code == 404
    found = Client().get("/.well-known/oauth-authorization-server").json()
    assert "registration_endpoint" not in found


def test_a_client_can_delete_itself_but_not_change_anything():
    found = register().json()
    where = found["registration_client_uri"].removeprefix("http://testserver")
    headers = {"Authorization": f"Bearer {found['registration_access_token']}"}

    assert Client().put(where, METADATA, headers=headers).status_code == 405
    assert Client().delete(where).status_code == 401
    assert Client().delete(where, headers=headers).status_code == 204
    assert not clients().exists()


class Asynchronous:
    """A permission class whose answer nobody awaits. A coroutine is true, whatever it would return."""

    async def has_permission(self, *_given: Any) -> bool:
        return False


class Answer:
    """An awaitable that is no coroutine, and true."""

    def __await__(self) -> Any:
        yield


class Deferring:
    def has_permission(self, *_given: Any) -> Any:
        return Answer()


@pytest.mark.parametrize("permission", [Asynchronous, Deferring])
def test_security_an_asynchronous_permission_class_lets_nobody_register(permission: type):
    preset = oauth2_provider_settings(
        DCR_REGISTRATION_PERMISSION_CLASSES=[f"{__name__}.{permission.__name__}"]
    )
    with override_settings(OAUTH2_PROVIDER=preset):
        refused = register()

    assert refused.status_code == 401
    assert refused.json()["error"] == "access_denied"
    assert refused["WWW-Authenticate"] == "Bearer"
    assert not clients().exists()
