"""Client secrets: the cost of a wrong one, and the throttling after many of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, check_password
from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from oauth2_provider.models import get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.contrib.oauth.client_secrets import ClientSecretGenerator, is_generated
from tests.support.oauth.browser import post_form

pytestmark = pytest.mark.django_db

ITERATIONS = 1234
TYPED = "correct horse battery staple"


class CountingHasher(PBKDF2PasswordHasher):
    """Django's default hasher, which notes the iterations of each hash that it computes."""

    iterations = ITERATIONS
    computed: list[int | None] = []
    meanwhile: list[Callable[[], None]] = []

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        self.computed.append(iterations or self.iterations)
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().encode(password, salt, iterations)


@pytest.fixture(autouse=True)
def computed() -> Iterator[list[int | None]]:
    cache.clear()
    CountingHasher.computed.clear()
    hashers = ["tests.unit.contrib.oauth.test_client_secrets.CountingHasher"]
    preset = oauth2_provider_settings(
        OAUTH2_GRANT_TYPES_SUPPORTED=["authorization_code", "refresh_token", "client_credentials"]
    )
    with override_settings(PASSWORD_HASHERS=hashers, OAUTH2_PROVIDER=preset):
        yield CountingHasher.computed


def register() -> dict[str, Any]:
    """Register a client that gets a secret; return its id and secret."""
    metadata = {"client_name": "A client", "redirect_uris": ["https://client.example/callback"]}
    response = Client().post("/oauth/register/", metadata, content_type="application/json")
    assert response.status_code == 201
    found: dict[str, Any] = response.json()
    return {name: found[name] for name in ("client_id", "client_secret")}


def add_by_hand(**fields: Any) -> Any:
    return get_application_model().objects.create(
        name="By hand",
        client_type="confidential",
        authorization_grant_type="client-credentials",
        **fields,
    )


def ask(form: dict[str, str], address: str = "192.0.2.1", path: str = "token", **more: Any) -> Any:
    return post_form(f"/oauth/{path}/", form, REMOTE_ADDR=address, **more)


def refresh(client: dict[str, Any], secret: str | None = None, **more: Any) -> Any:
    """Ask for a token with a refresh token that is not there; the secret is looked at first."""
    form = {"grant_type": "refresh_token", "refresh_token": "x", **client}
    return ask({**form, **({} if secret is None else {"client_secret": secret})}, **more)


def credentials(application: Any, secret: str, **more: Any) -> Any:
    form = {"grant_type": "client_credentials", "scope": "mcp"}
    return ask({**form, "client_id": application.client_id, "client_secret": secret}, **more)


# -- cost of hashing


def test_a_generated_secret_is_hashed_once(computed: list[int | None]):
    client = register()

    stored = get_application_model().objects.get().client_secret
    assert stored.startswith("pbkdf2_sha256$1$")
    assert client["client_secret"] not in stored
    assert refresh(client).json()["error"] == "invalid_grant"
    assert refresh(client, "wrong").json()["error"] == "invalid_client"
    assert computed == [1, 1, 1]


def test_a_generated_secret_saved_in_the_admin_is_hashed_once(
    computed: list[int | None],
):
    secret = ClientSecretGenerator().hash()
    application = add_by_hand(client_secret=secret)

    assert credentials(application, secret).status_code == 200
    assert credentials(application, secret[:-1] + "x").status_code == 401
    application.name = "Another name"
    application.save()
    assert credentials(application, secret).status_code == 200
    assert set(computed) == {1}


def test_a_typed_secret_uses_djangos_hasher(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)

    assert credentials(application, TYPED).status_code == 200
    assert credentials(application, "wrong").status_code == 401
    assert set(computed) == {ITERATIONS}


def test_djangos_check_password_accepts_a_generated_secret():
    """A site that removes the validator keeps its clients."""
    client = register()

    stored = get_application_model().objects.get().client_secret
    assert check_password(client["client_secret"], stored)
    assert not check_password("wrong", stored)


@override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
def test_a_site_without_the_fast_hasher_uses_its_own():
    client = register()

    assert refresh(client).json()["error"] == "invalid_grant"
    assert refresh(client, "wrong").json()["error"] == "invalid_client"


def test_generated_secrets_are_long_unique_and_recognizable():
    made = {ClientSecretGenerator().hash() for _ in range(100)}

    assert len(made) == 100
    assert all(is_generated(each) and len(each) > 50 for each in made)
    for secret in ("", ".", "typed.by-hand", TYPED, next(iter(made))[:-1]):
        assert not is_generated(secret)


def test_two_authentication_methods_cost_one_hash(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()
    basic = base64.b64encode(f"{application.client_id}:wrong".encode()).decode()

    response = credentials(application, TYPED, HTTP_AUTHORIZATION=f"Basic {basic}")

    assert response.status_code == 401
    assert computed == [ITERATIONS]


# -- many wrong secrets


@pytest.fixture
def three_a_minute() -> Iterator[None]:
    with override_settings(DJANGO_MCP={"OAUTH_WRONG_SECRETS_PER_MINUTE": 3}):
        yield


@pytest.mark.usefixtures("three_a_minute")
@override_settings(ROOT_URLCONF="tests.unit.contrib.oauth.test_resources_of_grants")
def test_the_toolkits_introspection_refuses_a_client_above_the_limit():
    application = add_by_hand(client_secret=TYPED)
    basic = base64.b64encode(f"{application.client_id}:wrong".encode()).decode()

    statuses = [
        Client()
        .post("/o/introspect/", {"token": "t"}, HTTP_AUTHORIZATION=f"Basic {basic}")
        .status_code
        for _ in range(6)
    ]

    assert statuses == [403] * 6


@pytest.mark.usefixtures("three_a_minute")
def test_a_request_above_the_limit_of_wrong_secrets_costs_no_hash(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()

    statuses = [credentials(application, "wrong").status_code for _ in range(6)]
    refused = credentials(application, TYPED)

    assert statuses == [401] * 3 + [429] * 3
    assert len(computed) == 3
    assert refused.status_code == 429
    assert refused.json()["error"] == "temporarily_unavailable"
    assert 0 < int(refused["retry-after"]) <= 60
    assert "no-store" in refused["cache-control"]


@pytest.mark.usefixtures("three_a_minute")
def test_a_client_with_wrong_secrets_does_not_block_its_address():
    wrong, right = add_by_hand(client_secret=TYPED), add_by_hand(client_secret=TYPED)

    statuses = {credentials(wrong, "wrong").status_code for _ in range(20)}

    assert statuses == {401, 429}
    assert credentials(right, TYPED).status_code == 200


@pytest.mark.usefixtures("three_a_minute")
def test_wrong_secrets_are_limited_for_every_authentication_method(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()
    basic = base64.b64encode(f"{application.client_id}:wrong".encode()).decode()
    form = {"client_id": application.client_id, "client_secret": "wrong", "token": "x"}

    statuses = [
        credentials(application, "wrong").status_code,
        ask({"grant_type": "client_credentials"}, HTTP_AUTHORIZATION=f"Basic {basic}").status_code,
        ask(form, path="revoke").status_code,
        ask(form, path="revoke").status_code,
        ask({"grant_type": "client_credentials"}, HTTP_AUTHORIZATION=f"Basic {basic}").status_code,
    ]

    assert statuses == [401, 401, 401, 429, 429]
    assert len(computed) == 3


@pytest.mark.usefixtures("three_a_minute")
def test_failed_attempts_do_not_block_a_client_at_another_address():
    application, client = add_by_hand(client_secret=TYPED), register()
    for number in range(40):
        credentials(application, "wrong", address=f"198.51.100.{number % 4}")
        refresh(client, "wrong", address=f"198.51.100.{number % 4}")

    assert credentials(application, TYPED, address="198.51.100.1").status_code == 429
    assert credentials(application, TYPED).status_code == 200
    assert refresh(client).json()["error"] == "invalid_grant"


@pytest.mark.usefixtures("three_a_minute")
def test_correct_secrets_are_not_limited():
    application = add_by_hand(client_secret=TYPED)

    assert [credentials(application, TYPED).status_code for _ in range(12)] == [200] * 12
    assert credentials(application, "wrong").status_code == 401


@pytest.mark.usefixtures("three_a_minute")
def test_concurrent_correct_secrets_are_not_limited():
    application = add_by_hand(client_secret=TYPED)
    statuses: list[int] = []

    def ask_once_more() -> None:
        statuses.append(credentials(application, TYPED).status_code)

    CountingHasher.meanwhile.extend([ask_once_more] * 6)
    ask_once_more()

    assert statuses == [200] * 7


@pytest.mark.usefixtures("three_a_minute")
def test_attempts_over_many_clients_are_limited_per_address(computed: list[int | None]):
    applications = [add_by_hand(client_secret=TYPED) for _ in range(5)]
    computed.clear()

    statuses = [credentials(each, "wrong").status_code for each in applications for _ in range(3)]

    assert statuses == [401] * 9 + [429] * 6
    assert len(computed) == 9
    assert credentials(applications[0], TYPED, address="192.0.2.2").status_code == 200


@pytest.mark.usefixtures("three_a_minute")
def test_unknown_clients_do_not_count_as_attempts(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()
    form = {"grant_type": "client_credentials", "client_id": "nobody", "client_secret": "x"}

    assert [ask(form).status_code for _ in range(20)] == [401] * 20
    assert computed == []
    assert credentials(application, TYPED).status_code == 200


@pytest.mark.usefixtures("three_a_minute")
def test_clients_without_a_secret_are_not_limited():
    application = get_application_model().objects.create(
        client_type="public", authorization_grant_type="authorization-code"
    )
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": application.client_id}

    assert {ask(form).json()["error"] for _ in range(20)} == {"invalid_grant"}


@pytest.mark.parametrize("text", ["a\0b:c", "a%00b:c", "ID:c\0", "ID:%00"])
def test_credentials_with_a_nul_are_neither_looked_up_nor_hashed(
    text: str, computed: list[int | None]
):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()
    basic = base64.b64encode(text.replace("ID", application.client_id).encode()).decode()

    with CaptureQueriesContext(connection) as queries:
        response = ask({"grant_type": "client_credentials"}, HTTP_AUTHORIZATION=f"Basic {basic}")

    assert response.status_code == 401
    assert not [each for each in queries if "oauth2_provider" in each["sql"]]
    assert computed == []


@pytest.mark.parametrize("header", ["Basic !!!", "Basic eA==", "Basic /w==", "Basic Og==", "Basic"])
def test_malformed_credentials_get_invalid_client(header: str):
    application = add_by_hand(client_secret=TYPED)

    response = ask(
        {"grant_type": "client_credentials", "client_id": application.client_id},
        HTTP_AUTHORIZATION=header,
    )

    assert response.status_code == 401


class BrokenCache(LocMemCache):
    def add(self, *args: Any, **kwargs: Any) -> bool:
        raise ConnectionError("no cache")


def test_secrets_are_not_hashed_while_counting_fails(computed: list[int | None]):
    application = add_by_hand(client_secret=TYPED)
    computed.clear()
    broken = {"default": {"BACKEND": "tests.unit.contrib.oauth.test_client_secrets.BrokenCache"}}
    with override_settings(CACHES=broken):
        token = credentials(application, TYPED)
        registration = Client().post("/oauth/register/", {}, content_type="application/json")

    assert (token.status_code, registration.status_code) == (503, 503)
    assert int(token["retry-after"]) > 0
    assert computed == []
