"""Object permissions of a backend: only permitted objects are shown and ended."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import BaseBackend
from django.db.models import Model
from django.test import Client, override_settings
from django.urls import reverse

from django_mcp.auth.principal import make_key as make_principal_key
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import APIKey, CallRecord, Session, Stream, Subscription, Worker
from tests.unit.admin.test_live import act, make_session, make_stream, make_worker
from tests.unit.admin.test_pages import HERE, client_of, make_calls, url
from tests.unit.admin.test_tasks import cancel, make_task

GRANTED: set[tuple[str, Any]] = set()
ASKED: list[Any] = []


class Granting(BaseBackend):
    """Gives permissions for single objects."""

    def has_perm(self, user_obj: Any, perm: str, obj: Model | None = None) -> bool:
        if obj is None:
            return False
        ASKED.append(obj)
        return (perm, obj.pk) in GRANTED


BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    f"{__name__}.{Granting.__name__}",
]


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    GRANTED.clear()
    ASKED.clear()
    with HERE, override_settings(AUTHENTICATION_BACKENDS=BACKENDS):
        yield


def grant(action: str, row: Model) -> None:
    GRANTED.add((f"django_mcp.{action}_{row._meta.model_name}", row.pk))


def make_subscription() -> Subscription:
    return Subscription.objects.create(
        session=make_session(), uri="x:y", uri_digest=uuid.uuid4().hex
    )


def make_call() -> CallRecord:
    make_calls(1)
    return CallRecord.objects.latest("pk")


def make_key() -> APIKey:
    user, _is_new = get_user_model().objects.get_or_create(username="owner")
    key, _text = APIKey.objects.issue(user=user, name="k")
    return key


KINDS: list[tuple[type[Model], Callable[[], Model]]] = [
    (Session, make_session),
    (Stream, lambda: make_stream(make_worker())),
    (Subscription, make_subscription),
    (CallRecord, make_call),
    (Task, make_task),
    (APIKey, make_key),
]


@pytest.mark.parametrize(("model", "make"), KINDS)
def test_the_changelist_has_the_rows_the_user_may_view(
    model: type[Model], make: Callable[[], Model]
):
    rows = [make() for _ in range(3)]
    name = model._meta.model_name
    clerk = client_of("clerk")
    assert clerk.get(url(f"{name}_changelist")).status_code == 403
    assert f"/{name}/" not in clerk.get(reverse("admin:index")).content.decode()

    grant("view", rows[1])
    page = clerk.get(url(f"{name}_changelist"))
    assert [row.pk for row in page.context["cl"].result_list] == [rows[1].pk]
    assert f"/{name}/" in clerk.get(reverse("admin:index")).content.decode()
    assert change(clerk, rows[1]) == 200
    # As for a missing object.
    assert change(clerk, rows[2]) == 302


def change(client: Client, row: Model) -> int:
    return client.get(
        reverse(f"admin:django_mcp_{row._meta.model_name}_change", args=[row.pk])
    ).status_code


@pytest.mark.parametrize(("model", "make"), KINDS)
def test_a_model_permission_skips_object_checks(model: type[Model], make: Callable[[], Model]):
    for _ in range(3):
        make()
    boss = client_of("boss", is_superuser=True)

    assert boss.get(url(f"{model._meta.model_name}_changelist")).status_code == 200
    assert boss.get(url("live_data")).status_code == 200
    assert ASKED == []


def test_the_live_page_applies_object_permissions_to_rows_and_actions():
    worker = make_worker()
    seen, ended, hidden = (make_session() for _ in range(3))
    stream = make_stream(worker, session=seen)
    make_stream(worker, session=hidden)
    for row in (seen, ended, stream):
        grant("view", row)
    grant("end", ended)
    clerk = client_of("clerk")
    found = clerk.get(url("live_data")).json()

    assert found.keys() == {"at", "counts", "sessions", "streams"}
    assert {row["id"]: row["may_end"] for row in found["sessions"]} == {
        seen.pk.hex: False,
        ended.pk.hex: True,
    }
    assert [(row["id"], row["may_end"]) for row in found["streams"]] == [(stream.pk.hex, False)]
    assert found["counts"] == {"sessions": 2, "streams": 1}
    assert clerk.get(url("live")).status_code == 200


def test_the_live_page_requires_a_view_permission():
    make_session()

    assert client_of("clerk").get(url("live")).status_code == 403


def test_ending_without_object_permission_looks_like_a_missing_object():
    mine, seen, hidden = (make_session() for _ in range(3))
    for action, row in (("view", mine), ("end", mine), ("view", seen), ("end", hidden)):
        grant(action, row)
    clerk = client_of("clerk")

    assert act(clerk, "end", seen).status_code == 403
    assert act(clerk, "end", mine).json() == {"done": "The session is ended."}
    for key in (mine.pk.hex, hidden.pk.hex, uuid.uuid4().hex):
        assert act(clerk, "end", key).json() == {"done": "It no longer exists."}
    assert set(Session.objects.all()) == {seen, hidden}


def test_a_stream_is_closed_with_object_permission():
    worker = make_worker()
    mine, other = make_stream(worker), make_stream(worker)
    for action in ("view", "end"):
        grant(action, mine)
    clerk = client_of("clerk")

    assert act(clerk, "close", other).json() == {"done": "It no longer exists."}
    assert act(clerk, "close", mine).status_code == 200
    assert list(Stream.objects.all()) == [other]


def test_tasks_are_cancelled_with_object_permission():
    mine, other = make_task(), make_task()
    grant("view", mine)
    grant("view", other)
    grant("change", mine)
    cancel(client_of("clerk"), mine, other)

    assert Task.objects.get(pk=mine.pk).status == "cancelled"
    assert Task.objects.get(pk=other.pk).status == "working"


def test_keys_are_revoked_with_object_permission():
    mine, other = make_key(), make_key()
    for action, key in (("view", mine), ("change", mine), ("view", other)):
        grant(action, key)
    data = {"action": "revoke", "_selected_action": [mine.pk, other.pk], "confirmed": "1"}
    client_of("clerk").post(url("apikey_changelist"), data)

    assert APIKey.objects.get(pk=mine.pk).revoked_at is not None
    assert APIKey.objects.get(pk=other.pk).revoked_at is None


@pytest.mark.parametrize(
    ("name", "buttons"), [("revoke", "end revoke"), ("revoke_and_close", "close revoke_and_close")]
)
def test_the_live_page_and_the_changelist_can_revoke_the_same_keys(name: str, buttons: str):
    key = make_key()
    opened = {
        "principal_key": make_principal_key("api-key", key.user_id, f"mcp_{key.prefix}"),
        "user": key.user,
    }
    kind = "session" if name == "revoke" else "stream"
    row = make_session(**opened) if kind == "session" else make_stream(make_worker(), **opened)
    viewing = (f"view_{kind}", f"end_{kind}")

    assert act(client_of("keeper", *viewing, "change_apikey"), name, row).status_code == 403
    chosen = client_of("chosen", *viewing)
    assert act(chosen, name, row).status_code == 403
    key.refresh_from_db()
    assert key.revoked_at is None
    grant("change", key)
    assert f'data-acts="{buttons}' in chosen.get(url("live")).content.decode()
    assert act(chosen, name, row).status_code == 200
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_connected_user_can_be_deleted_in_the_admin():
    user = get_user_model().objects.create_user("leaver")
    session = make_session(user=user)
    make_stream(make_worker(), session=session, user=user)
    make_task(user=user)
    make_calls(1, user=user)
    Subscription.objects.create(session=session, uri="x:y", uri_digest="d")
    APIKey.objects.issue(user=user, name="k")
    page = reverse("admin:auth_user_delete", args=[user.pk])

    assert client_of("boss", is_superuser=True).post(page, {"post": "yes"}).status_code == 302
    assert not get_user_model().objects.filter(username="leaver").exists()
    assert Worker.objects.exists()
    assert not Session.objects.exists()
    # Their calls are still recorded, without the user.
    assert CallRecord.objects.get().user_id is None


def test_viewing_anothers_key_does_not_allow_changing_it():
    clerk = client_of("clerk", "view_apikey", "change_apikey", "delete_apikey")
    shared = make_key()
    grant("view", shared)
    page = reverse("admin:django_mcp_apikey_change", args=[shared.pk])

    assert change(clerk, shared) == 200
    changed = {"name": "mine", "scopes": "everything", "tools": ""}
    assert clerk.post(page, changed).status_code == 403
    revoke_keys(clerk, shared)
    for address in (page.replace("/change/", "/delete/"), url("apikey_changelist")):
        clerk.post(
            address,
            {"post": "yes", "action": "delete_selected", "_selected_action": shared.pk},
        )
    shared.refresh_from_db()
    assert (shared.name, shared.scopes, shared.revoked_at) == ("k", "", None)

    grant("change", shared)
    revoke_keys(clerk, shared)
    shared.refresh_from_db()
    assert shared.revoked_at is not None
    grant("delete", shared)
    clerk.post(page.replace("/change/", "/delete/"), {"post": "yes"})
    assert not APIKey.objects.exists()


def test_users_can_change_revoke_and_delete_their_own_keys():
    clerk = client_of("clerk", "view_apikey", "change_apikey", "delete_apikey")
    own, _text = APIKey.objects.issue(
        user=get_user_model().objects.get(username="clerk"), name="k", tools=[]
    )
    page = reverse("admin:django_mcp_apikey_change", args=[own.pk])

    assert clerk.post(page, {"name": "mine"}).status_code == 302
    revoke_keys(clerk, own)
    own.refresh_from_db()
    assert own.name == "mine"
    assert own.revoked_at is not None
    clerk.post(page.replace("/change/", "/delete/"), {"post": "yes"})
    assert not APIKey.objects.exists()


def revoke_keys(client: Client, *keys: APIKey) -> None:
    data = {"action": "revoke", "_selected_action": [key.pk for key in keys], "confirmed": "1"}
    client.post(url("apikey_changelist"), data)


def test_a_user_with_keys_can_be_deleted_with_both_permissions():
    make_key()
    manager = client_of("manager", "view_user", "delete_user", "delete_apikey")
    owner = get_user_model().objects.get(username="owner")
    page = reverse("admin:auth_user_delete", args=[owner.pk])

    assert manager.post(page, {"post": "yes"}).status_code == 302
    assert not APIKey.objects.exists()
