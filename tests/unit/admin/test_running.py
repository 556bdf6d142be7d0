"""The page of what runs: its content, its permissions, and how a call is cancelled."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client

from django_mcp.models import Worker
from tests.unit.admin.test_live import make_worker
from tests.unit.admin.test_pages import client_of, url
from tests.unit.admin.test_tasks import make_task

pytestmark = pytest.mark.usefixtures("here")


def make_call(key: str = "a" * 32, **values: Any) -> dict[str, Any]:
    return {
        "id": key,
        "method": "tools/call",
        "name": "greet",
        "server": "django-mcp",
        "user": "",
        "principal": "session:7",
        "client": "desktop 2",
        "revision": "2025-11-25",
        "session": "",
        "task": "",
        "since": int(time.time()) - 42,
        "state": "running",
        "has_thread": True,
        **values,
    }


def report(worker: Worker, *calls: dict[str, Any], count: int | None = None) -> None:
    state = {
        "total": len(calls),
        "long": calls,
        "long_count": sum(not call["task"] for call in calls) if count is None else count,
    }
    Worker.objects.filter(pk=worker.pk).update(in_flight=state)


def rows(client: Client) -> dict[str, list[Any]]:
    """Return the rows of each table, by its title."""
    found = client.get(url("running"))
    assert found.status_code == 200
    return {str(table.title): list(table.rows) for table in found.context["tables"]}


def cancel(client: Client, key: str, **more: str) -> Any:
    return client.post(url("running_cancel"), {"id": key, **more})


def asked(worker: Worker) -> Any:
    return Worker.objects.values_list("cancelled", flat=True).get(pk=worker.pk)


def test_calls_of_all_workers_are_shown_the_longest_first(admin: Client):
    first, second = make_worker(), make_worker()
    user = get_user_model().objects.get()
    report(first, make_call(since=int(time.time()) - 5, state="queued", has_thread=False))
    report(
        second,
        make_call(
            "b" * 32,
            name="<script>alert(1)</script>\u202e",
            user=str(user.pk),
            state="waiting",
            has_thread=False,
        ),
        make_call("c" * 32, since=int(time.time()) - 60, client=""),
        count=250,
    )
    found = admin.get(url("running"))
    (calls, _tasks) = found.context["tables"]
    shown = [(str(row.state), row.has_thread, row.user, row.client) for row in calls.rows]

    assert shown == [
        ("running", True, "session:7", "?"),
        ("waits for an answer", False, "boss", "desktop 2"),
        ("waits for a thread", False, "session:7", "desktop 2"),
    ]
    assert [
        abs(row.seconds - wanted) <= 1 for row, wanted in zip(calls.rows, (60, 42, 5), strict=True)
    ]
    assert (calls.count, calls.rows[0].worker) == (251, "web-1:7")
    page = found.content.decode()
    assert "<script>alert" not in page
    assert "\\u202e" in page


def test_calls_of_a_lost_worker_are_not_shown(admin: Client):
    report(make_worker(lease_s=-1), make_call())

    assert rows(admin)["Calls"] == []


def test_workers_of_an_earlier_version_report_no_single_calls(admin: Client):
    Worker.objects.filter(pk=make_worker().pk).update(in_flight={"total": 3, "threads": [3, 8, 0]})

    assert rows(admin)["Calls"] == []


def test_tasks_are_shown_with_their_progress_and_worker(admin: Client):
    worker = make_worker()
    running = make_task(status_message="3 of 10\u202e")
    make_task(status="input_required", tool="survey")
    make_task(status="completed")
    report(worker, make_call(task=running.pk, name="export"))
    found = rows(admin)

    assert found["Calls"] == []
    first, second = found["Tasks"]
    assert (first.name, first.note, first.worker, first.has_thread) == (
        "export",
        "3 of 10\\u202e",
        "web-1:7",
        True,
    )
    assert (second.name, str(second.state), second.worker) == ("survey", "waits for input", "")
    assert str(first.cancel[0]) == "/admin/django_mcp/task/"


def test_a_task_is_cancelled_from_the_page(admin: Client):
    task = make_task()
    (row,) = rows(admin)["Tasks"]
    address, fields = row.cancel
    confirm = admin.post(address, fields)
    task.refresh_from_db()
    assert task.status == "working"
    assert confirm.status_code == 200
    hidden = dict(
        re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', confirm.content.decode())
    )
    hidden.pop("csrfmiddlewaretoken", None)
    admin.post(address, hidden)
    task.refresh_from_db()

    assert task.status == "cancelled"


def test_a_call_is_cancelled_after_a_confirmation_and_noted(admin: Client):
    worker, other = make_worker(), make_worker()
    report(worker, make_call())
    report(other, make_call("b" * 32))
    confirm = cancel(admin, "a" * 32)

    assert confirm.status_code == 200
    assert "of desktop 2 (session:7), which has been running for 4" in confirm.content.decode()
    assert asked(worker) is None
    done = cancel(admin, "a" * 32, confirmed="1")
    assert done.headers["Location"] == url("running")
    assert (asked(worker), asked(other)) == (["a" * 32], None)
    assert str(rows(admin)["Calls"][0].state) == "is being cancelled"
    (entry,) = LogEntry.objects.all()
    assert (entry.object_repr, entry.change_message) == (
        "greet",
        "Cancelled. User: session:7; client: desktop 2.",
    )


def test_what_is_asked_of_a_worker_is_bounded_by_what_it_runs(admin: Client):
    worker = make_worker()
    report(worker, make_call(), make_call("b" * 32))
    Worker.objects.filter(pk=worker.pk).update(
        cancelled=["b" * 32, *(f"old-{i}" for i in range(500))]
    )
    cancel(admin, "a" * 32, confirmed="1")

    assert asked(worker) == ["a" * 32, "b" * 32]


@pytest.mark.parametrize("key", ["", "unknown", "\0", "b" * 32, "c" * 32])
def test_a_call_that_cannot_be_cancelled_is_treated_as_one_that_is_over(admin: Client, key: str):
    worker = make_worker()
    task = make_task()
    report(
        worker, make_call(), make_call("b" * 32, state="left"), make_call("c" * 32, task=task.pk)
    )
    page = admin.post(url("running_cancel"), {"id": key, "confirmed": "1"}, follow=True)

    assert "It no longer exists." in page.content.decode()
    assert asked(worker) is None
    assert not LogEntry.objects.exists()


def test_calls_that_have_ended_offer_no_button(admin: Client):
    report(make_worker(), make_call(state="left"))

    (row,) = rows(admin)["Calls"]
    assert (str(row.state), row.cancel) == ("has ended, but its handler still runs", None)


def test_cancelling_needs_its_permission():
    worker = make_worker()
    report(worker, make_call())
    viewer = client_of("viewer", "view_callrecord")
    (row,) = rows(viewer)["Calls"]

    assert row.cancel is None
    assert cancel(viewer, "a" * 32, confirmed="1").status_code == 403
    assert cancel(client_of("other", "cancel_callrecord"), "a" * 32).status_code == 403
    assert asked(worker) is None
    assert (
        cancel(client_of("op", "view_callrecord", "cancel_callrecord"), "a" * 32).status_code == 200
    )


def test_cancelling_is_never_done_by_a_link(admin: Client):
    assert admin.get(url("running_cancel"), {"id": "a" * 32}).status_code == 405


def test_the_page_shows_only_what_a_user_may_view():
    make_task()

    assert client_of("clerk", "view_task").get(url("running")).status_code == 403
    assert set(rows(client_of("calls", "view_callrecord"))) == {"Calls"}
    both = rows(client_of("both", "view_callrecord", "view_task"))
    assert (set(both), both["Tasks"][0].cancel) == ({"Calls", "Tasks"}, None)
    assert Client().get(url("running")).status_code == 302


def test_the_page_needs_few_queries(admin: Client, django_assert_max_num_queries: Any):
    users = get_user_model().objects.bulk_create(
        get_user_model()(username=f"user-{at}") for at in range(100)
    )
    for _ in range(3):
        report(
            make_worker(),
            *(make_call(f"{at:032}", user=str(users[at].pk)) for at in range(100)),
        )
    for at in range(20):
        make_task(user=users[at])
    with django_assert_max_num_queries(12):
        found = rows(admin)

    assert (len(found["Calls"]), len(found["Tasks"])) == (200, 20)
