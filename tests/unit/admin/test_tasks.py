"""The list of tasks: its content, and the permission to cancel one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse
from django.utils import timezone

from django_mcp.extensions.tasks.core.task import MAX_EXTENSIONS
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.server.exchange.digests import digest_of
from django_mcp.servers import default_server
from tests.support.wire import V2025_11_25
from tests.unit.admin.test_pages import client_of

LIST = "admin:django_mcp_task_changelist"


pytestmark = pytest.mark.usefixtures("here")


def make_task(**values: Any) -> Task:
    now, secret = timezone.now(), f"task-{Task.objects.count()}"
    return Task.objects.create(
        id=digest_of(secret),
        secret=secret,
        server=default_server.name,
        revision=V2025_11_25.name,
        call={"arguments": {"secret": "s3cret"}},
        created_at=now,
        expires_at=now + timedelta(hours=1),
        ttl_ms=3_600_000,
        poll_ms=1000,
        **{
            "tool": "export",
            "rounds": {},
            "status": Task.Status.WORKING,
            "updated_at": now,
            **values,
        },
    )


def test_tasks_are_shown_without_their_arguments():
    task = make_task(tool="<script>", status_message="half\u202e way")
    admin = client_of("boss", is_superuser=True)
    page = admin.get(reverse(LIST)).content.decode()
    detail = admin.get(reverse("admin:django_mcp_task_change", args=[task.pk])).content.decode()

    assert "&lt;script&gt;" in page
    assert "half\\u202e way" in detail
    assert "s3cret" not in page + detail


def test_no_page_tells_the_id_by_which_an_anonymous_client_finds_its_task():
    task = make_task()
    admin = client_of("boss", is_superuser=True)
    cancelled = cancel(admin, task)
    pages = [
        admin.get(reverse(LIST)),
        admin.get(reverse("admin:django_mcp_task_change", args=[task.pk])),
        admin.get(reverse("admin:django_mcp_task_history", args=[task.pk])),
        cancelled,
    ]

    assert all(page.status_code == 200 for page in pages)
    assert task.pk in pages[0].content.decode()
    assert not any(task.secret in page.content.decode() for page in pages)
    assert task.secret not in str(LogEntry.objects.get().object_id)
    assert Task.objects.get().status == Task.Status.CANCELLED


def cancel(client: Any, *tasks: Task) -> Any:
    chosen = [task.pk for task in tasks]
    data = {"action": "cancel", "_selected_action": chosen, "confirmed": "1"}
    return client.post(reverse(LIST), data, follow=True)


def test_a_task_is_cancelled_once():
    running, over = make_task(), make_task(status=Task.Status.COMPLETED)
    told = cancel(client_of("boss", is_superuser=True), running, over).content.decode()
    running.refresh_from_db()
    over.refresh_from_db()

    assert "1 task was cancelled." in told
    assert (running.status, over.status) == ("cancelled", "completed")
    assert [entry.object_repr for entry in LogEntry.objects.all()] == ["export"]


def test_cancelling_requires_the_change_permission():
    task = make_task()
    cancel(client_of("clerk", "view_task"), task)
    task.refresh_from_db()

    assert task.status == "working"


@pytest.fixture
def exports() -> Iterator[None]:
    def run() -> str:
        return ""

    default_server.tool(name="export", task="allowed")(run)
    default_server.tool(name="report", task="allowed", read_only=True)(run)
    yield
    for name in ("export", "report"):
        default_server.remove_tool(name)


def test_viewing_the_list_settles_tasks_of_dead_workers(exports: None):
    gone = timezone.now() - timedelta(seconds=30)
    lost, again, running = (
        make_task(
            tool=tool,
            run="r",
            leased_until=until,
            rounds={"extended": MAX_EXTENSIONS},
            principal_key="p",
        )
        for tool, until in (
            ("export", gone),
            ("report", gone),
            ("export", timezone.now() + timedelta(minutes=1)),
        )
    )
    page = client_of("boss", is_superuser=True).get(reverse(LIST))
    for task in (lost, again, running):
        task.refresh_from_db()

    assert (lost.status, again.status, running.status) == ("failed", "working", "working")
    # A worker begins it again.
    assert "lost: its worker has gone" in page.content.decode()
