"""Refresh tokens that several processes of one client use, and those that nobody may use again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import override_settings
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth import sign_ins
from django_mcp.contrib.oauth.families import MAX_REUSES, old_superseded
from django_mcp.contrib.oauth.models import SignIn, SupersededToken
from django_mcp.contrib.oauth.revocation import revoke_tokens
from tests.support.oauth.browser import post_form
from tests.unit.contrib.oauth.test_authorizing import (
    CHALLENGE,
    REDIRECT,
    VERIFIER,
    refresh,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    cache.clear()
    sign_ins.forget_shares()


def make_client() -> Any:
    return get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create(username="ada")


@pytest.fixture
def client_of_user() -> Any:
    return make_client()


@pytest.fixture
def first(client_of_user: Any, user: Any) -> dict[str, Any]:
    """The tokens of a new sign-in."""
    return sign_in(client_of_user, user)


def sign_in(application: Any, user: Any, code: str = "the code") -> dict[str, Any]:
    found: dict[str, Any] = post_form("/oauth/token/", make_code(application, user, code)).json()
    return found


def make_code(application: Any, user: Any, code: str) -> dict[str, str]:
    """Add a code that a user gave a client; return the form that exchanges it."""
    get_grant_model().objects.create(
        user=user,
        application=application,
        code=code,
        redirect_uri=REDIRECT,
        scope="mcp",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        expires=timezone.now() + timedelta(minutes=1),
    )
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
    return form | {"redirect_uri": REDIRECT, "client_id": application.client_id}


def pass_time(**delta: float) -> None:
    """Let every exchange be so much longer ago."""
    moment = timezone.now() - timedelta(**delta)
    get_refresh_token_model().objects.exclude(revoked=None).update(revoked=moment)
    SupersededToken.objects.update(at=moment)


def living() -> int:
    count: int = get_refresh_token_model().objects.filter(revoked=None).count()
    return count


def told() -> str:
    return SignIn.objects.filter(is_refused=True).latest("pk").reason


def test_a_second_process_gets_a_pair_of_the_same_family(
    client_of_user: Any, first: dict[str, Any]
):
    pairs = [refresh(client_of_user, first["refresh_token"]).json() for _ in range(2)]

    assert len({each[name] for each in pairs for name in ("access_token", "refresh_token")}) == 4
    assert [each["scope"] for each in pairs] == ["mcp", "mcp"]
    families = get_refresh_token_model().objects.values_list("token_family", flat=True)
    assert len(set(families)) == 1
    # Both go on, each from its own pair.
    for each in pairs:
        assert refresh(client_of_user, each["refresh_token"]).status_code == 200


def test_a_second_process_may_come_after_the_first_one_refreshed_again(
    client_of_user: Any, first: dict[str, Any]
):
    second = refresh(client_of_user, first["refresh_token"]).json()
    refresh(client_of_user, second["refresh_token"])

    late = refresh(client_of_user, first["refresh_token"])

    assert late.status_code == 200
    assert late.json()["scope"] == "mcp"


def test_a_superseded_token_gives_no_more_than_so_many_pairs(
    client_of_user: Any, first: dict[str, Any]
):
    uses = [refresh(client_of_user, first["refresh_token"]) for _ in range(MAX_REUSES + 2)]

    assert [each.status_code for each in uses] == [*[200] * (MAX_REUSES + 1), 400]
    assert uses[-1].json()["error"] == "invalid_grant"
    assert living() == MAX_REUSES + 1
    assert told() == f"The token was used {MAX_REUSES + 1} times"
    # Nothing that was given ends.
    assert refresh(client_of_user, uses[0].json()["refresh_token"]).status_code == 200


def test_a_reuse_after_the_grace_ends_all_pairs(client_of_user: Any, first: dict[str, Any]):
    pairs = [refresh(client_of_user, first["refresh_token"]).json() for _ in range(2)]
    pass_time(seconds=121)

    assert refresh(client_of_user, first["refresh_token"]).status_code == 400
    assert living() == 0
    assert not get_access_token_model().objects.exists()
    assert "all tokens of this sign-in were ended" in told()
    for each in pairs:
        assert refresh(client_of_user, each["refresh_token"]).status_code == 400


def test_the_grace_is_a_setting(client_of_user: Any, first: dict[str, Any]):
    refresh(client_of_user, first["refresh_token"])
    pass_time(seconds=121)

    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "OAUTH_REFRESH_GRACE_S": 1800}):
        assert refresh(client_of_user, first["refresh_token"]).status_code == 200


def test_another_client_cannot_use_a_token_within_the_grace(
    client_of_user: Any, first: dict[str, Any]
):
    second = refresh(client_of_user, first["refresh_token"]).json()

    assert refresh(make_client(), first["refresh_token"]).status_code == 400
    assert living() == 1
    assert told() == "The token is another client's"
    assert refresh(client_of_user, second["refresh_token"]).status_code == 200


def test_a_revoked_token_is_refused_within_the_grace(client_of_user: Any, first: dict[str, Any]):
    form = {"token": first["refresh_token"], "client_id": client_of_user.client_id}
    post_form("/oauth/revoke/", form)

    assert refresh(client_of_user, first["refresh_token"]).status_code == 400
    assert living() == 0
    assert told() == "The token was revoked"


@pytest.mark.parametrize("kind", ["refresh_token", "access_token"])
def test_a_client_that_revokes_a_token_ends_its_family(
    client_of_user: Any, first: dict[str, Any], kind: str
):
    pairs = [refresh(client_of_user, first["refresh_token"]).json() for _ in range(2)]

    post_form("/oauth/revoke/", {"token": pairs[0][kind], "client_id": client_of_user.client_id})

    assert living() == 0
    assert not get_access_token_model().objects.exists()
    assert refresh(client_of_user, first["refresh_token"]).status_code == 400
    assert told() == "The tokens of this sign-in were revoked"


def test_another_client_cannot_revoke_a_family(client_of_user: Any, first: dict[str, Any]):
    post_form(
        "/oauth/revoke/",
        {"token": first["refresh_token"], "client_id": make_client().client_id},
    )

    assert living() == 1


def test_a_user_ends_all_pairs(client_of_user: Any, user: Any, first: dict[str, Any]):
    for _ in range(3):
        refresh(client_of_user, first["refresh_token"])

    revoke_tokens(user.pk, client_of_user.client_id)

    assert living() == 0
    assert not get_access_token_model().objects.exists()
    assert refresh(client_of_user, first["refresh_token"]).status_code == 400


def test_a_refresh_token_lives_from_its_last_use(client_of_user: Any, first: dict[str, Any]):
    tokens = get_refresh_token_model().objects
    tokens.update(created=timezone.now() - timedelta(days=29))
    second = refresh(client_of_user, first["refresh_token"]).json()
    tokens.filter(revoked=None).update(created=timezone.now() - timedelta(days=29))
    third = refresh(client_of_user, second["refresh_token"]).json()
    tokens.filter(revoked=None).update(created=timezone.now() - timedelta(days=30))

    assert refresh(client_of_user, third["refresh_token"]).status_code == 400
    assert "expired" in told()


def test_rows_that_no_grace_needs_are_found(client_of_user: Any, first: dict[str, Any]):
    refresh(client_of_user, first["refresh_token"])
    assert not old_superseded().exists()

    pass_time(hours=2)

    assert old_superseded().count() == 1


def test_a_sign_in_is_told_up_to_its_token(user: Any, first: dict[str, Any]):
    row = SignIn.objects.get()

    assert (row.step, row.is_refused, row.user) == ("token", False, user)
