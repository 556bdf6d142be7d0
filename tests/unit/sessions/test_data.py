"""`ctx.session` in every store: like a dict, bounded, and shared by all processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import pytest
from django.db import connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_mcp import Context
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import Session as SessionRow
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.exchange.session_data import NoSession
from django_mcp.server.ports import SessionStore
from django_mcp.servers import MCPServer
from django_mcp.sessions.site.closing import close_sessions, expired_sessions, prune_sessions
from django_mcp.sessions.site.data import EngineData
from tests.support.session_sites import Time, site
from tests.support.wire import V2025_11_25, WireClient


async def test_data_is_like_a_dict(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]

    def use() -> None:
        data["a"] = {"deep": ["ü\0", 1.5, None]}
        data.update(b=2, c=3)
        assert data["a"] == {"deep": ["ü\0", 1.5, None]}
        assert sorted(data) == sorted(data.keys()) == ["a", "b", "c"]
        assert "a" in data
        assert "z" not in data
        assert 1 not in data
        assert data.get("z") is None
        assert data.get("b") == 2
        assert data.setdefault("b", 9) == 2
        assert data.setdefault("d", 4) == 4
        assert data.pop("b") == 2
        assert data.pop("b", "gone") == "gone"
        del data["c"]
        assert dict(data.items()) == {"a": {"deep": ["ü\0", 1.5, None]}, "d": 4}
        for missing in (lambda: data["z"], lambda: data.pop("z"), lambda: data.__delitem__("z")):
            with pytest.raises(KeyError):
                missing()
        data.clear()
        assert len(data) == 0

    await run_in_pool(use)


async def test_keys_that_differ_in_case_or_spaces_are_several(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]

    def use() -> None:
        data.update({"key": 1, "Key": 2, "key ": 3, "këy": 4})
        data["KEY"] = 5
        del data["Key"]
        assert dict(data.items()) == {"key": 1, "key ": 3, "këy": 4, "KEY": 5}

    await run_in_pool(use)


async def test_data_is_awaited_by_asynchronous_handlers(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]

    await data.aset("a", 1)
    await data.aupdate({"b": 2}, c=3)

    assert await data.aget("a") == 1
    assert await data.aget("z", "none") == "none"
    assert await data.ahas_key("b")
    assert not await data.ahas_key("z")
    assert await data.asetdefault("b", 9) == 2
    assert await data.apop("c") == 3
    assert await data.apop("c", None) is None
    assert sorted(await data.akeys()) == ["a", "b"]
    assert sorted(await data.avalues()) == [1, 2]
    assert dict(await data.aitems()) == {"a": 1, "b": 2}
    await data.aclear()
    assert dict(await data.aitems()) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [("", 1), ("x" * 201, 1), ("a\0", 1), (1, 1), ("a", object()), ("a", "x" * 65_536)],
)
async def test_data_that_is_not_serializable_is_rejected(
    kind: str, clock: Time, key: Any, value: Any
):
    here = site(kind, clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"key|value"):
        await data.aset(key, value)

    assert dict(await data.aitems()) == {}


async def test_the_number_of_session_keys_is_limited(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]
    await data.aupdate({f"key-{number}": number for number in range(500)})

    with pytest.raises(ValueError, match="at most 500"):
        await data.aset("one-more", 1)

    await data.aset("key-1", "another value")
    assert len(await data.akeys()) == 500


async def test_data_is_deleted_with_its_session(kind: str, clock: Time):
    here = site(kind, clock)
    _, one = await here.open()
    _, other = await here.open()
    await here.store.data(one, None).aset("a", 1)  # type: ignore[arg-type]

    await here.store.end([one.key], Closing.SITE)

    for session in (one, other):
        assert await here.store.data(session, None).aget("a") is None  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["model", "session_engine"])
async def test_a_write_after_the_end_of_a_session_says_so_and_keeps_nothing(
    kind: str, clock: Time, where: str
):
    with override_settings(DJANGO_MCP={"SESSION_DATA": where}):
        here = site(kind, clock)
        _, session = await here.open()
        data = here.store.data(session, None)  # type: ignore[arg-type]
        await data.aset("a", 1)

        await here.store.end([session.key], Closing.SITE)
        session.is_ended = True

        for each in (data, here.store.data(session, None)):  # type: ignore[arg-type]
            with pytest.raises(NoSession, match="has ended"):
                await each.aset("a", 1)
            with pytest.raises(NoSession, match="has ended"):
                await each.asetdefault("b", 2)
            with pytest.raises(NoSession, match="has ended"):
                await each.aupdate(c=3)
            await each.aclear()
            assert await each.aget("b") is None


async def test_concurrent_writers_lose_no_keys(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open()
    found = await there.store.find(token)
    assert found is not None

    async def write(store: SessionStore, of: Session, name: str) -> None:
        for number in range(20):
            await store.data(of, None).aset(f"{name}-{number}", number)  # type: ignore[arg-type]

    await asyncio.gather(
        write(here.store, session, "a"),
        write(there.store, found, "b"),
        write(here.store, session, "c"),
    )

    assert len(await here.store.data(session, None).akeys()) == 60  # type: ignore[arg-type]


async def test_concurrent_pops_return_a_key_once(clock: Time):
    here = site("database", clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]
    await data.aset("ticket", 1)

    taken = await asyncio.gather(*(data.apop("ticket", None) for _ in range(8)))

    assert sorted(map(str, taken)) == ["1"] + ["None"] * 7


async def test_data_raises_where_it_would_block_the_event_loop(clock: Time):
    here = site("database", clock)
    _, session = await here.open()
    data = here.store.data(session, None)  # type: ignore[arg-type]

    for use in (lambda: data["a"], lambda: data.update(a=1), lambda: list(data), data.clear):
        with pytest.raises(RuntimeError, match=r"ctx\.session\.aget"):
            use()


@pytest.mark.parametrize("engine", ["db", "cached_db", "file", "cache"])
async def test_data_can_be_stored_in_django_sessions(clock: Time, engine: str, tmp_path: Any):
    from django.contrib.sessions.models import Session as Own

    options: AbstractContextManager[Any] = override_settings(
        SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}",
        SESSION_FILE_PATH=str(tmp_path),
        DJANGO_MCP={"SESSION_DATA": "session_engine"},
    )
    with options, nullcontext():
        here = site("database", clock)
        _, session = await here.open()
        data = here.store.data(session, None)  # type: ignore[arg-type]
        assert isinstance(data, EngineData)
        assert await data.aget("a") is None
        await data.aset("a", [1])
        await data.aupdate(b=2)
        assert await data.asetdefault("b", 9) == 2

        assert dict(await data.aitems()) == {"a": [1], "b": 2}
        assert await data.apop("a") == [1]
        if engine == "db":
            keys = await run_in_pool(lambda: list(Own.objects.values_list("pk", flat=True)))
            assert len(keys) == 1
            assert session.key not in keys[0]
        await here.store.end([session.key], Closing.SITE)
        assert dict(await data.aitems()) == {}


@pytest.mark.parametrize("way", ["client", "evicted", "expired", "deleted"])
async def test_no_django_session_outlives_its_session(clock: Time, way: str):
    """Else a caller who opens sessions again and again could fill the table."""
    from django.contrib.sessions.models import Session as Own

    with override_settings(DJANGO_MCP={"SESSION_DATA": "session_engine"}):
        here = site("database", clock, max_sessions_per_principal=1, session_idle_s=100)
        _, session = await here.open()
        await here.store.data(session, None).aset("a", 1)  # type: ignore[arg-type]
        assert await run_in_pool(Own.objects.count) == 1

        match way:
            case "client":
                await here.store.end([session.key], Closing.CLIENT)
            case "evicted":
                await here.open()
            case "expired":
                rows = expired_sessions(clock.now_s + 1000, 100)
                assert await run_in_pool(partial(prune_sessions, rows)) == 1
            case "deleted":
                await run_in_pool(SessionRow.objects.filter(pk=session.key).delete)

        assert await run_in_pool(Own.objects.count) == 0


class Lagging:
    """Routes reads to a replica that shows no row of this test, as one that lags does."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "second"

    def db_for_write(self, *_args: Any, **_hints: Any) -> str:
        return "first"


@pytest.mark.parametrize("engine", ["db", "cached_db"])
@pytest.mark.parametrize("way", ["ended", "deleted", "cleared"])
async def test_a_replica_that_lags_keeps_no_data_of_an_ended_session(
    clock: Time, engine: str, way: str
):
    from django.contrib.sessions.models import Session as Own

    options = override_settings(
        SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}",
        DATABASE_ROUTERS=[Lagging()],
        DJANGO_MCP={"SESSION_DATA": "session_engine"},
    )
    with cast(AbstractContextManager[Any], options):
        here = site("database", clock)
        _, session = await here.open()
        data = here.store.data(session, None)  # type: ignore[arg-type]
        await data.aset("a", 1)
        assert await run_in_pool(Own.objects.using("first").count) == 1

        match way:
            case "ended":
                await here.store.end([session.key], Closing.CLIENT)
            case "deleted":
                await run_in_pool(SessionRow.objects.filter(pk=session.key).delete)
            case "cleared":
                await data.aclear()

        assert await run_in_pool(Own.objects.using("first").count) == 0


async def test_the_data_of_many_sessions_is_deleted_with_one_query(clock: Time):
    with override_settings(DJANGO_MCP={"SESSION_DATA": "session_engine"}):
        here = site("database", clock, session_idle_s=100)
        for _ in range(3):
            _, session = await here.open()
            await here.store.data(session, None).aset("a", 1)  # type: ignore[arg-type]

        def prune() -> list[str]:
            with CaptureQueriesContext(connections["first"]) as queries:
                assert prune_sessions(expired_sessions(clock.now_s + 1000, 100)) == 3
            return [each["sql"] for each in queries if "django_session" in each["sql"]]

        assert len(await run_in_pool(prune)) == 1


async def test_a_write_that_commits_after_the_end_of_its_session_keeps_nothing(
    clock: Time, databases: str
):
    from django.contrib.sessions.models import Session as Own

    if databases != "postgresql":
        pytest.skip("the end of the session would wait for this write")
    with override_settings(DJANGO_MCP={"SESSION_DATA": "session_engine"}):
        here = site("database", clock)
        _, session = await here.open()
        data = here.store.data(session, None)  # type: ignore[arg-type]

        def write() -> None:
            with ThreadPoolExecutor(1) as other, transaction.atomic(using="first"):
                data["a"] = 1
                other.submit(end).result()

        def end() -> None:
            close_sessions([session.key], Closing.SITE)
            connections.close_all()

        await run_in_pool(write)

        assert await run_in_pool(Own.objects.count) == 0


async def test_a_tool_that_writes_after_the_end_of_its_session_fails_in_band(
    caplog: pytest.LogCaptureFixture,
):
    server = MCPServer("ending", public=True)

    @server.tool
    def keep(ctx: Context) -> str:
        # As another process does, of whose message this one has not heard yet.
        rows = SessionRow.objects.filter(pk=str(ctx.session_key))
        rows._raw_delete(rows.db)
        ctx.session["a"] = 1
        return "kept"

    result = await WireClient(server, V2025_11_25).result("tools/call", {"name": "keep"})

    assert result["isError"]
    assert "session has ended" in result["content"][0]["text"]
    assert "failed, reference" not in caplog.text


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
async def test_a_commit_after_the_end_of_the_session_fails_as_a_write_after_it(
    caplog: pytest.LogCaptureFixture,
):
    server = MCPServer("ending", public=True, atomic="first")

    def end_elsewhere(key: str) -> None:
        # As another process does, of whose message this one has not heard yet.
        rows = SessionRow.objects.filter(pk=key)
        rows._raw_delete(rows.db)
        connections["first"].close()

    @server.tool
    def keep(ctx: Context) -> str:
        ctx.session["a"] = 1
        with ThreadPoolExecutor(1) as other:
            other.submit(end_elsewhere, str(ctx.session_key)).result()
        return "kept"

    result = await WireClient(server, V2025_11_25).result("tools/call", {"name": "keep"})

    assert result["isError"]
    assert "session has ended" in result["content"][0]["text"]
    assert "failed, reference" not in caplog.text
