"""Principals of tasks: how they are stored, and whether they may still act when a worker starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, RefreshToken

from django_mcp import MCPServer
from django_mcp.auth.access import DjangoAccess
from django_mcp.auth.authenticators import APIKeyAuthenticator, Authenticator
from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.auth.recheck import recheck
from django_mcp.contrib.oauth import OAuthAuthenticator
from django_mcp.models import APIKey
from tests.support.auth.asking import admit, bearer

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # One database in memory locks its tables against another thread.
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 0}):
        yield


def make(user: User | None = None, **auth: Any) -> Principal:
    info = AuthInfo(**{"subject": "ann", "authenticator": "custom", **auth})
    return Principal(key="custom:ann", user=user, auth=info)


def revived(principal: Any, *authenticators: Authenticator) -> Any:
    """Return a principal after a round trip through the database."""
    access = DjangoAccess(authenticators=lambda: authenticators)
    return async_to_sync(access.revive)(json.loads(json.dumps(access.describe(principal))))


def test_a_principal_survives_a_round_trip():
    ann = User.objects.create_user("ann")
    before = make(
        ann,
        client_id="app",
        scopes=frozenset({"read", "write"}),
        has_all_scopes=True,
        claims={"email": "ann@example.com", "groups": ["a"], "at": timezone.now()},
        expires_at=4e9,
        allowed_tools=frozenset({"t"}),
    )

    after = revived(before)

    assert (after.key, after.user) == (before.key, ann)
    assert after.auth.claims["email"] == "ann@example.com"
    assert after.auth.claims["groups"] == ["a"]
    with pytest.raises(TypeError):
        after.auth.claims["email"] = "eve@example.com"
    for name in ("subject", "client_id", "scopes", "has_all_scopes", "expires_at", "allowed_tools"):
        assert getattr(after.auth, name) == getattr(before.auth, name)


@pytest.mark.parametrize("claims", [{"odd": object()}, {"long": "x" * 20_000}])
def test_claims_that_are_not_serializable_are_dropped(claims: dict[str, Any]):
    found = revived(make(claims=claims))

    assert (found.auth.subject, dict(found.auth.claims)) == ("ann", {})


def test_anonymous_stays_anonymous_and_an_inactive_user_is_rejected():
    ann = User.objects.create_user("ann")
    before = make(ann)
    assert revived(before) is not None
    User.objects.update(is_active=False)

    assert revived(before) is None


@pytest.mark.parametrize("change", ["revoked_at", "expires_at"])
def test_a_revoked_key_stops_working(change: str):
    authenticator = APIKeyAuthenticator()
    key, text = APIKey.objects.issue(user=User.objects.create_user("ann"), name="test")
    server = MCPServer("reviving", authenticators=[authenticator])
    before = admit(server, bearer(text))

    found = revived(before, Authenticator(), authenticator)
    assert (found.user, found.source) == (key.user, authenticator)
    APIKey.objects.update(**{change: timezone.now()})

    assert revived(before, Authenticator(), authenticator) is None
    assert async_to_sync(recheck)([found], for_tasks=True) == {found}


def test_credentials_the_site_no_longer_accepts_stop_working():
    _, text = APIKey.objects.issue(user=User.objects.create_user("ann"), name="test")
    server = MCPServer("reviving", authenticators=[APIKeyAuthenticator()])
    before = admit(server, bearer(text))

    assert revived(before, Authenticator()) is None


@pytest.fixture
def client() -> Application:
    found: Application = Application.objects.create(
        name="tests",
        client_type=Application.CLIENT_PUBLIC,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        redirect_uris="http://localhost/back",
    )
    return found


def issue(user: User, client: Application, text: str = "old") -> AccessToken:
    found: AccessToken = AccessToken.objects.create(
        user=user,
        application=client,
        token=text,
        scope="mcp",
        expires=timezone.now() + timedelta(hours=1),
        resource=["http://testserver/mcp"],
    )
    RefreshToken.objects.create(user=user, application=client, token=text, access_token=found)
    return found


def principal_of(token: AccessToken) -> Principal:
    return OAuthAuthenticator()._to_principal(token)


def test_a_task_survives_token_refreshes(client: Application):
    """The token that started it is gone by then."""
    ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
    old = issue(ann, client)
    issue(bob, client, "bobs")
    begun = principal_of(old)
    old.delete()

    assert async_to_sync(begun.source.find_ended)([begun]) == {begun}
    assert async_to_sync(recheck)([begun], for_tasks=True) == set()
    for token in RefreshToken.objects.filter(user=ann):
        token.revoke()
    assert async_to_sync(recheck)([begun], for_tasks=True) == {begun}


def test_a_task_ends_when_the_last_token_of_its_client_is_revoked(client: Application):
    ann = User.objects.create_user("ann")
    begun = principal_of(issue(ann, client))
    other = Application.objects.create(name="another", client_type="public")
    issue(ann, other, "anothers")
    RefreshToken.objects.filter(application=client).update(revoked=timezone.now())

    assert async_to_sync(recheck)([begun], for_tasks=True) == set()
    AccessToken.objects.filter(application=client).update(expires=timezone.now())
    assert async_to_sync(recheck)([begun], for_tasks=True) == {begun}
