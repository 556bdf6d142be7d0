"""What is told of sign-ins: one warning and one row for each step, within limits."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from django_mcp.contrib.oauth import sign_ins
from django_mcp.contrib.oauth.models import SignIn
from django_mcp.contrib.oauth.sign_ins import Step, report

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    cache.clear()
    sign_ins.forget_shares()


def request_of(address: str = "192.0.2.1") -> Any:
    return RequestFactory().get("/oauth/authorize/", REMOTE_ADDR=address)


def refuse(address: str = "192.0.2.1", **values: Any) -> None:
    values = {"reason": "It is wrong", "remedy": "Mend it.", "field": "redirect_uris", **values}
    report(Step.REGISTRATION, request_of(address), **values)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_refusal_is_one_warning_with_the_field_and_the_remedy(caplog: Any):
    refuse(client="https://client.example/id")

    (text,) = warnings(caplog)
    assert "redirect_uris: It is wrong. Mend it." in text
    assert "'https://client.example/id'" in text
    assert "192.0.2.1" in text
    row = SignIn.objects.get()
    assert (row.step, row.is_refused, row.field) == ("registration", True, "redirect_uris")
    assert (row.client_id, row.address) == ("https://client.example/id", "192.0.2.1")


def test_the_texts_of_a_client_cannot_write_a_line_of_the_log(caplog: Any):
    refuse(client="a\nWARNING forged\x00\u202e" + "x" * 1000, reason="b\r\nforged", field="c\nd")

    (text,) = warnings(caplog)
    assert text.isprintable()
    row = SignIn.objects.get()
    assert len(row.client_id) == 255
    assert "\n" not in row.client_id + row.reason + row.field


def test_a_step_that_succeeds_is_a_row_and_no_warning(caplog: Any):
    user = get_user_model().objects.create(username="ada")

    report(Step.AUTHORIZATION, request_of(), client="c", user=user)

    assert warnings(caplog) == []
    row = SignIn.objects.get()
    assert (row.user, row.is_refused, row.reason) == (user, False, "")


def test_one_caller_cannot_take_the_steps_of_the_others(caplog: Any):
    for number in range(3 * sign_ins.EACH_PER_MINUTE):
        # The addresses of one network are one caller.
        refuse(f"2001:db8::{number:x}")
    refuse("192.0.2.2")

    assert SignIn.objects.count() == sign_ins.EACH_PER_MINUTE + 1
    assert SignIn.objects.filter(address="192.0.2.2").exists()
    assert sum("It is wrong" in text for text in warnings(caplog)) == sign_ins.EACH_PER_MINUTE + 1


def test_all_callers_together_have_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sign_ins, "ALL_PER_MINUTE", 5)

    for number in range(20):
        refuse(f"192.0.2.{number}")

    assert SignIn.objects.count() == 5


def test_the_newest_rows_of_a_caller_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sign_ins, "EACH_KEPT", 3)
    refuse("192.0.2.9", client="other")

    for number in range(8):
        refuse(client=f"client {number}")

    kept = SignIn.objects.filter(address="192.0.2.1").values_list("client_id", flat=True)
    assert sorted(kept) == ["client 5", "client 6", "client 7"]
    assert SignIn.objects.filter(client_id="other").exists()


def test_strangers_cannot_push_out_the_rows_of_users(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sign_ins, "ALL_KEPT", 6)
    monkeypatch.setattr(sign_ins, "TRIM_EVERY", 1)
    monkeypatch.setattr(sign_ins._ReportShares, "is_trim_due", lambda self: True)
    user = get_user_model().objects.create(username="ada")
    report(Step.TOKEN, request_of(), user=user)

    for number in range(20):
        refuse(f"192.0.2.{number}")

    assert SignIn.objects.filter(user=user).exists()
    assert SignIn.objects.count() == 1 + 3


def test_a_table_that_is_away_does_not_fail_the_request():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_mcp_oauth_signin RENAME TO elsewhere")

    refuse()

    assert not get_user_model().objects.exists()  # the transaction goes on


def test_a_refused_registration_is_told_once(caplog: Any):
    body = {"redirect_uris": ["http://elsewhere.example/"], "client_name": "A client"}

    answer = Client().post("/oauth/register/", json.dumps(body), content_type="application/json")

    assert answer.status_code == 400
    assert len([text for text in warnings(caplog) if text.startswith("OAuth: ")]) == 1
    row = SignIn.objects.get()
    assert (row.step, row.is_refused) == ("registration", True)
    assert row.field == "redirect_uris"


def test_a_refused_token_request_is_told_without_its_secrets(caplog: Any):
    answer = Client().post(
        "/oauth/token/",
        "grant_type=authorization_code&code=s3cret&client_id=nobody",
        content_type="application/x-www-form-urlencoded",
    )

    assert answer.status_code == 401
    row = SignIn.objects.get()
    assert (row.step, row.client_id) == ("token", "nobody")
    assert not any("s3cret" in text for text in warnings(caplog))
    assert "s3cret" not in row.reason


def test_the_start_page_of_the_admin_counts_refusals_of_the_last_hour(admin_client: Client):
    refuse()
    refuse("192.0.2.2")
    report(Step.REGISTRATION, request_of())
    SignIn.objects.create(at=timezone.now() - timedelta(hours=2), step="token", is_refused=True)
    clerk = Client()
    user: Any = get_user_model().objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_session"))
    clerk.force_login(user)
    told = [
        [
            (trouble.text, trouble.url)
            for trouble in each.get("/admin/django_mcp/").context["troubles"]
        ]
        for each in (admin_client, clerk)
    ]

    text = "2 sign-ins were refused in the last hour."
    assert told == [[(text, "/admin/django_mcp_oauth/signin/?is_refused__exact=1")], []]


@pytest.mark.parametrize("page", ["signin", "clientendpoint"])
def test_a_search_for_many_words_finds_nothing(admin_client: Client, page: str):
    refuse(client="https://client.example/id")
    url = f"/admin/django_mcp_oauth/{page}/"

    assert not admin_client.get(url, {"q": "https " * 1000}).context["cl"].result_list
    assert (
        page == "clientendpoint" or admin_client.get(url, {"q": "https"}).context["cl"].result_list
    )


@pytest.mark.parametrize(
    ("page", "name", "value"),
    [
        ("signin", "at__year", "9" * 30),
        ("signin", "client_id__startswith", "x" * 60_000),
        ("clientendpoint", "resource__startswith", "x" * 60_000),
        ("signin", "step", "\0"),
    ],
)
def test_a_filter_with_a_value_that_no_database_accepts_is_left_out(
    admin_client: Client, page: str, name: str, value: str
):
    url = f"/admin/django_mcp_oauth/{page}/"

    answer = admin_client.get(url, {name: value})

    assert answer.status_code in (302, 400)
    assert answer.headers.get("Location", f"{url}?e=1") == f"{url}?e=1"


@pytest.mark.parametrize("key", ["x", "9" * 40])
def test_an_action_on_a_key_that_no_row_has_does_nothing(admin_client: Client, key: str):
    url = "/admin/django_mcp_oauth/clientendpoint/"
    chosen = {"action": "delete_selected", "_selected_action": [key]}

    assert admin_client.post(url, chosen).headers["Location"] == url


def test_an_administrator_sees_sign_ins(admin_client: Client):
    refuse(client="https://client.example/id")
    row = SignIn.objects.get()

    listed = admin_client.get("/admin/django_mcp_oauth/signin/")
    shown = admin_client.get(f"/admin/django_mcp_oauth/signin/{row.pk}/change/")

    assert "https://client.example/id" in listed.content.decode()
    assert "Mend it." in shown.content.decode()
    assert admin_client.post(f"/admin/django_mcp_oauth/signin/{row.pk}/delete/").status_code == 403
