"""Changes in one process notify clients of another, with and without Redis."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.backends import is_answering, require
from tests.support.push.clients import (
    Listener,
    ask,
    call,
    listening,
    open_session,
    receive_within,
    standalone,
)
from tests.support.sites import ROOT, Running, environment, free_port, running

SITE = "tests.support.site.push"
LAYERS = {
    "pubsub": "channels_redis.pubsub.RedisPubSubChannelLayer",
    "core": "channels_redis.core.RedisChannelLayer",
}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@dataclass(frozen=True, kw_only=True)
class Site:
    """Two processes of one site, and the environment that further processes need."""

    first: Running
    second: Running
    extra: dict[str, str]
    redis: PrivateRedis | None = None

    async def run(self, *arguments: str, script: str = "publish") -> str:
        """Announce a change from a third process; return what it printed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{SITE}.{script}",
            *arguments,
            cwd=ROOT,
            env=environment(SITE, self.extra),
            stdout=subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        return out.decode().strip()

    async def tell(self, script: str, *arguments: str) -> Any:
        """Return what a script in a third process printed as JSON."""
        return json.loads(await self.run(*arguments, script=script))


class PrivateRedis:
    """A separate Redis, which may be stopped."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        self._process = subprocess.Popen(
            [
                program,
                "--port",
                str(self.port),
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                str(self._folder),
            ],
            stdout=subprocess.DEVNULL,
        )
        while not is_answering("127.0.0.1", self.port):
            assert self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    async def is_quiet(self) -> None:
        """Wait until no message is on its way.

        channels_redis.core removes a message that it received in a task that nobody waits for: if Redis stops
        before that, asyncio logs the task's traceback.
        """
        async with Redis.from_url(self.url) as client, asyncio.timeout(60):
            while True:
                if all([b":group:" in key async for key in client.scan_iter()]):
                    return
                await asyncio.sleep(0.05)


@contextmanager
def two_processes(folder: Path, **extra: str) -> Iterator[tuple[Running, Running, dict[str, str]]]:
    extra["TEST_DATABASE_FILE"] = str(folder / "site.sqlite3")
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "-v", "0"],
        cwd=ROOT,
        env=environment(SITE, extra),
        check=True,
    )
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(SITE, "uvicorn", log=folder / f"{name}.log", extra=extra))
            for name in ("first", "second")
        )
        yield first, second, extra


@pytest.fixture(scope="module", params=["database", "pubsub", "core"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("push")
    if request.param == "database":
        with two_processes(folder) as (first, second, extra):
            yield Site(first=first, second=second, extra=extra)
        return
    require(shutil.which("redis-server"), "there is no redis-server to start")
    redis = PrivateRedis(folder)
    redis.start()
    try:
        layer = LAYERS[request.param]
        with two_processes(folder, TEST_REDIS_URL=redis.url, TEST_LAYER=layer) as (
            first,
            second,
            extra,
        ):
            yield Site(first=first, second=second, extra=extra, redis=redis)
    finally:
        redis.stop()


@pytest.mark.parametrize("tool", ["change", "achange"])
async def test_a_change_notifies_clients_of_both_processes(site: Site, tool: str):
    uri = f"stock://{tool}"
    async with listening(site.first, uri) as near, listening(site.second, uri) as far:
        result = await call(site.first, tool, uri=uri)

        assert result["structuredContent"] == 1
        for listener in (near, far):
            found = await listener.until("notifications/resources/updated")
            assert found["params"]["uri"] == uri


async def test_a_command_reaches_listeners_after_its_commit(site: Site):
    async with (
        listening(site.first, "stock://cmd") as one,
        listening(site.second, "stock://cmd") as other,
    ):
        assert await site.run("stock://cmd", "now") == "None"
        await one.until("notifications/resources/updated")
        await other.until("notifications/resources/updated")
        assert await site.run("stock://cmd", "commit") == "None"
        await one.until("notifications/resources/updated")
        await other.until("notifications/resources/updated")


async def test_a_rolled_back_change_sends_no_notification(site: Site):
    """What comes after it is: so it was not merely late."""
    uris = ("stock://undone", "stock://done")
    async with listening(site.first, *uris) as near, listening(site.second, *uris) as far:
        assert (await call(site.first, "change_and_fail", uri="stock://undone"))["isError"]
        assert await site.run("stock://undone", "rollback") == "None"
        await call(site.first, "change", uri="stock://done")

        for listener in (near, far):
            found = await listener.until("notifications/resources/updated")
            assert found["params"]["uri"] == "stock://done"


async def test_a_tool_added_at_run_time_sends_list_changed(site: Site):
    async with listening(site.first) as near, listening(site.second) as far:
        name = f"added_{site.first.port}"
        await call(site.first, "add_tool", name=name)

        await near.until("notifications/tools/list_changed")
        await far.until("notifications/tools/list_changed")


async def test_a_custom_notification_reaches_a_session_once(site: Site):
    """One copy, although two streams of the session are open."""
    session = await open_session(site.first)
    async with standalone(site.first, session) as older, standalone(site.first, session) as newer:
        await call(site.second, "shout", text="one")
        await call(site.second, "shout", text="two")

        heard = [await newer.until("notifications/shouted") for _ in range(2)]
        assert [each["params"]["text"] for each in heard] == ["one", "two"]
        with pytest.raises(TimeoutError):
            await older.next(0.5)


async def key_of(site: Site) -> str:
    """Return the key of the only session that has a stream, once all processes know of that."""
    async with asyncio.timeout(10):
        while True:
            # One of the previous test may still be recorded.
            at_first, at_second = [
                (await call(each, "sessions"))["structuredContent"]
                for each in (site.first, site.second)
            ]
            if at_first == at_second and len(at_first) == 1:
                return str(at_first[0])
            await asyncio.sleep(0.1)


async def streams_of(site: Site, count: int) -> dict[str, tuple[str, int]]:
    """Return the name of each stream, and its subscriptions by kind, as a command sees them."""
    async with asyncio.timeout(40):
        while True:
            found = await site.tell("reach", "streams")
            if len(found) == count:
                return {kind: (name, uris) for name, kind, uris in found}
            await asyncio.sleep(0.1)


async def test_only_one_of_two_streams_in_two_processes_is_notified(site: Site):
    """The newer one; and the older one again, when that is gone."""
    session = await open_session(site.first)
    async with standalone(site.first, session) as older:
        async with standalone(site.second, session) as newer:
            await tell_until(site, newer, "newer")
            with pytest.raises(TimeoutError):
                # Messages sent before the first process knew of the other stream have been delivered by now.
                while True:
                    found = await older.next(1.5)
                    assert found is not None
            await call(site.first, "shout", text="once")
            while (await newer.until("notifications/shouted"))["params"]["text"] != "once":
                pass
            with pytest.raises(TimeoutError):
                await older.next(1.5)
        await tell_until(site, older, "older")


async def tell_until(site: Site, listener: Listener, text: str) -> None:
    """Notify sessions repeatedly until a listener receives it."""
    for _ in range(30):
        await call(site.first, "shout", text=text)
        try:
            await listener.until("notifications/shouted", 0.4)
        except TimeoutError:
            continue
        return
    pytest.fail("nothing was received")


async def test_a_client_can_be_pinged_from_any_process(site: Site):
    session = await open_session(site.first)
    async with standalone(site.first, session) as stream:
        key = await key_of(site)
        pinging = asyncio.create_task(call(site.second, "ping", session=key))
        asked = await stream.until("ping")
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
        taken = await ask(site.first, answer, **{"mcp-session-id": session})

        assert taken.status == 202
        assert (await pinging)["structuredContent"] > 0


async def test_a_session_ended_elsewhere_loses_its_stream(site: Site):
    session = await open_session(site.first)
    async with standalone(site.first, session) as stream:
        key = await key_of(site)
        assert (await call(site.second, "end", session=key))["structuredContent"] is True

        assert await stream.next() is None


@pytest.mark.parametrize("at", [0, 1])
async def test_a_thread_can_list_and_reach_clients_of_all_processes(site: Site, at: int) -> None:
    """In the process with the stream, and in another."""
    asked = (site.first, site.second)[at]
    session = await open_session(site.first)
    async with standalone(site.first, session) as stream:
        key = await key_of(site)
        assert (await call(asked, "sessions_from_a_thread"))["structuredContent"] == [key]
        pinging = asyncio.create_task(call(asked, "ping_from_a_thread", session=key))
        await answer_ping(site.first, stream, session)
        assert (await pinging)["structuredContent"] > 0
        assert (await call(asked, "end_from_a_thread", session=key))["structuredContent"] is True

        assert await stream.next() is None


@pytest.mark.parametrize("how", ["end", "end on a loop"])
async def test_a_command_can_list_and_reach_clients_of_all_processes(site: Site, how: str) -> None:
    session = await open_session(site.second)
    async with (
        standalone(site.second, session) as stream,
        listening(site.first, "stock://reach", "stock://more") as listener,
    ):
        key = await key_of(site)
        assert await site.tell("reach", "sessions") == [key]
        kinds = await streams_of(site, 2)
        assert kinds["listen"][1] == 2
        assert await site.tell("reach", "is_subscribed", "stock://more") is True
        assert await site.tell("reach", "is_subscribed", "stock://mor") is False
        pinging = asyncio.create_task(site.tell("reach", "ping", key))
        await answer_ping(site.first, stream, session)
        assert (await pinging) > 0
        assert await site.tell("reach", "close", kinds["listen"][0]) == "closed"
        assert (await listener.next() or {}).get("id") == "listen"
        assert await site.tell("reach", how, key) is True

        assert await stream.next() is None


async def answer_ping(at: Running, stream: Listener, session: str) -> None:
    # A process may have to start first.
    asked = await stream.until("ping", 40)
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
    assert (await ask(at, answer, **{"mcp-session-id": session})).status == 202


async def test_a_stream_is_recorded_and_can_be_closed_from_elsewhere(site: Site):
    before = set((await call(site.first, "rows"))["structuredContent"])
    async with listening(site.first, "stock://row") as stream:
        rows = await until_rows(site, lambda rows: rows - before)
        (name,) = rows - before
        await call(site.second, "close", stream=name)

        assert (await stream.next() or {}).get("id") == "listen"
        await until_rows(site, lambda rows: name not in rows)


async def test_deleting_a_stream_row_closes_the_stream_without_a_message(site: Site):
    """In its own process, which polls for it; other streams of that process stay open."""
    before = set((await call(site.first, "rows"))["structuredContent"])
    async with listening(site.first, "stock://kept") as kept:
        rows = await until_rows(site, lambda rows: rows - before)
        async with listening(site.first, "stock://lost") as lost:
            (name,) = await until_rows(site, lambda found: found - rows) - rows
            await call(site.second, "forget", stream=name)

            assert (await lost.next() or {}).get("id") == "listen"
        await call(site.second, "change", uri="stock://kept")
        await kept.until("notifications/resources/updated")


async def test_streams_of_a_deleted_process_row_are_recorded_again(site: Site):
    before = set((await call(site.first, "rows"))["structuredContent"])
    async with listening(site.first, "stock://again") as stream:
        (name,) = await until_rows(site, lambda rows: rows - before) - before
        assert (await call(site.second, "forget_process", stream=name))["structuredContent"] >= 2
        await until_rows(site, lambda rows: name in rows)
        await call(site.second, "change", uri="stock://again")

        await stream.until("notifications/resources/updated")


async def until_rows(site: Site, holds: Callable[[set[str]], object]) -> set[str]:
    async with asyncio.timeout(10):
        while True:
            rows = set((await call(site.second, "rows"))["structuredContent"])
            if holds(rows):
                return rows
            await asyncio.sleep(0.1)


async def test_push_recovers_after_a_redis_restart(site: Site):
    if site.redis is None:
        pytest.skip("there is no Redis")
    async with listening(site.second, "stock://redis") as listener:

        async def tell() -> None:
            await call(site.first, "change", uri="stock://redis")

        await receive_within(listener, tell, 5)
        site.redis.stop()
        await tell()
        site.redis.start()

        await receive_within(listener, tell, 5)


async def test_an_outage_of_redis_is_logged_in_lines_and_not_in_tracebacks(site: Site):
    if site.redis is None:
        pytest.skip("there is no Redis")
    logs = [process.log for process in (site.first, site.second)]
    earlier = [len(log.read_text()) for log in logs]

    async def logged(text: str) -> list[str]:
        async with asyncio.timeout(120):
            while True:
                found = [log.read_text()[at:] for log, at in zip(logs, earlier, strict=True)]
                if all(text in each for each in found):
                    return found
                await asyncio.sleep(0.1)

    async with listening(site.first, "stock://x"), listening(site.second, "stock://x"):
        await site.redis.is_quiet()
        site.redis.stop()
        await logged("Could not reach the other processes by the channel layer of CHANNEL_LAYERS, ")
        site.redis.start()
        found = await logged(": over, after ")

    for each in found:
        lines = each.splitlines()
        assert "Traceback (most recent call last):" not in lines
        assert len([line for line in lines if line.startswith("Could not reach")]) == 2


@pytest.mark.parametrize("action", ["revoke", "deactivate", "deactivate aloud"])
async def test_streams_end_in_both_processes_when_a_user_loses_access(site: Site, action: str):
    name, other = f"ann {action}", f"bob {action}"
    anns = await site.run("issue", name, script="people")
    bobs = await site.run("issue", other, script="people")
    async with (
        listening(site.first, authorization=f"Bearer {anns}") as near,
        listening(site.second, authorization=f"Bearer {anns}") as far,
        listening(site.second, authorization=f"Bearer {bobs}") as stays,
    ):
        await site.run(action, name, script="people")

        # The first may be the response to its request.
        for listener in (near, far):
            while (found := await listener.next()) is not None:
                # A user who lost permissions receives list changes and nothing else.
                assert found.get("method") in (None, "notifications/tools/list_changed")
        await call(site.second, "add_tool", name=f"after_{action}".replace(" ", "_"))
        await stays.until("notifications/tools/list_changed")


async def test_a_permission_granted_elsewhere_notifies_the_affected_users(site: Site):
    anns = await site.run("issue", "granted", script="people")
    async with (
        listening(site.first, authorization=f"Bearer {anns}") as near,
        listening(site.second, authorization=f"Bearer {anns}") as far,
        listening(site.second, "stock://after") as nobody,
    ):
        await site.run("grant", "granted", script="people")

        await near.until("notifications/tools/list_changed")
        await far.until("notifications/tools/list_changed")
        await call(site.first, "change", uri="stock://after")
        found = await nobody.next()
        assert found is not None
        assert found["method"] == "notifications/resources/updated"
