"""Texts chosen by clients and users in the admin: truncated, with invisible characters escaped."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from django_mcp.models import APIKey, Session, Subscription
from tests.unit.admin.test_live import make_session, make_stream, make_worker
from tests.unit.admin.test_pages import client_of, url

HOSTILE = "a\u202eEVIL\u2066\x07\x1b\u3164"


pytestmark = pytest.mark.usefixtures("here")


def make_hostile_session(**values: Any) -> Session:
    return make_session(
        client_name=HOSTILE,
        client_info={"name": HOSTILE, "title": HOSTILE + "y" * 100_000},
        capabilities={HOSTILE: HOSTILE * 1000},
        principal_key=HOSTILE,
        **values,
    )


def make_subscription(**values: Any) -> Subscription:
    session = make_hostile_session(**values)
    uri = f"x://{HOSTILE}{'u' * 100_000}"
    return Subscription.objects.create(session=session, uri=uri, uri_digest="d")


def make_stream_of_it() -> Model:
    return make_stream(make_worker(), session=make_hostile_session(), client_name=HOSTILE)


def make_key() -> APIKey:
    user, _is_new = get_user_model().objects.get_or_create(username="owner")
    key, _text = APIKey.objects.issue(user=user, name=HOSTILE)
    return key


def assert_harmless(page: str) -> None:
    assert {char for char in page if not char.isprintable()} <= set("\n\t\r\xa0")
    assert "\u3164" not in page
    assert "EVIL" in page
    assert "u" * 1000 not in page
    assert "y" * 5000 not in page


@pytest.mark.parametrize(
    ("make", "page"),
    [
        *((make_hostile_session, page) for page in ("changelist", "change", "history")),
        *((make_subscription, page) for page in ("changelist", "change", "history")),
        *((make_stream_of_it, page) for page in ("changelist", "change")),
    ],
)
def test_pages_escape_names_chosen_by_clients(admin: Client, make: Any, page: str):
    row = make()
    key = () if page == "changelist" else (row.pk,)
    address = reverse(f"admin:django_mcp_{row._meta.model_name}_{page}", args=key)

    assert_harmless(admin.get(address).content.decode())


def test_the_user_deletion_page_escapes_related_names(admin: Client):
    user = get_user_model().objects.create_user("leaver")
    make_subscription(user=user)
    APIKey.objects.issue(user=user, name=HOSTILE)

    assert_harmless(admin.get(reverse("admin:auth_user_delete", args=[user.pk])).content.decode())


def test_list_history_and_view_pages_escape_a_key_name(admin: Client):
    key = make_key()
    APIKey.objects.update(
        user=get_user_model().objects.get(username="boss"), scopes=HOSTILE, tools=HOSTILE
    )
    looker = client_of("looker", "view_apikey")
    APIKey.objects.update(user=get_user_model().objects.get(username="looker"))
    admin.post(
        url("apikey_changelist"),
        {"action": "revoke", "_selected_action": [key.pk], "confirmed": "1"},
    )

    assert_harmless(admin.get(url("apikey_changelist")).content.decode())
    history = reverse("admin:django_mcp_apikey_history", args=[key.pk])
    assert_harmless(admin.get(history).content.decode())
    assert_harmless(looker.get(history.replace("history", "change")).content.decode())
    assert_harmless(admin.get(reverse("admin:index")).content.decode())


def test_the_new_key_and_connect_pages_escape_a_key_name(admin: Client):
    made = admin.post(
        reverse("admin:django_mcp_apikey_add"),
        {"name": "a\u202eEVIL\u2066", "user": get_user_model().objects.get().get_username()},
        follow=True,
    )

    assert_harmless(made.content.decode())
    assert_harmless(admin.get(url("connect")).content.decode())


def test_a_key_with_an_invisible_name_is_rejected(admin: Client):
    values = {"name": "\u3164\u2800", "user": get_user_model().objects.get().get_username()}

    page = admin.post(reverse("admin:django_mcp_apikey_add"), values).content.decode()

    assert "The name has no visible characters" in page
    assert not APIKey.objects.exists()
