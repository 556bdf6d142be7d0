"""No caller can fill the tables of calls, or keep the calls of others out of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from django_mcp.calls import flush_calls
from django_mcp.calls.recorder import _Shares, _writer, forget_calls
from django_mcp.calls.rows import KEPT_MINUTES, find_prunes
from django_mcp.models import CallRecord, CallTally
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.servers import MCPServer
from tests.support.wire import V2026_07_28, WireClient

pytestmark = pytest.mark.django_db

RECORDING = {"RECORD_CALLS": True, "SYNC_THREADS": 0, "RECORDED_CALLS_PER_MINUTE": 20}
WIDTHS = len(KEPT_MINUTES)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with override_settings(DJANGO_MCP=RECORDING):
        yield
        forget_calls()


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("calls")

    @server.tool
    def greet() -> str:
        return "Hello"

    return server


def call(server: MCPServer, count: int, name: str = "greet", key: str | None = None) -> None:
    user: Any = SimpleNamespace(key=key, user=None, is_authenticated=True)
    client = WireClient(server, V2026_07_28, principal=ANONYMOUS if key is None else user)

    async def pour() -> None:
        for number in range(count):
            await client.send("tools/call", {"name": name.format(number), "arguments": {}})

    async_to_sync(pour)()


def count_of(**fields: Any) -> int:
    return sum(CallTally.objects.filter(**fields).values_list("calls", flat=True)) // WIDTHS


def test_unknown_names_fill_no_table(server: MCPServer, caplog: pytest.LogCaptureFixture):
    before = _writer.get().dropped
    call(server, 50, "invented {}")
    flush_calls()

    assert CallRecord.objects.count() == 2
    assert _writer.get().dropped - before == 48
    assert "RECORDED_CALLS_PER_MINUTE" in caplog.text


def test_calls_above_the_share_of_their_caller_only_count(server: MCPServer):
    call(server, 50, key="ann")
    call(server, 5, key="bob")
    flush_calls()

    assert CallRecord.objects.filter(principal="ann").count() == 20
    assert CallRecord.objects.filter(principal="bob").count() == 5
    assert count_of(name="greet") == 55


def test_strangers_at_many_addresses_have_a_common_share():
    shares = _Shares()
    recorded = sum(shares.take("", f"192.0.2.{number}", 10) for number in range(200))

    assert recorded == 20
    assert shares.take("ann", "192.0.2.1", 10)


def test_a_new_minute_brings_a_new_share():
    now_s = 100.0
    shares = _Shares(lambda: now_s)

    assert [shares.take("ann", None, 10) for _ in range(3)] == [True, True, False]
    now_s += 60
    assert shares.take("ann", None, 10)


def record(count: int, principal: str = "", age_s: int = 0) -> None:
    at = timezone.now() - timedelta(seconds=age_s)
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=at,
            minute=at.timestamp() // 60,
            duration_ms=1,
            step=1,
            server="calls",
            method="tools/call",
            name="greet",
            outcome="done",
            revision=V2026_07_28.name,
            principal=principal,
        )
        for _ in range(count)
    )


def prune() -> None:
    for each in find_prunes():
        while each():
            pass


def test_calls_above_the_most_are_deleted_and_those_of_strangers_first():
    record(3, "ann")
    record(4)
    record(3, "bob")
    with override_settings(DJANGO_MCP={**RECORDING, "MAX_CALL_RECORDS": 5}):
        prune()

    assert [each.principal for each in CallRecord.objects.order_by("pk")] == [
        *(["ann"] * 2),
        *(["bob"] * 3),
    ]


def test_few_calls_are_not_counted_to_prune(django_assert_num_queries: Any):
    record(3, "ann")
    with override_settings(DJANGO_MCP={**RECORDING, "MAX_CALL_RECORDS": 5}):
        surplus = find_prunes()[-1]
        with django_assert_num_queries(1, connection=connection):
            assert surplus() == 0


def test_a_process_that_records_calls_deletes_old_ones(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    record(3, "ann", age_s=40 * 86_400)
    call(server, 1, key="ann")
    monkeypatch.setattr(_writer.get()._pruner, "_next_s", 0.0)
    flush_calls()

    assert CallRecord.objects.count() == 1
