"""The start page: what it says to whom, and on a new site."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import AsyncClient, Client, override_settings
from django.urls import reverse
from django.utils import timezone

from django_mcp.admin.figures import draw_line
from django_mcp.extensions.tasks.core.transitions import STOPPED
from django_mcp.health import signs
from django_mcp.models import APIKey, CallRecord, Worker
from tests.unit.admin.test_live import make_session, make_stream, make_worker
from tests.unit.admin.test_pages import client_of
from tests.unit.admin.test_tasks import make_task

pytestmark = pytest.mark.usefixtures("here")
NEW = "No client has called yet."
RECORDING = override_settings(DJANGO_MCP={"SYNC_THREADS": 0, "PUBLIC": True, "RECORD_CALLS": True})


@pytest.fixture(autouse=True)
def _fresh() -> None:
    cache.clear()
    signs._layer_faults.clear()


def start(client: Client, site: str = "admin") -> Any:
    return client.get(reverse(f"{site}:app_list", args=["django_mcp"]))


def figures(client: Client) -> dict[str, tuple[str, str]]:
    """Return the value and the note of each figure by its title."""
    found = start(client)
    assert found.status_code == 200
    return {
        str(figure.title): (figure.value, str(figure.note)) for figure in found.context["figures"]
    }


def make_calls(count: int, **values: Any) -> None:
    now = timezone.now() - timedelta(minutes=2)
    CallRecord.objects.bulk_create(
        CallRecord(
            **{
                "started_at": now,
                "minute": int(now.timestamp() // 60),
                "duration_ms": 40,
                "step": 48,
                "server": "django-mcp",
                "method": "tools/call",
                "name": "greet",
                "outcome": "done",
                **values,
            }
        )
        for _ in range(count)
    )


@pytest.mark.parametrize("site", ["admin", "other"])
def test_a_new_site_is_told_its_next_steps(admin: Client, site: str):
    page = start(admin, site).content.decode()

    assert NEW in page
    assert reverse(f"{site}:django_mcp_connect") in page
    assert "Calls are not being recorded." in page


@pytest.mark.parametrize("make", [make_session, make_task, lambda: make_calls(1)])
def test_a_site_that_was_called_is_not_new(admin: Client, make: Any):
    make()

    assert NEW not in start(admin).content.decode()


def test_a_time_that_is_not_over_is_drawn_once_it_has_as_many_calls_as_the_one_before():
    assert draw_line([2, 4, 1], 20, 4) == "0,10 1,1"
    assert draw_line([2, 4, 4], 20, 4) == "0,10 1,1 2,1"
    assert draw_line([0, 0, 4], 20, 4) == "0,19 1,19 2,1"
    assert draw_line([4], 20, 4) == "0,1"


@RECORDING
def test_the_last_hour_is_counted_and_drawn(admin: Client):
    make_calls(1200)
    make_calls(30, outcome="fault")
    page = start(admin)
    found = figures(admin)

    assert found["Calls in the last hour"] == ("1,230", "")
    assert found["Errors"] == ("30", "2.4 %")
    assert found["95th percentile"][0] == "41 ms"
    picture = page.context["picture"]
    # The minute of the calls reaches the top, all others lie on the ground.
    assert sorted({point.split(",")[1] for point in picture.calls.split()}) == ["1", "19"]
    assert picture.width == 59
    assert "<polyline" in page.content.decode()


@RECORDING
def test_what_is_connected_runs_and_waits_is_counted(admin: Client):
    busy, other = make_worker(), make_worker()
    Worker.objects.filter(pk=busy.pk).update(
        in_flight={"total": 9, "threads": [8, 8, 3], "exhausted": None}
    )
    Worker.objects.filter(pk=other.pk).update(in_flight={"total": 1, "threads": [1, 8, 0]})
    session = make_session()
    for _ in range(3):
        make_stream(busy, session=session)
    make_task()
    make_task(status="input_required")
    make_task(status="completed")
    found = figures(admin)

    assert found["Running calls"] == ("10", "3 wait for a thread")
    assert found["Open streams"] == ("3", "")
    assert found["Sessions"] == ("1", "")
    assert found["Workers"] == ("2", "9 of 16 threads are busy")
    assert found["Tasks"] == ("1", "1 wait for input")


def troubles(client: Client) -> list[str]:
    return [str(trouble.text) for trouble in start(client).context["troubles"]]


def test_nothing_is_wrong(admin: Client):
    make_session()
    make_worker()

    assert troubles(admin) == []
    assert "Nothing is wrong now." in start(admin).content.decode()


def test_an_exhausted_pool_and_a_lost_worker_are_named(admin: Client):
    busy = make_worker()
    Worker.objects.filter(pk=busy.pk).update(
        host="<busy>", in_flight={"total": 9, "threads": [8, 8, 3], "exhausted": 1}
    )
    make_worker(lease_s=-1)
    found = troubles(admin)

    assert found[0].startswith("All 8 threads of the worker <busy>:7 are busy, and 3 calls wait")
    assert found[1].startswith("1 worker does not report any more: web-1:7.")
    assert "<busy>" not in start(admin).content.decode()


def test_tasks_without_a_worker_are_told(admin: Client):
    make_task(run="r", leased_until=timezone.now() - timedelta(seconds=1))
    make_task(run="r", leased_until=timezone.now() + timedelta(minutes=1))

    assert troubles(admin) == ["The worker of 1 task has gone."]


def test_tasks_that_failed_with_their_worker_are_told_for_an_hour(admin: Client):
    now = timezone.now()
    lost = {"status": "failed", "error": STOPPED.to_error()}
    make_task(**lost, updated_at=now - timedelta(minutes=59))
    make_task(**lost, updated_at=now - timedelta(minutes=61))
    make_task(status="failed", error={"code": -32603, "message": "Internal error"})
    [trouble] = start(admin).context["troubles"]

    assert trouble.text == "1 task failed in the last hour, since its worker stopped."
    assert admin.get(trouble.url).context["cl"].result_count == 3
    assert troubles(client_of("sessions", "view_session")) == []


def test_keys_that_are_about_to_expire_are_named_to_who_may_see_them(admin: Client):
    now = timezone.now()
    clerk = client_of("clerk", "view_apikey")
    for name, user, days in (
        ("of the boss", "boss", 3),
        ("of the clerk", "clerk", 6),
        ("later", "boss", 8),
        ("over", "boss", -1),
        ("unlimited", "boss", None),
    ):
        owner = get_user_model().objects.get(username=user)
        expires_at = None if days is None else now + timedelta(days=days)
        APIKey.objects.issue(user=owner, name=name, expires_at=expires_at)
    APIKey.objects.get(name="of the boss").revoke()
    APIKey.objects.issue(
        user=get_user_model().objects.get(username="boss"),
        name="soon",
        expires_at=now + timedelta(days=1),
    )

    (told,) = troubles(admin)
    assert [name in told for name in ("soon", "of the clerk")] == [True, True]
    assert "boss" not in told
    assert "later" not in told
    (told,) = troubles(clerk)
    assert "of the clerk" in told
    assert "soon" not in told


AWAY = override_settings(
    CHANNEL_LAYERS={
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]},
        }
    },
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    },
    DJANGO_MCP={"SYNC_THREADS": 0, "PUBLIC": True, "PUSH_BUS": "layer", "RECORD_CALLS": True},
)


@AWAY
def test_the_page_opens_while_redis_is_away_and_says_so(admin: Client):
    make_calls(7)
    found = troubles(admin)

    assert len(found) == 2
    assert found[0].startswith("The cache default does not answer: ")
    assert "RedisPubSubChannelLayer at 127.0.0.1:1 does not answer" in found[1]
    assert figures(admin)["Calls in the last hour"] == ("7", "")


@pytest.mark.parametrize("backend", ["pubsub.RedisPubSubChannelLayer", "core.RedisChannelLayer"])
def test_a_layer_that_answers_is_no_trouble(admin: Client, redis_url: str, backend: str):
    layer = {"BACKEND": f"channels_redis.{backend}", "CONFIG": {"hosts": [redis_url]}}
    with override_settings(
        CHANNEL_LAYERS={"default": layer},
        DJANGO_MCP={"SYNC_THREADS": 0, "PUBLIC": True, "PUSH_BUS": "layer"},
    ):
        assert troubles(admin) == []


@AWAY
@pytest.mark.django_db(transaction=True)
async def test_the_page_opens_on_an_event_loop_while_redis_is_away():
    boss = await sync_to_async(get_user_model().objects.create_superuser)("boss")
    client = AsyncClient()
    await client.aforce_login(boss)
    page = await client.get(reverse("admin:app_list", args=["django_mcp"]))

    assert page.status_code == 200
    assert "RedisPubSubChannelLayer at 127.0.0.1:1 does not answer" in page.content.decode()


def test_a_user_sees_only_parts_whose_models_they_may_view():
    make_worker()
    make_worker(lease_s=-1)
    make_calls(1)
    make_task()
    seen = {
        permission: set(figures(client_of(permission, permission)))
        for permission in ("view_task", "view_stream", "view_session", "view_callrecord")
    }

    assert seen == {
        "view_task": {"Tasks"},
        "view_stream": {"Open streams"},
        # Workers are for those who see all connections.
        "view_session": {"Sessions"},
        "view_callrecord": {"Calls in the last hour", "Errors", "95th percentile", "Running calls"},
    }
    assert troubles(client_of("keys", "view_apikey")) == []


def test_nobody_without_a_permission_sees_the_page():
    assert start(client_of("clerk")).status_code == 404
    assert start(client_of("other", "view_logentry")).status_code == 404
    assert start(Client()).status_code == 302
