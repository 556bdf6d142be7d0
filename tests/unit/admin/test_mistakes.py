"""The page that tells what models get wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, override_settings
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.admin import mistakes, samples
from django_mcp.calls import flush_calls
from django_mcp.models import CallRecord
from tests.unit.admin.test_pages import client_of, try_it, url

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def server() -> MCPServer:
    server = MCPServer("tried", unknown_arguments="drop")

    @server.tool
    def buy(article: str, count: int = 1) -> str:
        return article

    @server.tool
    def find(text: str) -> str:
        return text

    return server


def make_calls(count: int, name: str = "buy", **values: Any) -> None:
    now = timezone.now() - timedelta(minutes=5)
    CallRecord.objects.bulk_create(
        CallRecord(
            **{
                "started_at": now,
                "minute": 0,
                "duration_ms": 1,
                "step": 0,
                "server": "tried",
                "method": "tools/call",
                "name": name,
                "outcome": "done",
                **values,
            }
        )
        for _ in range(count)
    )


def look(client: Client, **query: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = client.get(url("mistakes"), query)
    assert found.status_code == 200
    return found.context["tools"], found.context["unknown"]


def test_wrong_arguments_are_counted_by_tool_and_place(admin: Client):
    make_calls(6)
    make_calls(2, faulty="count", outcome="failed")
    make_calls(1, faulty="count, article", outcome="failed")
    make_calls(1, coerced="count, ?")
    make_calls(1, name="find", coerced="text")
    # The same, but of no tool that is there.
    make_calls(3, name="gone", faulty="count", outcome="failed")
    make_calls(5, faulty="count", outcome="failed", started_at=timezone.now() - timedelta(days=20))
    (buy, find), _unknown = look(admin)

    assert (buy["name"], buy["calls"], buy["refused"], buy["corrected"]) == ("buy", 10, 30, 10)
    assert buy["refused_at"] == [("count", 30), ("article", 10)]
    assert buy["corrected_at"] == [("?", 10), ("count", 10)]
    assert (find["name"], find["refused"], find["corrected"]) == ("find", 0, 100)
    assert admin.get(buy["url"]).status_code == 200


def test_what_a_client_really_sent_is_counted(admin: Client):
    given: list[dict[str, Any]] = [
        {"article": "tea"},
        {"article": "tea", "count": "2"},
        {"count": "many"},
        {"article": "tea", "s3cret": 1},
    ]
    recording = {"SYNC_THREADS": 0, "PUBLIC": True, "RECORD_CALLS": True}
    with override_settings(DJANGO_MCP=recording):
        for arguments in given:
            assert b"".join(try_it(admin, key="buy", arguments=arguments).streaming_content)
        assert b"".join(try_it(admin, key="bye").streaming_content)
        flush_calls()
        (buy,), (unknown,) = look(admin)

    assert (buy["calls"], buy["refused"], buy["corrected"]) == (4, 25, 50)
    assert buy["refused_at"] == [("article", 25), ("count", 25)]
    assert buy["corrected_at"] == [("?", 25), ("count", 25)]
    assert (unknown["name"], unknown["count"]) == ("bye", 1)
    assert "s3cret" not in admin.get(url("mistakes")).content.decode()


def test_calls_that_a_client_repeats_are_counted(admin: Client):
    recording = {"SYNC_THREADS": 0, "PUBLIC": True, "RECORD_CALLS": True}
    with override_settings(DJANGO_MCP=recording):
        for count in (1, 2, 2, 3):
            arguments = {"article": "tea", "count": count}
            assert b"".join(try_it(admin, key="buy", arguments=arguments).streaming_content)
        flush_calls()
        (buy,), _unknown = look(admin)

    assert (buy["calls"], buy["repeated"], buy["refused"]) == (4, 50, 0)
    assert buy["changed"] == [("count", 50)]


@pytest.mark.parametrize("size", [samples.SAMPLE, 100])
def test_the_tokens_of_results_are_those_of_a_call_and_of_a_session(
    admin: Client, monkeypatch: pytest.MonkeyPatch, size: int
):
    monkeypatch.setattr(samples, "SAMPLE", size)
    for at in range(100):
        make_calls(4, result_chars=400, session=f"{at:032x}")
        make_calls(2, "find", result_chars=80, session=f"{at:032x}")
    make_calls(100, "find", result_chars=80)
    make_calls(1, "gone", result_chars=10**6)
    buy, find = admin.get(url("mistakes")).context["tokens"]

    assert (buy["name"], buy["per_call"], buy["per_session"]) == ("buy", 100, 400)
    assert (find["name"], find["per_call"], find["per_session"]) == ("find", 20, 40)


def test_the_share_of_results_that_were_cut_is_shown(admin: Client):
    make_calls(3, result_chars=40)
    make_calls(1, result_chars=40, is_cut=True)
    page = admin.get(url("mistakes"))
    (buy,) = page.context["tokens"]

    assert buy["cut"] == 25
    assert ">25 %</td>" in page.content.decode()


def test_the_calls_of_a_few_sessions_are_read(admin: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mistakes, "MAX_OF_SESSIONS", 30)
    make_calls(25, result_chars=40, session="1" * 32)
    make_calls(25, result_chars=40, session="2" * 32)
    (buy,) = admin.get(url("mistakes")).context["tokens"]

    assert buy["per_session"] == 250
    monkeypatch.setattr(mistakes, "MAX_OF_SESSIONS", 20)
    (buy,) = admin.get(url("mistakes")).context["tokens"]
    assert buy["per_session"] == 200


def test_unknown_names_are_listed_the_most_frequent_first(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mistakes, "MAX_ROWS", 3)
    make_calls(4, "bye", outcome="refused")
    make_calls(2, "<script>alert(1)</script>\u202e", outcome="refused")
    for at in range(5):
        make_calls(1, f"other-{at}", outcome="refused")
    # It is there, but hidden from its caller.
    make_calls(9, outcome="refused")
    page = admin.get(url("mistakes"))
    unknown = page.context["unknown"]

    assert [(line["count"], str(line["kind"])) for line in unknown] == [
        (4, "tool"),
        (2, "tool"),
        (1, "tool"),
    ]
    assert unknown[0]["name"] == "bye"
    assert "<script>alert" not in page.content.decode()
    assert "\\u202e" in page.content.decode()
    listed = admin.get(unknown[0]["url"])
    assert (listed.status_code, listed.context["cl"].result_count) == (200, 4)


def test_only_the_newest_refused_calls_are_grouped(admin: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mistakes, "NEWEST", 10)
    make_calls(5, "old", outcome="refused", started_at=timezone.now() - timedelta(hours=5))
    make_calls(11, "new", outcome="refused")

    assert [line["name"] for line in look(admin)[1]] == ["new"]


def test_a_sample_of_many_calls_is_read(admin: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samples, "SAMPLE", 100)
    make_calls(500)
    make_calls(500, faulty="count", outcome="failed")
    page = admin.get(url("mistakes"))
    (buy,) = page.context["tools"]

    assert page.context["is_sample"]
    assert (buy["calls"], buy["refused"]) == (1000, 50)


def test_a_period_is_chosen(admin: Client):
    make_calls(1, faulty="count", started_at=timezone.now() - timedelta(hours=5))

    assert [len(look(admin, span=span)[0]) for span in ("hour", "day", "week", "nonsense")] == [
        0,
        1,
        1,
        1,
    ]


def test_the_page_needs_the_permission_to_view_all_calls(django_assert_max_num_queries: Any):
    make_calls(3, "bye", outcome="refused")
    viewer = client_of("viewer", "view_callrecord")
    assert get_user_model().objects.count() == 1
    with django_assert_max_num_queries(12):
        assert len(look(viewer)[1]) == 1
    assert client_of("clerk", "view_session").get(url("mistakes")).status_code == 403
    assert Client().get(url("mistakes")).status_code == 302
