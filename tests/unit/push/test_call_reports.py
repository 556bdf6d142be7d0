"""What a process reports of the calls that run for long, and how operators cancel one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer
from django_mcp.auth.principal import Principal
from django_mcp.execution.workers import worker_id, worker_lease
from django_mcp.models import Worker
from django_mcp.push import call_reports
from django_mcp.push.call_reports import cancel_calls, report_calls
from django_mcp.push.process_hub import process_hub
from django_mcp.push.stream_rows import count_requests
from django_mcp.push.upkeep import check_all
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.digests import digest_of
from tests.support.held import LIMIT_S, Holder
from tests.support.server.tasks import Modern, until
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report each call."""
    monkeypatch.setattr(call_reports, "LONG_S", 0.0)


@pytest.fixture
def few_threads() -> Iterator[None]:
    few = {"SYNC_THREADS": 2, "TASK_THREADS": 1, "SESSION_STORE": "memory", "TASK_STORE": "memory"}
    with override_settings(DJANGO_MCP=few):
        yield


def reported() -> list[dict[str, Any]]:
    return report_calls(process_hub())[0]


def states() -> list[tuple[str, bool]]:
    return [(call["state"], call["has_thread"]) for call in reported()]


class Waiter:
    """A server with an asynchronous tool that runs until it is let go."""

    def __init__(self, name: str, **options: Any) -> None:
        self.server = MCPServer(name, **options)
        self.may_go = asyncio.Event()
        self.begun = asyncio.Semaphore(0)

        @self.server.tool
        async def wait() -> str:
            self.begun.release()
            await self.may_go.wait()
            return "done"

    @asynccontextmanager
    async def waiting(self, client: WireClient) -> AsyncIterator[asyncio.Task[Any]]:
        """Have the tool run for a client while the block runs."""
        call = asyncio.create_task(client.send("tools/call", {"name": "wait", "arguments": {}}))
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.begun.acquire()
            yield call
        finally:
            self.may_go.set()
            await call


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_a_report_tells_who_runs_what_and_whether_it_has_a_thread():
    holder = Holder("reported")
    before_s = time.time()
    async with holder.holding(2):
        waiting = asyncio.create_task(holder.client("bob").call("hold"))

        async def are_there() -> bool:
            return len(reported()) == 3

        await until(are_there)
        assert states() == [("running", True), ("running", True), ("queued", False)]
        call = reported()[0]
        first = [each["id"] for each in reported()]
        assert [each["id"] for each in reported()] == first
    await waiting

    assert len(set(first)) == 3
    assert {name: call[name] for name in ("method", "name", "server", "principal", "revision")} == {
        "method": "tools/call",
        "name": "hold",
        "server": "reported",
        "principal": "ann",
        "revision": V2026_07_28.name,
    }
    assert before_s - 1 <= call["since"] <= time.time() + 1

    async def are_over() -> bool:
        return not reported()

    # The calls are answered a moment before their threads are free.
    await until(are_over)


@pytest.mark.usefixtures("few_threads")
async def test_a_report_tells_since_when_no_thread_came_free(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_mcp.execution.pool.EXHAUSTED_AFTER_S", 0.0)
    holder = Holder("exhausted")

    def since() -> Any:
        found = count_requests(process_hub())
        assert found is not None
        return found["exhausted"]

    before_s = time.time()
    async with holder.holding(2):
        # All are busy, but no call waits.
        assert since() is None
        waiting = asyncio.create_task(holder.client("bob").call("hold"))

        async def is_told() -> bool:
            return since() is not None

        await until(is_told)
        assert before_s - 1 <= since() <= time.time() + 1
    await waiting


@pytest.mark.usefixtures("few_threads")
async def test_calls_that_have_just_begun_are_not_reported():
    holder = Holder("young")
    async with holder.holding(2):
        assert len(list(process_hub().calls)) == 2
        assert report_calls(process_hub()) == ([], 0)
        assert {call.public_id for call in process_hub().calls} == {""}


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_the_longest_calls_are_reported_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(call_reports, "MAX_LONG", 2)
    waiter = Waiter("many")
    clients = [WireClient(waiter.server, V2026_07_28) for _ in range(3)]
    async with (
        waiter.waiting(clients[0]),
        waiter.waiting(clients[1]),
        waiter.waiting(clients[2]),
    ):
        begun = sorted(call.started_s for call in process_hub().calls)
        calls, count = report_calls(process_hub())
        shown = {call["id"] for call in calls}

        assert (len(calls), count) == (2, 3)
        assert {c.started_s for c in process_hub().calls if c.public_id in shown} == {*begun[:2]}


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_names_of_clients_are_cut_in_a_report():
    waiter = Waiter("cut")
    client = WireClient(waiter.server, V2026_07_28, principal=Principal(key="p" * 4000 + "\u202e"))
    async with waiter.waiting(client):
        (call,) = reported()

    assert max(len(str(value)) for value in call.values()) <= 200


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_a_call_that_waits_for_the_answer_of_a_client_is_told_apart():
    server = MCPServer("asking", atomic=False)

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("Sure?", {"type": "object", "properties": {}}).action)

    client = WireClient(server, V2025_11_25)
    await client.open({"elicitation": {}})
    call = asyncio.create_task(client.send("tools/call", {"name": "ask", "arguments": {}}))

    async def waits() -> bool:
        return states() == [("waiting", False)]

    await until(waits)
    await server.aclose_session(reported()[0]["session"])
    assert (await call)[1]["error"]["message"] == "Cancelled"


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_a_handler_that_outlives_its_call_is_told_apart():
    holder = Holder("outliving", call_timeout_s=0.05)
    try:
        await holder.client().call("hold")

        assert states() == [("left", True)]
    finally:
        holder.let_go()


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_the_run_of_a_task_is_reported_by_the_key_of_the_task():
    holder = Holder("tasks")
    holder.server.tool(name="long", task="required")(holder.hold)
    client = Modern(holder.server)
    key = await client.create("long")
    try:

        async def runs() -> bool:
            return states() == [("running", True)]

        await until(runs)
        assert reported()[0]["task"] == digest_of(key)
        assert report_calls(process_hub())[1] == 0
    finally:
        holder.let_go()
        await client.until(key, "completed")


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_a_cancelled_synchronous_call_is_answered_while_its_handler_runs_on():
    holder = Holder("cancelled")
    client = holder.client()
    call = asyncio.create_task(client.send("tools/call", {"name": "hold", "arguments": {}}))

    async def runs() -> bool:
        return states() == [("running", True)]

    async def is_over() -> bool:
        return not reported()

    try:
        await until(runs)
        cancel_calls(process_hub(), [reported()[0]["id"]])
        _status, body = await call

        assert body["error"]["message"] == "Cancelled"
        assert states() == [("left", True)]
    finally:
        holder.let_go()
        await until(is_over)


@pytest.mark.usefixtures("at_once", "few_threads")
async def test_a_queued_call_is_cancelled_before_its_handler_begins():
    holder = Holder("queued")
    begun: list[str] = []

    @holder.server.tool
    def late() -> None:
        begun.append("late")

    async with holder.holding(2):
        client = holder.client("bob")
        call = asyncio.create_task(client.send("tools/call", {"name": "late", "arguments": {}}))

        async def is_queued() -> bool:
            return states()[2:] == [("queued", False)]

        await until(is_queued)
        cancel_calls(process_hub(), [reported()[2]["id"]])
        _status, body = await call

        assert body["error"]["message"] == "Cancelled"
    assert begun == []


# -- in the table


@pytest.fixture
def stored() -> Iterator[None]:
    # One thread, since one database in memory locks its tables against another.
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model", "SYNC_THREADS": 0}):
        yield


async def row() -> Worker:
    return await Worker.objects.aget(pk=worker_id())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("at_once", "stored")
@pytest.mark.parametrize("principal", [None, "ann"])
async def test_an_operator_cancels_a_call_by_the_row_of_its_worker(principal: str | None):
    waiter = Waiter("cancelled", public=True)
    caller = Principal(key=principal) if principal else ANONYMOUS
    first, second = (WireClient(waiter.server, V2026_07_28, principal=caller) for _ in range(2))
    async with waiter.waiting(first) as cancelled, waiter.waiting(second) as kept:
        await check_all(process_hub())
        calls = (await row()).in_flight["long"]
        await Worker.objects.filter(pk=worker_id()).aupdate(
            cancelled=[calls[0]["id"], "unknown", None]
        )
        await check_all(process_hub())

        status, body = await cancelled
        assert (status, body["error"]["message"]) == (200, "Cancelled")
        assert not kept.done()
        assert (await row()).cancelled is None
    await check_all(process_hub())

    assert (await kept)[1]["result"]["content"][0]["text"] == "done"
    assert (await row()).in_flight is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("at_once", "stored")
async def test_the_lease_is_renewed_while_the_same_calls_run():
    waiter = Waiter("steady", public=True)
    async with waiter.waiting(WireClient(waiter.server, V2026_07_28)):
        await check_all(process_hub())
        ended_at = timezone.now() - timedelta(seconds=1)
        await Worker.objects.filter(pk=worker_id()).aupdate(lease_until=ended_at)
        worker_lease._next_renewal_s = 0.0
        await check_all(process_hub())

        assert (await row()).lease_until > timezone.now()
