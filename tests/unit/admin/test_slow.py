"""The page that tells where the time of calls goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.admin import samples, slow
from django_mcp.models import CallRecord
from tests.unit.admin.test_pages import client_of, url

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def server() -> MCPServer:
    server = MCPServer("timed")
    for name in ("find", "buy"):
        server.tool(name=name)(lambda: "")
    return server


def make_calls(*durations_ms: float, ago: timedelta = timedelta(minutes=5), **values: Any) -> None:
    now = timezone.now() - ago
    CallRecord.objects.bulk_create(
        CallRecord(
            **{
                "started_at": now + timedelta(milliseconds=at),
                "minute": 0,
                "duration_ms": duration_ms,
                "step": 0,
                "server": "timed",
                "method": "tools/call",
                "name": "find",
                "outcome": "done",
                "client_name": "desktop",
                **values,
            }
        )
        for at, duration_ms in enumerate(durations_ms)
    )


def look(client: Client, **query: str) -> dict[str, dict[str, Any]]:
    """Return the lines of each table by their title."""
    found = client.get(url("slow"), query)
    assert found.status_code == 200
    return {id: {row.title: row for row in rows} for id, _title, rows in found.context["tables"]}


def test_the_time_is_shared_by_name_client_user_and_server(admin: Client):
    boss = get_user_model().objects.get()
    make_calls(*range(1, 101), user=boss)
    make_calls(1000, outcome="fault", name="buy", client_name="editor", principal="key:7")
    tables = look(admin, span="hour")
    find = tables["names"]["find"]

    assert (find.calls, find.errors, find.p50, find.p95) == (100, 0, 50, 95)
    assert round(find.share) == round(5050 / 6050 * 100)
    assert list(tables["names"]) == ["find", "buy"]
    assert (tables["names"]["buy"].errors, tables["names"]["buy"].p95) == (1, 1000)
    assert {title: row.calls for title, row in tables["clients"].items()} == {
        "desktop": 100,
        "editor": 1,
    }
    assert {title: row.calls for title, row in tables["users"].items()} == {"boss": 100, "key:7": 1}
    assert {title: row.calls for title, row in tables["servers"].items()} == {"timed": 101}


def test_the_parts_of_the_time_are_told_where_they_are_known(admin: Client):
    make_calls(100, 300, queue_ms=50, handler_ms=40)
    # Recorded before that was.
    make_calls(1000)
    make_calls(70, name="buy")
    names = look(admin)["names"]

    assert (names["find"].queue, names["find"].handler) == (25, 20)
    assert (names["buy"].queue, names["buy"].handler) == (None, None)


def test_the_time_in_the_database_is_told_of_the_calls_whose_queries_were_counted(admin: Client):
    make_calls(100, 300, handler_ms=90, database_ms=40, queries=3)
    make_calls(200, handler_ms=90, database_ms=0, queries=0)
    # The others were not chosen.
    make_calls(5000, handler_ms=90)
    make_calls(70, name="buy")
    page = admin.get(url("slow"))
    names = look(admin)["names"]

    assert round(names["find"].database, 2) == round(80 / 600 * 100, 2)
    assert names["find"].queries == 2
    assert (names["buy"].database, names["buy"].queries) == (None, None)
    assert [(call["database"], call["queries"]) for call in page.context["slowest"][:3]] == [
        (None, None),
        (40, 3),
        (0, 0),
    ]
    assert "Queries per call" in page.content.decode()


def test_a_site_that_counts_no_queries_has_no_columns_for_them(admin: Client):
    make_calls(100, handler_ms=90)

    assert "Queries per call" not in admin.get(url("slow")).content.decode()


@pytest.mark.parametrize(
    ("span", "ago"),
    [("hour", timedelta(minutes=70)), ("day", timedelta(hours=30)), ("week", timedelta(days=10))],
)
def test_each_period_is_compared_with_the_one_before(admin: Client, span: str, ago: timedelta):
    make_calls(10, 20)
    make_calls(1, 2, 3, ago=ago)
    make_calls(5, name="buy", ago=ago)
    make_calls(9, ago=ago * 3)
    names = look(admin, span=span)["names"]

    assert list(names) == ["find"]
    assert (names["find"].calls, names["find"].share) == (2, 100)
    before = names["find"].before
    assert (before.calls, before.p50, round(before.share)) == (3, 2, round(6 / 11 * 100))


def test_only_slower_calls_are_counted_if_asked(admin: Client):
    make_calls(99, 101, 600)
    make_calls(700, ago=timedelta(hours=30))
    make_calls(50, name="buy")
    row = look(admin, slower="100")["names"]["find"]

    assert (row.calls, row.p50, row.before.calls) == (2, 101, 1)
    assert list(look(admin, slower="500")["names"]) == ["find"]
    # What is no choice is none.
    assert look(admin, slower="77")["names"]["find"].calls == 3
    assert look(admin, slower="9" * 40)["names"]["find"].calls == 3


def test_lines_lead_to_their_calls(admin: Client):
    boss = get_user_model().objects.get()
    make_calls(200, 600, user=boss)
    make_calls(900, name="buy", principal="key:7")
    make_calls(700, name="made-up", outcome="refused")
    tables = look(admin, slower="500")

    for table, title, count in (
        ("names", "find", 1),
        ("names", "unknown", 1),
        ("clients", "desktop", 3),
        ("users", "boss", 1),
        ("users", "key:7", 1),
        ("servers", "timed", 3),
    ):
        listed = admin.get(tables[table][title].calls_url)
        assert listed.status_code == 200, (table, title)
        assert listed.context["cl"].result_count == count, (table, title)


def test_the_slowest_calls_are_shown_with_where_their_time_went(admin: Client):
    make_calls(*range(100, 130), queue_ms=7, handler_ms=60)
    page = admin.get(url("slow"))
    slowest = page.context["slowest"]

    assert [call["duration"] for call in slowest] == list(range(129, 119, -1))
    assert {(call["queue"], call["handler"]) for call in slowest} == {(7, 60)}
    assert admin.get(slowest[0]["url"]).status_code == 200


def test_a_sample_stands_for_all_calls(admin: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samples, "SAMPLE", 100)
    make_calls(*range(1, 1001))
    make_calls(*range(1, 51), ago=timedelta(hours=30))
    page = admin.get(url("slow"))
    row = look(admin)["names"]["find"]

    assert page.context["is_sample"]
    # Ten neighbours of each hundred were read.
    assert row.calls == 1000
    assert abs(row.p50 - 500) <= 100
    # All of fewer.
    assert row.before.calls == 50


def test_a_sample_does_not_count_calls_that_were_deleted(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(samples, "SAMPLE", 100)
    make_calls(*range(1, 1001))
    first = CallRecord.objects.order_by("pk").values_list("pk", flat=True)[0]
    # The second half, but for its end.
    CallRecord.objects.filter(pk__gte=first + 500, pk__lt=first + 990).delete()

    assert abs(look(admin)["names"]["find"].calls - 510) <= 100


def test_a_long_call_at_the_edge_does_not_hide_its_neighbours(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(samples, "SAMPLE", 100)
    make_calls(*[1] * 1000, ago=timedelta(hours=2))
    # It began first, and so has the highest number.
    make_calls(10_000, name="buy", ago=timedelta(hours=3))

    assert look(admin)["names"]["find"].calls >= 980


def test_hostile_texts_are_shown_as_text(admin: Client):
    make_calls(1, client_name="<script>alert(1)</script>\u202e", principal="\u202e<b>", name="<i>")
    page = admin.get(url("slow")).content.decode()

    assert "<script>alert" not in page
    assert "<b>" not in page
    assert "\u202e" not in page


def test_many_callers_give_few_lines_and_queries(admin: Client, django_assert_max_num_queries: Any):
    now = timezone.now()
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=now - timedelta(minutes=1),
            minute=0,
            duration_ms=at,
            step=0,
            server="timed",
            method="tools/call",
            name="find",
            outcome="done",
            client_name=f"client-{at}",
            principal=f"key:{at}",
        )
        for at in range(300)
    )
    with django_assert_max_num_queries(12):
        tables = look(admin)

    assert [len(tables[name]) for name in ("clients", "users")] == [slow.MAX_ROWS] * 2


def test_the_page_needs_the_permission_to_view_all_calls():
    assert client_of("clerk", "view_session").get(url("slow")).status_code == 403
    assert client_of("viewer", "view_callrecord").get(url("slow")).status_code == 200
    assert Client().get(url("slow")).status_code == 302


def test_an_unknown_period_is_a_day(admin: Client):
    make_calls(1, ago=timedelta(hours=20))

    assert look(admin, span="century")["names"]["find"].calls == 1
