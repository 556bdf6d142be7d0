from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from django.db import OperationalError

from django_mcp.execution.outages import Breaker
from django_mcp.server.ports import NoThread, StoreUnavailable


async def answers(ask: Callable[[], str]) -> str:
    return ask()


async def waits(_ask: Callable[[], str]) -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def hangs(ask: Callable[[], str]) -> str:
    ask()
    return await waits(ask)


async def is_refused(_ask: Callable[[], str]) -> str:
    raise NoThread


async def fails(_ask: Callable[[], str]) -> str:
    raise ZeroDivisionError


async def test_waiting_for_a_thread_is_no_outage_of_the_database() -> None:
    breaker = Breaker("The database", timeout_s=0.001)
    with pytest.raises(StoreUnavailable):
        await breaker.run(str, waits)
    assert await breaker.run(lambda: "found", answers) == "found"


async def test_a_query_without_an_answer_is_an_outage() -> None:
    breaker = Breaker("The database", timeout_s=0.001)
    with pytest.raises(StoreUnavailable):
        await breaker.run(str, hangs)
    with pytest.raises(StoreUnavailable):
        await breaker.run(lambda: "found", answers)


async def test_a_full_pool_of_connections_is_named_and_is_no_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    psycopg_pool = pytest.importorskip("psycopg_pool")

    def get_no_connection() -> str:
        cause = psycopg_pool.PoolTimeout("all are in use")
        raise OperationalError("couldn't get a connection") from cause

    breaker = Breaker("The database")
    with pytest.raises(StoreUnavailable):
        await breaker.run(get_no_connection, answers)

    assert "All connections of the pool of a database were in use" in caplog.text
    assert "does not answer" not in caplog.text
    assert await breaker.run(lambda: "found", answers) == "found"


@pytest.mark.parametrize("probe", [waits, is_refused, fails])
async def test_a_probe_without_an_answer_is_followed_by_another(
    probe: Callable[..., Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.execution.outages.PAUSE_S", 0.0)
    breaker = Breaker("The database", timeout_s=0.001)
    for runner in (hangs, probe):
        with pytest.raises((StoreUnavailable, ZeroDivisionError)):
            await breaker.run(str, runner)
    assert await breaker.run(lambda: "found", answers) == "found"
