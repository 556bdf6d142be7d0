"""The record of calls: its content, its omissions, and its cost when it is off."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, make_dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connections
from django.test import override_settings

from django_mcp.calls import RecordedCall, flush_calls
from django_mcp.calls.call import step_of, upper_ms
from django_mcp.calls.recorder import MAX_QUEUED, _writer
from django_mcp.calls.rows import insert, old_calls, old_tallies, text_fields, unpack
from django_mcp.execution.tables import delete_some
from django_mcp.models import CallRecord, CallTally, ErrorGroup, ErrorTally, Session
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.sanitize import clean
from django_mcp.servers import MCPServer
from django_mcp.signals import tool_called
from tests.support.overtaken import Overtaken
from tests.support.wire import META, V2025_11_25, V2026_07_28, WireClient

Text: TypeAlias = str
RECORDING = {"RECORD_CALLS": True, "SYNC_THREADS": 0}
HOSTILE = "<script>alert(1)</script>\u202e\x00\ud800" + "x" * 1_000_000


RECORDS = (CallRecord, CallTally, ErrorGroup, ErrorTally)


class ToFirst:
    """Keeps the record of calls in the database `first`."""

    def db_for_read(self, model: type, **hints: object) -> str | None:
        return "first" if model in RECORDS else None

    db_for_write = db_for_read


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("calls")

    @server.tool
    def greet(name: str, times: int = 1) -> str:
        return f"Hello, {name}" * times

    @server.tool(record_arguments=True)
    def search(query: str) -> str:
        return query

    @server.tool
    def fail(how: str) -> str:
        raise {"told": ToolError("No"), "bug": KeyError("secret")}[how]

    @server.resource("note://{pk}")
    def note(pk: str) -> str:
        return pk

    return server


@pytest.fixture
def user(db: None) -> AbstractBaseUser:
    return get_user_model().objects.create_user("ann")


def recorded() -> CallRecord:
    flush_calls()
    return CallRecord.objects.get()


def run(coroutine: Coroutine[Any, Any, Any]) -> None:
    async def wait() -> None:
        await coroutine

    async_to_sync(wait)()


def call(server: MCPServer, name: str, arguments: dict[str, Any], **options: Any) -> None:
    client = WireClient(server, V2026_07_28, **options)
    run(client.send("tools/call", {"name": name, "arguments": arguments}))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "coerced"),
    [
        ({"many": 2}, ""),
        ({"many": "2"}, "many"),
        ({"many": 2, "secret": 1}, "?"),
        ({"many": None, "secret": 1}, "many, ?"),
    ],
)
def test_the_record_names_arguments_that_were_corrected(arguments: Any, coerced: str):
    server = MCPServer("calls", public=True, unknown_arguments="drop")

    @server.tool(input_schema=COUNT)
    def count(many: int = 1) -> str:
        return str(many)

    with override_settings(DJANGO_MCP=RECORDING):
        call(server, "count", arguments)
        flush_calls()

    found = CallRecord.objects.get()
    assert (found.outcome, found.coerced) == ("done", coerced)


COUNT = {
    "type": "object",
    "properties": {"many": {"type": "integer"}},
    "additionalProperties": False,
}


@override_settings(DJANGO_MCP=RECORDING)
def test_a_call_is_recorded(server: MCPServer, user: AbstractBaseUser):
    principal = SimpleNamespace(key="test:ann", user=user, is_authenticated=True)
    before = datetime.now(UTC)
    call(server, "greet", {"name": "Bob"}, principal=principal)

    found = recorded()
    assert (found.server, found.method, found.name) == ("calls", "tools/call", "greet")
    assert (found.outcome, found.reference) == ("done", "")
    assert (found.user_id, found.principal) == (user.pk, principal.key)
    assert (found.revision, found.client_name, found.client_version) == (
        V2026_07_28.name,
        "tests",
        "1",
    )
    assert before <= found.started_at <= datetime.now(UTC)
    assert found.minute == found.started_at.timestamp() // 60
    assert 0 < found.duration_ms <= upper_ms(found.step)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("tool", "arguments", "kept"),
    [
        ("greet", {"name": "a secret", "times": 2}, '{"name":"string","times":"integer"}'),
        ("greet", {"name": "a", "secret key": [1]}, '{"name":"string","…":"1"}'),
        ("search", {"query": "shoes"}, '{"query":"shoes"}'),
        ("search", {"query": "x" * 20_000}, '{"query":"string"}'),
    ],
)
@override_settings(DJANGO_MCP=RECORDING)
def test_arguments_are_stored_only_for_tools_that_allow_it(
    server: MCPServer, tool: str, arguments: dict[str, Any], kept: str
):
    call(server, tool, arguments)

    assert recorded().arguments == kept


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("how", "outcome", "has_reference"),
    [("told", "failed", False), ("bug", "fault", True), ("wrong", "fault", True)],
)
@override_settings(DJANGO_MCP=RECORDING)
def test_the_outcome_of_a_call_is_recorded(
    server: MCPServer, how: str, outcome: str, has_reference: bool, caplog: pytest.LogCaptureFixture
):
    call(server, "fail", {"how": how})

    found = recorded()
    assert found.outcome == outcome
    assert bool(found.reference) is has_reference
    assert found.reference in caplog.text
    assert found.error == ("ToolError" if how == "told" else "KeyError")


@pytest.mark.django_db
@override_settings(DJANGO_MCP=RECORDING)
def test_a_call_keeps_the_key_of_its_session(server: MCPServer):
    client = WireClient(server, V2025_11_25)

    async def call_in_session() -> None:
        await client.open()
        await client.send("tools/call", {"name": "greet", "arguments": {"name": "Bob"}})

    run(call_in_session())
    assert recorded().session == Session.objects.get().pk.hex


@pytest.mark.django_db
@override_settings(DJANGO_MCP=RECORDING)
def test_a_resource_is_recorded_by_name_and_not_by_uri(server: MCPServer):
    run(WireClient(server, V2025_11_25).result("resources/read", {"uri": "note://a-secret"}))

    found = recorded()
    assert (found.method, found.name, found.outcome) == ("resources/read", "note", "done")
    assert found.arguments == ""


@pytest.mark.django_db
@override_settings(DJANGO_MCP=RECORDING)
def test_hostile_texts_are_truncated_and_escaped(server: MCPServer):
    text = HOSTILE.replace("\ud800", "")
    info = {"name": text, "version": text}
    params = {"name": text[:3000], "_meta": {META + "clientInfo": info}}
    run(WireClient(server, V2026_07_28).error("tools/call", params))
    run(WireClient(server, V2025_11_25).error("tools/call", {"name": text}))

    flush_calls()
    found = list(CallRecord.objects.all())
    assert found[-1].outcome == "refused"
    for record in found:
        assert len(record.name) <= 200
        assert record.name.isprintable()
        assert record.client_name.isprintable()


def test_texts_are_truncated_and_escaped():
    assert clean("plain", 10) == "plain"
    assert clean("x" * 11, 10) == "x" * 9 + "…"
    assert clean("a\u202eb\x00c\ud800", 10) == "a\ufffdb\ufffdc\ufffd"


@pytest.mark.parametrize("duration_ms", [0.0, 0.01, 0.5, 1, 37.2, 60_000, 1e7])
def test_a_histogram_bucket_contains_its_durations(duration_ms: float):
    step = step_of(duration_ms)

    assert upper_ms(step) >= duration_ms * 0.999
    assert step <= 1 or upper_ms(step - 1) < duration_ms * 1.001


@pytest.mark.django_db
@pytest.mark.parametrize("settings", [{}, {"RECORD_CALLS": False}, {"RECORD_CALLS": 0.0}])
def test_calls_are_not_recorded_by_default(server: MCPServer, settings: Any):
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 0, **settings}):
        assert server.engine.ports.find_observer() is None
        run(WireClient(server, V2026_07_28).call("greet", {"name": "Bob"}))
        flush_calls()

    assert CallRecord.objects.count() == 0


@pytest.mark.slow
@pytest.mark.django_db
@override_settings(DJANGO_MCP={"RECORD_CALLS": 0.5, "SYNC_THREADS": 0})
def test_calls_can_be_sampled(server: MCPServer):
    client = WireClient(server, V2026_07_28)
    for _ in range(200):
        run(client.call("search", {"query": "x"}))
    flush_calls()

    # 200 throws of a coin: outside of this once in 10^17 runs.
    assert 40 < CallRecord.objects.count() < 160


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_the_tool_called_signal_is_sent_with_and_without_recording(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    received: list[tuple[MCPServer, RecordedCall]] = []

    def fail(**_kwargs: object) -> None:
        raise ValueError("in a receiver")

    def receive(sender: MCPServer, call: RecordedCall, **_kwargs: object) -> None:
        received.append((sender, call))

    tool_called.connect(fail)
    tool_called.connect(receive)
    try:
        run(WireClient(server, V2026_07_28).call("greet", {"name": "Bob"}))
        run(WireClient(server, V2026_07_28).result("resources/read", {"uri": "note://1"}))
        flush_calls()
    finally:
        tool_called.disconnect(fail)
        tool_called.disconnect(receive)

    [(sender, call)] = received
    assert sender is server
    assert (call.name, call.outcome) == ("greet", "done")
    assert "in a receiver" in caplog.text
    assert CallRecord.objects.count() == 0


@pytest.mark.django_db
@override_settings(DJANGO_MCP={**RECORDING, "RECORDED_CALLS_PER_MINUTE": 10**6})
def test_a_full_queue_drops_and_counts_what_it_drops(server: MCPServer):
    before = _writer.get().dropped
    client = WireClient(server, V2026_07_28)

    async def pour() -> None:
        for _ in range(MAX_QUEUED + 5):
            await client.send("tools/call", {"name": "nothing"})

    run(pour())
    flush_calls()

    assert _writer.get().dropped - before == 5
    assert CallRecord.objects.count() == MAX_QUEUED


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"CALL_RETENTION_DAYS": 10})
def test_old_calls_are_pruned():
    now = datetime.now(UTC)
    make_records([now - timedelta(days=days) for days in (1, 9, 11, 12)])

    assert delete_some(old_calls(now)) == 2
    assert delete_some(old_calls(now)) == 0
    assert {(now - record.started_at).days for record in CallRecord.objects.all()} == {1, 9}


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"CALL_RETENTION_DAYS": None})
def test_calls_can_be_kept_forever():
    make_records([datetime(2000, 1, 1, tzinfo=UTC)])

    assert delete_some(old_calls(datetime.now(UTC))) == 0


def make_records(times: list[datetime]) -> None:
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=time,
            minute=time.timestamp() // 60,
            duration_ms=1,
            step=1,
            server="s",
            method="tools/call",
            name="t",
            outcome="done",
            revision="r",
        )
        for time in times
    )


AWKWARD = '\'; DROP %s \\N \\u0000 "$1" 💥 \\'


def test_bulk_inserted_rows_round_trip(server: MCPServer, databases: str):
    names = ("name", "principal", "client_name", "client_version", "arguments", "coerced")
    texts: dict[str, Any] = dict.fromkeys(names, AWKWARD)
    given = RecordedCall(
        server=server,
        started_at=1_700_000_000.123456,
        duration_s=0.0123,
        method="tools/call",
        outcome="fault",
        reference="0a1b",
        user_id=7,
        revision=V2026_07_28.name,
        **texts,
    )
    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        insert([given, replace(given, user_id=None, started_at=0.0)])
        new, old = CallRecord.objects.order_by("-started_at")

    assert new.started_at == datetime.fromtimestamp(given.started_at, UTC)
    assert (new.minute, old.minute) == (28_333_333, 0)
    assert (new.user_id, old.user_id) == (7, None)
    assert new.duration_ms == pytest.approx(12.3)
    assert new.step == step_of(12.3)
    assert (new.server, new.method, new.outcome) == ("calls", "tools/call", "fault")
    assert (new.reference, new.revision) == ("0a1b", V2026_07_28.name)
    assert {name: getattr(new, name) for name in texts} == texts
    connections["first"].close()


def make_call(server: MCPServer, name: str, at_s: float, **values: Any) -> RecordedCall:
    texts = dict.fromkeys(("reference", "principal", "client_name", "client_version"), "")
    given = {"duration_s": 0.001, "outcome": "done", **texts, **values}
    return RecordedCall(
        server=server,
        started_at=at_s,
        method="tools/call",
        name=name,
        user_id=None,
        revision=V2026_07_28.name,
        arguments="",
        **given,
    )


def tallies(width: int) -> dict[tuple[Any, ...], int]:
    rows = CallTally.objects.filter(width=width).values_list("minute", "name", "outcome", "calls")
    return {tuple(key): calls for *key, calls in rows}


@pytest.mark.parametrize("can_add", [True, False])
def test_calls_are_tallied_when_written(
    server: MCPServer, databases: str, can_add: bool, monkeypatch: pytest.MonkeyPatch
):
    if not can_add:
        # As of MySQL and Oracle.
        features = connections["first"].features
        monkeypatch.setattr(features, "supports_update_conflicts_with_target", False)
    minutes = (1200, 1214, 1215, 1319, 1320)
    batch = [make_call(server, "a", minute * 60 + 59.9) for minute in minutes]
    batch.append(make_call(server, "a", 1200 * 60, outcome="fault"))
    batch.append(make_call(server, AWKWARD, 1200 * 60))
    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        insert(batch)
        insert(batch[:1])

        rest = {(1200, "a", "fault"): 1, (1200, AWKWARD, "done"): 1}
        quarters = {(1200, "a", "done"): 3, (1215, "a", "done"): 1, (1305, "a", "done"): 1}
        assert tallies(15) == {**rest, **quarters, (1320, "a", "done"): 1}
        assert tallies(120) == {**rest, (1200, "a", "done"): 5, (1320, "a", "done"): 1}
        assert CallRecord.objects.count() == 8
    connections["first"].close()


def test_concurrent_tallies_lose_no_calls(server: MCPServer, databases: str):
    names = [f"tool {number}" for number in range(30)]

    def write(seed: int) -> None:
        order = random.Random(seed)
        try:
            for duration_s in range(1, 11):
                shuffled = order.sample(names, len(names))
                insert([make_call(server, name, 0.0, duration_s=duration_s) for name in shuffled])
        finally:
            connections["first"].close()

    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert set(tallies(15).values()) == {40}
        expected = Counter([step_of(1000 * duration_s) for duration_s in range(1, 11)] * 4)
        for step, calls, steps in CallTally.objects.values_list("step", "calls", "steps"):
            assert unpack(step, calls, steps) == expected
        assert CallRecord.objects.count() == 4 * 10 * len(names)
    connections["first"].close()


@pytest.mark.django_db
def test_tallies_are_no_more_for_calls_of_many_durations(server: MCPServer):
    for count in (1, 50):
        insert([make_call(server, "a", 0.0, duration_s=1.2**at) for at in range(count)])

        assert [(row.width, row.calls) for row in CallTally.objects.order_by("width")] == [
            (15, 51 if count > 1 else 1),
            (120, 51 if count > 1 else 1),
        ]


@pytest.mark.django_db
@pytest.mark.parametrize(("days", "left"), [(1, {"new": 2}), (30, {"new": 2, "of the week": 1})])
def test_tallies_are_pruned_with_their_calls_or_when_no_chart_uses_them(
    server: MCPServer, days: int, left: dict[str, int]
):
    now = datetime.now(UTC)
    ages = {"new": timedelta(0), "of the week": timedelta(days=7), "old": timedelta(days=9)}
    insert([make_call(server, name, (now - age).timestamp()) for name, age in ages.items()])
    with override_settings(DJANGO_MCP={"CALL_RETENTION_DAYS": days}):
        delete_some(old_tallies(now))
        assert delete_some(old_tallies(now)) == 0

    names = list(CallTally.objects.values_list("name", flat=True))
    assert {name: names.count(name) for name in names} == left


@override_settings(USE_TZ=False)
def test_calls_are_recorded_on_sites_without_time_zones(server: MCPServer, user: AbstractBaseUser):
    with override_settings(DJANGO_MCP=RECORDING):
        before = datetime.now()  # noqa: DTZ005  (what this is about)
        call(server, "greet", {"name": "Bob"})
        assert before <= recorded().started_at <= datetime.now()  # noqa: DTZ005


def test_the_writer_thread_flushes_on_its_own(server: MCPServer, databases: str):
    with override_settings(DJANGO_MCP={"RECORD_CALLS": 1}, DATABASE_ROUTERS=[ToFirst()]):
        written = threading.Event()

        def receive(**_kwargs: object) -> None:
            # The signal is sent after its batch is written.
            written.set()

        tool_called.connect(receive)
        try:
            run(WireClient(server, V2026_07_28).call("search", {"query": "x"}))
            assert written.wait(30)
        finally:
            tool_called.disconnect(receive)

        record = CallRecord.objects.get()
        assert (record.name, record.arguments) == ("search", '{"query":"x"}')
        connections["first"].close()


def test_a_call_that_ends_while_the_thread_empties_the_queue_is_not_left_there():
    server = MCPServer("overtaken")
    server.register_tool(lambda: "done", name="work", atomic=False)
    goes_on, has_begun, received = threading.Event(), threading.Event(), threading.Semaphore(0)

    def receive(**_kwargs: object) -> None:
        has_begun.set()
        goes_on.wait(60)
        received.release()

    tool_called.connect(receive)
    try:
        with override_settings(DJANGO_MCP={"RECORD_CALLS": False, "SESSION_STORE": "memory"}):
            waiting = Overtaken[Any]("django-mcp-calls")
            _writer.get()._queue = waiting
            run(WireClient(server, V2026_07_28).call("work"))
            assert has_begun.wait(30)
            run(WireClient(server, V2026_07_28).call("work"))
            waiting.goes_on = goes_on
            run(WireClient(server, V2026_07_28).call("work"))

            for _ in range(3):
                assert received.acquire(timeout=10)
    finally:
        goes_on.set()
        tool_called.disconnect(receive)


def test_the_columns_of_texts_are_found_by_the_types_of_the_fields():
    @dataclass
    class Row:
        plain: str
        alias: Text
        quoted: str
        number: int
        maybe: str | None

    assert text_fields(Row) == ("plain", "alias", "quoted")
    assert {"alias", "plain"} == set(
        text_fields(make_dataclass("Made", [("plain", str), ("alias", Text)]))
    )
