"""The charts: what they count, and in whose language they name it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client, override_settings

from django_mcp.calls import RecordedCall
from django_mcp.calls.rows import insert
from django_mcp.models import CallTally
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import HERE, url


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    cache.clear()
    with HERE:
        yield


def _tool() -> str:
    return ""


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("charted")
    for name in ("greet", "rare"):
        server.tool(name=name)(_tool)
    return server


def record_calls(server: MCPServer, count: int, name: str = "greet", **values: Any) -> None:
    now = datetime.now(UTC).timestamp()
    texts = dict.fromkeys(("reference", "principal", "client_name", "client_version"), "")
    given: dict[str, Any] = {"duration_s": 0.001, "outcome": "done", **texts, **values}
    insert(
        [
            RecordedCall(
                server=server,
                started_at=now - at,
                method="tools/call",
                name=name,
                user_id=None,
                revision="r",
                arguments="",
                **given,
            )
            for at in range(count)
        ]
    )


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_the_charts_count_calls_errors_and_percentiles(admin: Client, server: MCPServer, span: str):
    record_calls(server, 60)
    record_calls(server, 30)
    record_calls(server, 10, duration_s=0.1, outcome="fault")
    record_calls(server, 5, name="rare")
    found = admin.get(url("charts_data"), {"span": span}).json()

    assert sum(found["calls"]) == 105
    assert sum(found["errors"]) == 10
    assert len(found["bounds"]) == len(found["times"]) + 1
    bounds = {"started_at__gte": found["bounds"][0], "started_at__lt": found["bounds"][-1]}
    listed = admin.get(url("callrecord_changelist"), {**bounds, "outcome__in": "fault,failed"})
    assert listed.context["cl"].result_count == 10
    row, rare = found["names"]
    assert (row["name"], row["calls"], row["errors"]) == ("greet", 100, 10)
    assert (rare["name"], rare["calls"], rare["errors"]) == ("rare", 5, 0)
    assert row["p50"] < row["p95"] == row["p99"]
    of_one = admin.get(url("charts_data"), {"span": span, "name": "rare"}).json()
    assert sum(of_one["calls"]) == 5
    assert of_one["names"] == found["names"]


@override_settings(
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ]
)
def test_the_charts_are_kept_for_all_and_told_each_in_their_language(
    admin: Client, server: MCPServer
):
    record_calls(server, 1)
    told = [
        admin.get(url("charts_data"), headers={"accept-language": language}).json()["names"]
        for language in ("de", "en")
    ]

    assert [row["method"] for [row] in told] == ["Werkzeug", "tool"]


def test_the_charts_have_no_other_spans(admin: Client):
    assert admin.get(url("charts_data"), {"span": "year"}).status_code == 400


@pytest.mark.parametrize("span", ["hour", "day"])
def test_names_that_clients_invent_are_one_row(admin: Client, server: MCPServer, span: str):
    for at in range(25):
        record_calls(server, 2, name=f"invented-{at}", outcome="refused", is_known=False)
    record_calls(server, 3)
    found = admin.get(url("charts_data"), {"span": span}).json()["names"]

    assert [(row["label"], row["calls"]) for row in found] == [("unknown", 50), ("greet", 3)]
    assert CallTally.objects.filter(name__startswith="invented").count() == 0
