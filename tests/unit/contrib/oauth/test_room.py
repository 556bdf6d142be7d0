"""Room for new clients: dead ones go first, nobody takes all of it, and it is told before it is full."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client, override_settings
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth import room
from django_mcp.contrib.oauth.models import SignIn, SupersededToken
from tests.unit.contrib.oauth.test_register import register

pytestmark = pytest.mark.django_db

OLD = timedelta(hours=2)


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    # It warns once in a minute of the process.
    monkeypatch.setattr(room, "_nearly_full", type(room._nearly_full)())


def user_named(name: str) -> Any:
    return get_user_model().objects.get_or_create(username=name)[0]


def add(name: str, age: timedelta = OLD) -> Any:
    application = get_application_model().objects.create(
        client_id=name,
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://client.example/callback",
        registration_source="dcr",
    )
    moment = timezone.now() - age
    get_application_model().objects.filter(pk=application.pk).update(created=moment, updated=moment)
    return application


def authorize(application: Any, user: Any, *, age: timedelta = timedelta(0)) -> Any:
    """Give a client the tokens of a user, which it got or renewed some time ago."""
    moment = timezone.now() - age
    access = get_access_token_model().objects.create(
        application=application,
        user=user,
        token=f"a {application.client_id} {user.pk}",
        scope="mcp",
        expires=moment + timedelta(hours=1),
    )
    token = get_refresh_token_model().objects.create(
        application=application,
        user=user,
        token=f"r {application.client_id} {user.pk}",
        token_checksum=f"r {application.client_id} {user.pk}",
        access_token=access,
    )
    get_refresh_token_model().objects.filter(pk=token.pk).update(created=moment)
    return token


def left() -> set[str]:
    names = get_application_model().objects.values_list("client_id", flat=True)
    return {each for each in names if len(each) < 20}


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 4})
def test_clients_whose_tokens_are_over_make_room():
    ada = user_named("ada")
    authorize(add("expired"), ada, age=timedelta(days=31))
    authorize(add("revoked"), ada).revoke()
    authorize(add("renewable"), user_named("ben"), age=timedelta(days=29))

    assert [register().status_code for _ in range(2)] == [201] * 2
    assert left() == {"renewable"}


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2})
def test_a_client_that_is_being_authorized_is_kept():
    application = add("with a code")
    add("other")
    get_grant_model().objects.create(
        application=application,
        user=user_named("ada"),
        code="a code",
        expires=timezone.now() + timedelta(minutes=1),
        redirect_uri="https://client.example/callback",
    )

    register()

    assert left() == {"with a code"}


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 2})
def test_a_client_on_the_consent_page_is_kept():
    add("asked about")
    add("other", age=timedelta(minutes=10))
    browser = Client()
    browser.force_login(user_named("ada"))
    query = {
        "client_id": "asked about",
        "response_type": "code",
        "redirect_uri": "https://client.example/callback",
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }
    assert browser.get("/oauth/authorize/", query).status_code == 200

    register()

    assert left() == {"asked about"}


def test_a_thousand_clients_of_one_user_leave_room_for_others():
    ada = user_named("ada")
    models = get_application_model(), get_access_token_model()
    applications = models[0].objects.bulk_create(
        models[0](
            client_id=f"client {number}",
            client_type="public",
            authorization_grant_type="authorization-code",
            registration_source="dcr" if number % 2 else "cimd",
        )
        for number in range(1000)
    )
    models[1].objects.bulk_create(
        models[1](
            application=each,
            user=ada,
            token=each.client_id,
            token_checksum=each.client_id,
            scope="mcp",
            expires=timezone.now() + timedelta(hours=1),
        )
        for each in applications
    )

    answers = [register().status_code for _ in range(20)]

    assert answers == [201] * 20
    assert len(left()) == 980


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 20})
def test_a_user_keeps_a_share_and_what_others_use_too():
    ada, ben = user_named("ada"), user_named("ben")
    for number in range(14):
        application = add(f"client {number:02}", age=OLD - timedelta(minutes=number))
        authorize(application, ada)
        if number == 0:
            authorize(application, ben)

    answers = [register().status_code for _ in range(20)]

    # The other quarter is for clients with documents.
    assert answers == [201] * 13 + [429] * 7
    assert left() == {"client 00", "client 13"}


@override_settings(DJANGO_MCP={"OAUTH_MAX_REGISTERED": 10})
def test_the_limit_is_told_before_it_is_reached(caplog: Any, admin_client: Client):
    for number in range(7):
        authorize(add(f"client {number}"), user_named(f"user {number}"))
    page = "/admin/django_mcp_oauth/signin/"
    register()
    assert "OAUTH_MAX_REGISTERED" not in caplog.text + admin_client.get(page).content.decode()

    authorize(add("one more"), user_named("one more"))
    register()

    assert "8 of 10 clients have tokens" in caplog.text
    assert "8 of 10 clients have tokens" in admin_client.get(page).content.decode()


def test_prune_clears_expired_tokens_and_dead_clients():
    ada = user_named("ada")
    month = timedelta(days=31)
    authorize(add("dead", age=month), ada, age=month)
    add("never authorized", age=month)
    add("fresh")
    authorize(add("alive", age=month), ada)
    get_grant_model().objects.create(
        application=get_application_model().objects.get(client_id="alive"),
        user=ada,
        code="a code",
        expires=timezone.now() - timedelta(minutes=1),
    )
    SignIn.objects.create(at=timezone.now() - month, step="token", is_refused=False)
    SupersededToken.objects.create(at=timezone.now() - OLD, token_checksum="x")

    dry = StringIO()
    call_command("mcp_prune", dry_run=True, stdout=dry)
    assert "sign-ins: 1 would be deleted" in dry.getvalue()
    assert left() == {"dead", "never authorized", "fresh", "alive"}
    call_command("mcp_prune", stdout=StringIO())

    assert left() == {"fresh", "alive"}
    assert get_refresh_token_model().objects.count() == 1
    assert get_access_token_model().objects.count() == 1
    assert not get_grant_model().objects.exists()
    assert not SignIn.objects.exists()
    assert not SupersededToken.objects.exists()
