"""Errors: which calls are one error, what is stored of an exception, and the limits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from django.views.debug import get_default_exception_reporter_filter
from django.views.decorators.debug import sensitive_variables

from django_mcp.calls import RecordedCall, flush_calls
from django_mcp.calls.call import Failed
from django_mcp.calls.errors import MAX_GROUPS
from django_mcp.calls.rows import find_prunes, insert
from django_mcp.calls.traces import MAX_MESSAGE_CHARS, MAX_TRACEBACK_BYTES
from django_mcp.execution.tables import prune_all
from django_mcp.models import CallRecord, ErrorGroup, ErrorTally
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.revisions import Revision
from django_mcp.servers import MCPServer
from django_mcp.signals import tool_called
from tests.support.server.tasks import until
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient
from tests.unit.calls.test_calls import RECORDING, ToFirst, make_call, run

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "hunter2"


class OutOfStock(Exception):
    """An exception of the site."""


@contextmanager
def recording(details: str) -> Iterator[None]:
    with override_settings(DJANGO_MCP={**RECORDING, "RECORD_ERRORS": details}):
        yield


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("failing")

    @server.tool
    def buy(number: str) -> str:
        return look_up(number)

    @server.tool
    async def abuy(number: str) -> str:
        return look_up(number)

    @server.tool(record_arguments=True)
    def kept(number: str, password: str = "") -> str:
        order, decimal, unknown = {"number": number, "api_key": number}, Decimal("1.5"), server
        raise OutOfStock(number, order, decimal, unknown)

    @server.tool(record_arguments=True)
    @sensitive_variables("number")
    def hidden(number: str) -> str:
        shown = 7
        raise OutOfStock(f"{number} {shown}")

    @server.tool(record_arguments=True)
    @sensitive_variables()
    async def ahidden(number: str) -> str:
        shown = 7
        raise OutOfStock(f"{number} {shown}")

    @server.tool
    def told(number: str) -> str:
        try:
            look_up(number)
        except OutOfStock as error:
            raise ToolError(f"No {number}") from error
        return ""

    @server.resource("order://{number}")
    def order(number: str) -> str:
        return look_up(number)

    @server.prompt
    def denied(number: str) -> str:
        raise PermissionDenied(number)

    return server


def look_up(number: str) -> str:
    raise OutOfStock(f"There is no {number}")


def call(
    server: MCPServer, tool: str, number: str = SECRET, revision: Revision = V2026_07_28
) -> None:
    arguments = {"name": tool, "arguments": {"number": number}}
    run(WireClient(server, revision).send("tools/call", arguments))
    flush_calls()


def error_of(server: MCPServer, tool: str, number: str = SECRET) -> ErrorGroup:
    call(server, tool, number)
    return ErrorGroup.objects.get(name=tool)


@pytest.mark.parametrize("tool", ["buy", "abuy"])
@recording("traceback")
def test_an_exception_is_recorded_by_its_class_and_its_place_without_values(
    server: MCPServer, tool: str
):
    error = error_of(server, tool)

    assert error.error == f"{__name__}.OutOfStock"
    assert error.place == f"{__name__}.look_up"
    assert (error.outcome, error.kind, error.calls) == ("fault", "fault", 1)
    first, *_, last = error.traceback.splitlines()
    assert first == "Traceback (most recent call last):"
    assert 'raise OutOfStock(f"There is no {number}")' in error.traceback
    assert last == error.error
    # The functions of the package that called the handler say nothing about it.
    assert "HandlerRun" not in error.traceback
    assert error.message == ""
    assert not any(SECRET in str(value) for value in vars(error).values())
    recorded = CallRecord.objects.get()
    assert recorded.fingerprint == error.pk


@recording("class")
def test_the_traceback_can_be_left_out(server: MCPServer):
    error = error_of(server, "buy")

    assert (error.error, error.place) == (f"{__name__}.OutOfStock", f"{__name__}.look_up")
    assert (error.traceback, error.message) == ("", "")


@recording("message")
def test_the_text_of_an_exception_and_its_causes_is_recorded_if_that_is_chosen(server: MCPServer):
    error = error_of(server, "told")

    assert (error.outcome, error.kind) == ("failed", "tool_error")
    assert error.message == f"No {SECRET}"
    assert f"OutOfStock: There is no {SECRET}\n\nThis was the cause" in error.traceback
    assert error.traceback.endswith(f"ToolError: No {SECRET}")
    assert "number =" not in error.traceback


@recording("variables")
def test_variables_are_only_recorded_of_tools_that_keep_their_arguments(server: MCPServer):
    assert "number = " not in error_of(server, "buy").traceback

    text = error_of(server, "kept").traceback
    assert f"      number = '{SECRET}'\n" in text
    assert "      decimal = Decimal('1.5')\n" in text
    # An object is shown by its class, since its text may need queries.
    assert "      unknown = <django_mcp.servers.MCPServer>\n" in text
    assert f"<dict of 2: 'number': '{SECRET}', 'api_key': ****" in text
    assert "      password = ****" in text


@pytest.mark.parametrize("tool", ["hidden", "ahidden"])
@recording("variables")
def test_djangos_filter_hides_sensitive_variables(server: MCPServer, tool: str):
    with override_settings(DEBUG=False):
        text = error_of(server, tool).traceback

    assert "      number = '****" in text
    assert f"'{SECRET}'" not in text
    assert ("      shown = 7" in text) is (tool == "hidden")


class HideAll:
    """A filter of a site."""

    def get_traceback_frame_variables(self, request: None, frame: Any) -> list[tuple[str, str]]:
        return [("all", "hidden")]


@override_settings(DEFAULT_EXCEPTION_REPORTER_FILTER=f"{__name__}.HideAll")
@recording("variables")
def test_the_filter_of_the_site_is_used(server: MCPServer):
    # Django keeps the filter for as long as the process runs.
    find_filter: Any = get_default_exception_reporter_filter
    find_filter.cache_clear()
    try:
        text = error_of(server, "kept").traceback
    finally:
        find_filter.cache_clear()

    assert "      all = 'hidden'" in text
    assert "number = " not in text


@recording("traceback")
def test_resources_and_prompts_have_errors_too(server: MCPServer):
    client = WireClient(server, V2025_11_25)
    run(client.send("resources/read", {"uri": f"order://{SECRET}"}))
    run(client.send("prompts/get", {"name": "denied", "arguments": {"number": "1"}}))
    flush_calls()

    found = {error.method: error for error in ErrorGroup.objects.all()}
    assert found["resources/read"].name == "order"
    assert found["resources/read"].place == f"{__name__}.look_up"
    assert found["prompts/get"].error == "django.core.exceptions.PermissionDenied"
    assert found["prompts/get"].kind == "denied"


@recording("message")
def test_refused_arguments_of_a_tool_are_one_error_without_values(server: MCPServer):
    for arguments in ({"number": 7}, {SECRET: "x"}, {"number": ["x"], SECRET: "x"}):
        run(
            WireClient(server, V2026_07_28).send(
                "tools/call", {"name": "buy", "arguments": arguments}
            )
        )
    flush_calls()

    error = ErrorGroup.objects.get()
    assert (error.name, error.kind, error.error, error.calls) == ("buy", "arguments", "", 3)
    assert not any(SECRET in str(value) for value in vars(error).values())


@recording("message")
def test_names_that_a_client_invents_are_one_error(server: MCPServer):
    for at in range(5):
        call(server, f"{SECRET}-{at}")

    error = ErrorGroup.objects.get()
    assert (error.name, error.outcome, error.kind, error.calls) == ("", "refused", "-32602", 5)
    assert not any(SECRET in str(value) for value in vars(error).values())


@recording("message")
def test_a_long_text_and_a_deep_traceback_are_cut(server: MCPServer):
    @server.tool
    def deep(number: str) -> str:
        def go(depth: int) -> str:
            if depth:
                return go(depth - 1)
            raise ValueError(number * 1000 + "\x00\ud800\u202e")

        return go(300)

    call(server, "deep", "<b>x\u202e\x00")
    error = ErrorGroup.objects.get(name="deep")

    assert len(error.message) <= MAX_MESSAGE_CHARS
    assert error.message.startswith("<b>x\ufffd")
    assert len(error.traceback.encode()) <= MAX_TRACEBACK_BYTES + 3
    assert 'File "' in error.traceback
    assert "\x00" not in error.traceback
    assert "\u202e" not in error.traceback


@recording("message")
def test_an_exception_whose_text_cannot_be_read_is_recorded(server: MCPServer):
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    @server.tool
    def mute(number: str) -> str:
        raise Mute

    assert error_of(server, "mute").message == "<its text cannot be read: RuntimeError>"


@recording("traceback")
def test_an_error_counts_its_calls_and_knows_the_first_and_the_last(server: MCPServer):
    call(server, "buy")
    first = ErrorGroup.objects.get()
    call(server, "buy", "another")
    again = ErrorGroup.objects.get()

    assert (again.pk, again.calls) == (first.pk, 2)
    assert again.first_seen_at == first.first_seen_at < again.last_seen_at
    assert {tally.width: tally.calls for tally in ErrorTally.objects.all()} == {15: 2, 120: 2}
    # Another place, or another exception, is another error.
    call(server, "told")
    assert ErrorGroup.objects.count() == 2


@recording("traceback")
def test_a_resolved_error_that_comes_again_is_marked(server: MCPServer):
    call(server, "buy")
    assert ErrorGroup.objects.get().state == "open"
    ErrorGroup.objects.update(resolved_at=datetime.now(UTC))
    assert ErrorGroup.objects.get().state == "resolved"

    call(server, "buy")
    assert ErrorGroup.objects.get().state == "again"


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_no_errors_are_recorded_unless_calls_are(server: MCPServer):
    call(server, "buy")

    assert ErrorGroup.objects.count() == 0


def make_errors(*days_ago: float) -> None:
    now = datetime.now(UTC)
    times = [now - timedelta(days=days) for days in days_ago]
    ErrorGroup.objects.bulk_create(
        ErrorGroup(
            fingerprint=key_of(at),
            server="s",
            outcome="fault",
            first_seen_at=seen,
            last_seen_at=seen,
        )
        for at, seen in enumerate(times)
    )


def key_of(at: int) -> str:
    return f"{at:032x}"


@override_settings(DJANGO_MCP={**RECORDING, "CALL_RETENTION_DAYS": 10})
def test_errors_are_deleted_when_their_last_call_is(capsys: pytest.CaptureFixture[str]):
    make_errors(1, 9, 11, 12)
    ErrorTally.objects.create(fingerprint=key_of(0), width=15, minute=0, calls=1)

    call_command("mcp_prune", "--dry-run", skip_checks=True)
    assert "errors: 2 would be deleted" in capsys.readouterr().out
    assert prune_all(*find_prunes(), max_s=60)
    assert sorted(ErrorGroup.objects.values_list("pk", flat=True)) == [key_of(0), key_of(1)]
    assert ErrorTally.objects.count() == 0


@override_settings(DJANGO_MCP={**RECORDING, "CALL_RETENTION_DAYS": None})
def test_the_errors_that_were_seen_longest_ago_make_room():
    make_errors(*range(MAX_GROUPS + 2))

    assert prune_all(*find_prunes(), max_s=60)
    assert ErrorGroup.objects.count() == MAX_GROUPS
    assert not ErrorGroup.objects.filter(pk__in=map(key_of, (MAX_GROUPS, MAX_GROUPS + 1))).exists()


@override_settings(DJANGO_MCP={**RECORDING, "CALL_RETENTION_DAYS": None})
def test_errors_that_a_caller_makes_do_not_displace_the_faults_of_the_site():
    make_errors(*range(MAX_GROUPS))
    now = datetime.now(UTC)
    ErrorGroup.objects.bulk_create(
        ErrorGroup(
            fingerprint=f"refused{at}", outcome="refused", first_seen_at=now, last_seen_at=now
        )
        for at in range(50)
    )

    assert prune_all(*find_prunes(), max_s=60)
    assert ErrorGroup.objects.count() == MAX_GROUPS
    assert not ErrorGroup.objects.filter(outcome="refused").exists()


def test_workers_that_write_the_same_errors_at_once_lose_none(server: MCPServer, databases: str):
    keys = [key_of(at) for at in range(20)]

    def write(seed: int) -> None:
        order = random.Random(seed)
        try:
            for round_ in range(10):
                chosen = order.sample(keys, len(keys))
                insert([make_failed(server, key, 100.0 * seed + round_) for key in chosen])
        finally:
            connections["first"].close()

    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))

        found = ErrorGroup.objects.all()
        assert {error.pk: error.calls for error in found} == dict.fromkeys(keys, 40)
        assert {error.first_seen_at.timestamp() for error in found} == {0.0}
        assert {error.last_seen_at.timestamp() for error in found} == {309.0}
        counted = ErrorTally.objects.filter(width=15).values_list("fingerprint", "calls")
        assert dict(counted) == dict.fromkeys(keys, 40)
    connections["first"].close()


def make_failed(server: MCPServer, key: str, at_s: float) -> RecordedCall:
    failed = Failed(kind="fault", error="shop.Gone", place="shop.buy")
    return make_call(server, "buy", at_s, outcome="fault", fingerprint=key, failed=failed)


@override_settings(USE_TZ=False)
def test_errors_are_recorded_on_sites_without_time_zones(server: MCPServer):
    with recording("traceback"):
        error = error_of(server, "buy")

    assert error.last_seen_at == CallRecord.objects.get().started_at
    assert error.last_seen_at.tzinfo is None


def test_a_task_that_fails_is_an_error(server: MCPServer):
    @server.tool(task="allowed")
    def later(number: str) -> str:
        return look_up(number)

    async def run_task() -> None:
        client = WireClient(server, V2025_11_25)
        await client.open()
        params = {"name": "later", "arguments": {"number": "7"}, "task": {"ttl": 60_000}}
        await client.send("tools/call", params)

        async def is_written() -> bool:
            return bool(written)

        # A thread writes it. SQLite refuses readers of a table in memory that another thread writes.
        await until(is_written)

    written = []

    def receive(**kwargs: object) -> None:
        written.append(kwargs)

    tool_called.connect(receive)
    try:
        with override_settings(
            DJANGO_MCP={"RECORD_CALLS": True, "SESSION_STORE": "memory", "TASK_STORE": "memory"}
        ):
            async_to_sync(run_task)()
    finally:
        tool_called.disconnect(receive)

    error = ErrorGroup.objects.get()
    assert (error.name, error.place) == ("later", f"{__name__}.look_up")
    assert "raise OutOfStock" in error.traceback
