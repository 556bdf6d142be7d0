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
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import HERE, url


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    cache.clear()
    with HERE:
        yield


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("charted")


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
