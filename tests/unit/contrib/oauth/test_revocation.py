"""What ends when an operator revokes the OAuth tokens of a session in the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_refresh_token_model,
)

from django_mcp.admin.revoke import can_revoke
from django_mcp.auth.principal import make_key
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.contrib.oauth.revocation import revoke_tokens_of_principal
from django_mcp.models import Session
from tests.unit.admin.test_live import act, make_session
from tests.unit.admin.test_pages import HERE, client_of

pytestmark = pytest.mark.django_db

LONG_ID = "https://client.example/" + "long/" * 20 + "client.json"


def give_tokens(user: Any, client_id: str = LONG_ID) -> str:
    """Give a client an access token and one to renew it; return the key of the principal."""
    application = get_application_model().objects.create(
        client_id=client_id,
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://client.example/",
    )
    token = get_access_token_model().objects.create(
        user=user,
        application=application,
        token=f"access {client_id}",
        expires=timezone.now() + timedelta(hours=1),
    )
    if user is not None:
        get_refresh_token_model().objects.create(
            user=user, application=application, token=f"refresh {client_id}", access_token=token
        )
    return OAuthAuthenticator()._to_principal(token).key


def count_tokens() -> tuple[int, int]:
    renewing = get_refresh_token_model().objects.filter(revoked=None)
    return get_access_token_model().objects.count(), renewing.count()


@pytest.fixture
def ada() -> Any:
    return get_user_model().objects.create_user("ada")


@pytest.mark.parametrize("client_id", ["short", LONG_ID])
def test_all_that_the_user_allowed_the_client_ends_with_the_session(ada: Any, client_id: str):
    give_tokens(ada, "another client")
    give_tokens(get_user_model().objects.create_user("eve"), "client of another user")
    key = give_tokens(ada, client_id)
    make_session(principal_key=key, user=ada)

    with HERE:
        admin = Client()
        admin.force_login(get_user_model().objects.create_superuser("boss"))
        answer = act(admin, "revoke", Session.objects.get())

    assert can_revoke(key)
    assert answer.json()["done"].startswith("The credentials are revoked")
    assert count_tokens() == (2, 2)
    assert not Session.objects.exists()


def test_tokens_of_a_client_for_itself_end():
    key = give_tokens(None, "machine")

    assert revoke_tokens_of_principal(key, None) is True
    assert count_tokens() == (0, 0)


def test_of_tokens_that_ended_before_only_that_is_said(ada: Any):
    key = give_tokens(ada)

    assert [revoke_tokens_of_principal(key, ada.pk) for _ in range(2)] == [True, False]


def test_a_client_without_tokens_has_nothing_to_revoke(ada: Any):
    assert revoke_tokens_of_principal(make_key("oauth", ada.pk, "unknown"), ada.pk) is None


def test_tokens_are_only_revoked_by_those_who_may_change_api_keys(ada: Any):
    make_session(principal_key=give_tokens(ada), user=ada)

    with HERE:
        answer = act(
            client_of("ender", "view_session", "end_session"), "revoke", Session.objects.get()
        )

    assert answer.status_code == 403
    assert count_tokens() == (1, 1)
