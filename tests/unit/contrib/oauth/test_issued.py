"""Codes and tokens of one user: how many clients get, how many are kept, and what deletes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.signals import pre_delete
from django.test import Client, override_settings
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth import oauth2_provider_settings, tokens
from django_mcp.contrib.oauth.issued import KEPT_OF_CLIENT, KEPT_OF_USER, MAX_CODES
from django_mcp.contrib.oauth.models import SignIn, SupersededToken, UsedAssertion
from django_mcp.execution.tables import Pruner
from django_mcp.process import PerProcess
from tests.support.oauth.browser import post_form
from tests.unit.contrib.oauth.test_authorizing import REDIRECT, address, allow, refresh
from tests.unit.contrib.oauth.test_refreshing import make_client, make_code, sign_in
from tests.unit.contrib.oauth.test_signing_keys import make_key

# Whole sign-ins, and many of them.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LIMITS = {"OAUTH_TOKENS_PER_HOUR": 3}
SERVED = {"AUTHENTICATORS": ["django_mcp.contrib.oauth.OAuthAuthenticator"]}


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    cache.clear()


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create(username="ada")


@pytest.fixture
def application() -> Any:
    return make_client()


def refresh_repeatedly(application: Any, token: str, times: int) -> list[int]:
    """Refresh, each time with the token of the last time; return the statuses."""
    statuses = []
    for _ in range(times):
        answer = refresh(application, token)
        statuses.append(answer.status_code)
        token = answer.json().get("refresh_token", token)
    return statuses


def post_code(application: Any, user: Any, code: str) -> Any:
    form = make_code(application, user, code)
    return post_form("/oauth/token/", form)


def add_tokens(application: Any, user: Any, count: int, family: UUID | None = None) -> None:
    """Add refresh tokens that were exchanged some days ago, of a sign-in or of ended ones."""
    moment = timezone.now() - timedelta(days=2)
    rows = get_refresh_token_model().objects
    rows.bulk_create(
        rows.model(
            application=application,
            user=user,
            token=f"token {number}",
            token_checksum=f"{application.pk} {family} {number}",
            token_family=family,
            revoked=moment,
        )
        for number in range(count)
    )
    rows.filter(revoked=moment).update(created=moment)


@override_settings(DJANGO_MCP=LIMITS)
def test_refreshing_counts_against_the_tokens_of_an_hour(application: Any, user: Any):
    first = sign_in(application, user)

    assert refresh_repeatedly(application, first["refresh_token"], 4) == [200, 200, 429, 429]
    assert get_refresh_token_model().objects.count() == 3
    assert SupersededToken.objects.count() == 2
    other = get_user_model().objects.create(username="ben")
    assert "access_token" in sign_in(application, other, "another code")


@override_settings(DJANGO_MCP=LIMITS)
def test_a_client_with_too_many_tokens_is_told_when_the_next_one_comes(application: Any, user: Any):
    first = sign_in(application, user)
    refresh_repeatedly(application, first["refresh_token"], 2)
    tokens = get_refresh_token_model().objects
    oldest = tokens.order_by("pk").first().pk
    tokens.filter(pk=oldest).update(created=timezone.now() - timedelta(minutes=50))
    last = sign_in(application, user, "another code")

    refused = post_code(application, user, "a third code")

    assert last["error"] == "temporarily_unavailable"
    assert refused.status_code == 429
    wait_s = int(refused["Retry-After"])
    assert 0 < wait_s <= 600
    # So much later it gets one.
    tokens.update(created=F("created") - timedelta(seconds=wait_s))
    assert "access_token" in sign_in(application, user, "a fourth code")


def test_security_a_refused_refresh_stores_no_id_token(
    application: Any, user: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    # The toolkit keeps the server that it made first; the one of this test must not stay.
    monkeypatch.setattr(tokens.Token, "_oauthlib_core", None, raising=False)
    settings.DJANGO_MCP = LIMITS
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(
        {"mcp": "Use it", "openid": "Know you"},
        OIDC_ENABLED=True,
        ALWAYS_RELOAD_OAUTHLIB_CORE=True,
        OIDC_ISS_ENDPOINT="http://testserver",
        OIDC_RSA_PRIVATE_KEY=make_key(),
    )
    form = make_code(application, user, "the code")
    get_grant_model().objects.update(scope="mcp openid")
    token = post_form("/oauth/token/", form).json()["refresh_token"]

    assert refresh_repeatedly(application, token, 5) == [200, 200, 429, 429, 429]

    # One of each answer.
    assert get_id_token_model().objects.count() == 3

    def fail(**_signal: Any) -> None:
        raise OperationalError

    pre_delete.connect(fail, sender=get_id_token_model())
    try:
        # What the client is told is why it was refused.
        assert refresh_repeatedly(application, token, 1) == [429]
    finally:
        pre_delete.disconnect(fail, sender=get_id_token_model())


@override_settings(DJANGO_MCP=LIMITS)
def test_many_clients_of_one_user_share_a_limit(user: Any):
    tokens = [sign_in(make_client(), user, f"code {number}") for number in range(31)]

    assert ["access_token" in each for each in tokens] == [*[True] * 30, False]
    assert tokens[-1]["error"] == "temporarily_unavailable"


def test_old_refresh_tokens_of_a_client_make_room(application: Any, user: Any):
    first = sign_in(application, user)
    add_tokens(application, user, KEPT_OF_CLIENT)

    assert refresh(application, first["refresh_token"]).status_code == 200

    kept = get_refresh_token_model().objects
    assert kept.count() == KEPT_OF_CLIENT
    # Those that work stay.
    assert kept.filter(revoked=None).count() == 1
    assert get_access_token_model().objects.count() == 1


def family_of(application: Any) -> UUID:
    found: UUID = get_refresh_token_model().objects.get(application=application).token_family
    return found


def test_the_reuse_of_a_stolen_token_is_noticed_after_many_refreshes_of_the_thief(
    application: Any, user: Any
):
    stolen = sign_in(application, user)["refresh_token"]
    of_thief = refresh(application, stolen).json()["refresh_token"]
    family = get_refresh_token_model().objects.filter(revoked=None).get().token_family
    get_refresh_token_model().objects.exclude(revoked=None).update(
        revoked=timezone.now() - timedelta(days=3)
    )
    add_tokens(application, user, KEPT_OF_CLIENT - 3, family)
    for _ in range(3):
        of_thief = refresh(application, of_thief).json().get("refresh_token", of_thief)

    refresh(application, stolen)

    assert refresh(application, of_thief).status_code == 400
    assert not get_refresh_token_model().objects.filter(revoked=None).exists()
    assert not get_access_token_model().objects.exists()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="Only SQLite tells its steps")
def test_to_end_a_sign_in_with_very_many_tokens_takes_linear_time(application: Any, user: Any):
    token = sign_in(application, user)["refresh_token"]
    add_tokens(application, user, KEPT_OF_CLIENT, family_of(application))
    steps: list[int] = []

    connection.connection.set_progress_handler(lambda: steps.append(1_000), 1_000)
    try:
        assert refresh(application, token).status_code == 400
    finally:
        connection.connection.set_progress_handler(None, 0)

    assert sum(steps) < 500 * KEPT_OF_CLIENT


def test_a_sign_in_with_very_many_tokens_ends_and_the_others_go_on(application: Any, user: Any):
    small = sign_in(application, user, "another code")
    first = sign_in(application, user)
    family = get_refresh_token_model().objects.latest("pk").token_family
    add_tokens(application, user, KEPT_OF_CLIENT - 2, family)

    # The small one crosses the limit.
    small = refresh(application, small["refresh_token"]).json()

    assert refresh(application, first["refresh_token"]).status_code == 400
    assert refresh(application, small["refresh_token"]).status_code == 200
    assert SignIn.objects.filter(reason__contains="the sign-in with most").count() == 1
    assert get_refresh_token_model().objects.count() <= KEPT_OF_CLIENT


def test_clients_of_a_user_cannot_end_the_sign_ins_of_the_others(user: Any):
    quiet = make_client()
    kept = sign_in(quiet, user, "quiet")
    busy = [make_client() for _ in range(2)]
    for number, client in enumerate(busy):
        sign_in(client, user, f"code {number}")
        add_tokens(client, user, KEPT_OF_USER // 2 - 1, family_of(client))

    # It crosses the limit of the user.
    assert refresh(quiet, kept["refresh_token"]).status_code == 200

    tokens = get_refresh_token_model().objects
    assert tokens.filter(application=quiet).count() == 2
    assert tokens.filter(application=quiet, revoked=None).count() == 1
    assert tokens.filter(application__in=busy, revoked=None).count() == 1
    assert tokens.count() <= KEPT_OF_USER


@override_settings(DJANGO_MCP=SERVED)
def test_a_user_has_only_the_newest_codes(application: Any, user: Any):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    old = [make_code(application, user, f"code {n}")["code"] for n in range(MAX_CODES)]
    new = [allow(browser, address(application))["code"] for _ in range(2)]

    kept = get_grant_model().objects.filter(user=user)
    assert set(kept.values_list("code", flat=True)) == {*old[2:], *new}


@pytest.fixture
def is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next token request delete what is over."""
    pruner = Pruner(3600)
    monkeypatch.setattr(tokens, "_pruner", PerProcess(lambda: pruner))


def add_expired_rows(application: Any, user: Any) -> None:
    past = timezone.now() - timedelta(days=40)
    add_tokens(application, user, 3)
    get_refresh_token_model().objects.update(revoked=past)
    rows = {"application": application, "user": user, "expires": past}
    get_access_token_model().objects.create(token="old", scope="mcp", **rows)
    get_grant_model().objects.create(code="old", redirect_uri=REDIRECT, scope="mcp", **rows)
    UsedAssertion.objects.create(application=application, digest="old", expires=past)
    SupersededToken.objects.create(token_checksum="old", at=past)


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
@pytest.mark.usefixtures("is_due")
def test_a_token_request_deletes_what_is_over(application: Any, user: Any):
    add_expired_rows(application, user)

    sign_in(application, user)

    assert get_refresh_token_model().objects.count() == 1
    assert get_access_token_model().objects.count() == 1
    assert not get_grant_model().objects.exists()
    assert not UsedAssertion.objects.exists()
    assert not SupersededToken.objects.exists()


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
@pytest.mark.usefixtures("is_due")
def test_rows_that_cannot_be_deleted_neither_keep_others_nor_fail_the_request(
    application: Any, user: Any
):
    add_expired_rows(application, user)

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('DELETE FROM "oauth2_provider_refreshtoken"'):
            raise OperationalError("this table is locked")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        first = sign_in(application, user)

    assert "access_token" in first
    assert get_refresh_token_model().objects.count() == 4
    assert get_access_token_model().objects.count() == 1
    assert not UsedAssertion.objects.exists()
    assert not SupersededToken.objects.exists()
