"""Streams and calls end in every process when their user loses access, without any signal.

Two processes share PostgreSQL and Redis. The rights go by a statement in the database, as another
program would write it: no signal is sent, so that what the processes do they do by looking.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from django_mcp.extensions.tasks.core.shapes import EXTENSION
from tests.support import sites
from tests.support.backends import Backends, connect, own_postgres
from tests.support.sessions.client import LIMIT_S, Body, Client, Stream
from tests.support.sessions.cluster import Cluster, serving
from tests.support.site.everywhere.people import CSRF
from tests.support.wire import META, V2026_07_28, headers_for, message

SITE = "tests.support.site.everywhere"
URI = "file://report"
LATE_S = 10.0
"""What is promised are 2 s; a machine that runs other tests may be busy."""


@dataclass(frozen=True, kw_only=True)
class End:
    """One way to lose access.

    Attributes:
        by: which credentials are used.
        sql: takes the rights from the user of a name.
        ends_tasks: they may not act any more, with whichever credentials.
        ends_streams: they are nobody to this site any more.
    """

    by: str
    sql: str
    ends_tasks: bool = True
    ends_streams: bool = True


OF_USER = "(SELECT id FROM auth_user WHERE username = %s)"
ENDS = {
    "user deactivated": End(
        by="key", sql="UPDATE auth_user SET is_active = false WHERE username = %s"
    ),
    "key revoked": End(
        by="key", sql=f"UPDATE django_mcp_apikey SET revoked_at = now() WHERE user_id = {OF_USER}"
    ),
    "key expired": End(
        by="key", sql=f"UPDATE django_mcp_apikey SET expires_at = now() WHERE user_id = {OF_USER}"
    ),
    "token revoked": End(
        by="token", sql=f"DELETE FROM oauth2_provider_accesstoken WHERE user_id = {OF_USER}"
    ),
    "token expired": End(
        by="token",
        sql=f"UPDATE oauth2_provider_accesstoken SET expires = now() WHERE user_id = {OF_USER}",
    ),
    "token of rest framework deleted": End(
        by="drf", sql=f"DELETE FROM authtoken_token WHERE user_id = {OF_USER}", ends_tasks=False
    ),
    "session ended": End(
        by="session",
        sql="DELETE FROM django_session WHERE session_key = %s",
        ends_tasks=False,
    ),
    "password changed": End(
        by="session",
        sql="UPDATE auth_user SET password = 'another' WHERE username = %s",
        ends_tasks=False,
    ),
    "group left": End(
        by="key",
        sql=f"DELETE FROM auth_user_groups WHERE user_id = {OF_USER}",
        ends_streams=False,
    ),
}
NAMES = {name: name.replace(" ", "-") for name in (*ENDS, "somebody else")}


@pytest.fixture(scope="module")
def backends(postgres: tuple[str, int], redis_url: str) -> Iterator[Backends]:
    with own_postgres("everywhere", SITE) as name:
        yield Backends(postgres=name, redis=f"{redis_url}/0 everywhere{os.getpid()}")


@pytest.fixture(scope="module")
def people(backends: Backends) -> Mapping[str, Any]:
    """Everybody's credentials: by name, then by kind."""
    made = subprocess.run(
        [sys.executable, "-m", f"{SITE}.people", *NAMES.values()],
        env=sites.environment(SITE, backends.environment()),
        cwd=sites.ROOT,
        capture_output=True,
        check=True,
    )
    found: Mapping[str, Any] = json.loads(made.stdout)
    return found


@pytest.fixture(scope="module")
def cluster(
    backends: Backends, people: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with serving(backends, tmp_path_factory.mktemp("everywhere"), site=SITE) as cluster:
        yield cluster
    assert "Traceback" not in cluster.logs()


class Known(Client):
    """A client with credentials of any kind, which also speaks 2026-07-28."""

    credentials: Mapping[str, str]

    def headers(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        return {**super().headers(more), **self.proof()}

    def proof(self) -> dict[str, str]:
        """Return the credentials, and what a browser would send with a cookie."""
        if "cookie" not in self.credentials:
            return dict(self.credentials)
        # Cookies are valid for all processes.
        return {
            **self.credentials,
            "host": "localhost",
            "origin": "http://localhost",
            "x-csrftoken": CSRF,
        }

    def modern(self, method: str, params: Mapping[str, Any], *, at: int) -> Any:
        """Yield the stream of the answer to a request without a session."""
        request = message(method, params, revision=V2026_07_28)
        headers = {**headers_for(request, V2026_07_28), **self.proof()}
        return self._stream(at, request, headers)

    @asynccontextmanager
    async def _stream(self, at: int, request: Any, headers: Any) -> AsyncIterator[Stream]:
        url = self.cluster.url(at)
        async with self.http.stream("POST", url, json=request, headers=headers) as response:
            is_stream = response.headers["content-type"] == "text/event-stream"
            if not is_stream:
                await response.aread()
            yield (Stream if is_stream else Body)(response)

    async def answer(self, method: str, params: Mapping[str, Any], *, at: int) -> Any:
        """Return the answer to a request without a session."""
        request = message(method, params, revision=V2026_07_28)
        headers = {**headers_for(request, V2026_07_28), **self.proof()}
        async with self._stream(at, request, headers) as stream:
            return (await stream.rest())[-1]


class Scene:
    """Everything that one principal can have open, in both processes."""

    def __init__(self, client: Known, name: str) -> None:
        self.client, self.name = client, name
        self.streams: list[Stream] = []
        self.works: list[str] = []
        self.task_id = ""
        self._calls: list[asyncio.Future[Any]] = []

    async def open(self, stack: AsyncExitStack) -> None:
        client = self.client
        listen = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [URI]}}
        for at in (0, 1):
            found = client.modern("subscriptions/listen", listen, at=at)
            self.streams.append(await stack.enter_async_context(found))
            acknowledged = await self.streams[-1].message()
            assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == [URI]
        await client.open()
        assert "result" in await client.ask("resources/subscribe", {"uri": URI})
        self.streams.append(await stack.enter_async_context(client.listen(at=1)))
        await self.streams[-1].event()
        for at in (0, 1):
            for tool in ("wait_in_thread", "wait"):
                self._call(tool, at)
        work = self._note("in a session at another process")
        self._calls.append(asyncio.ensure_future(client.call("wait_in_thread", at=1, name=work)))
        work = self._note("as a task")
        params = {"name": "wait_in_thread", "arguments": {"name": work}, "_meta": TASKS}
        answer = await client.answer("tools/call", params, at=0)
        self.task_id = answer["result"]["taskId"]
        for work in self.works:
            await client.cluster.marked(f"{work} runs")

    def _note(self, what: str) -> str:
        self.works.append(f"{self.name} {what}")
        return self.works[-1]

    def _call(self, tool: str, at: int) -> None:
        params = {"name": tool, "arguments": {"name": self._note(f"{tool} {at}")}}
        answer = self.client.answer("tools/call", params, at=at)
        self._calls.append(asyncio.ensure_future(answer))

    async def ended(self, *, with_task: bool, with_streams: bool) -> None:
        """Wait until every stream has ended and every handler was interrupted."""
        cluster = self.client.cluster
        for stream in self.streams if with_streams else ():
            await stream.rest()
        works = self.works if with_task else self.works[:-1]
        await asyncio.gather(*(cluster.marked(f"{work} was interrupted") for work in works))

    async def let_go(self) -> list[Any]:
        """Let all running calls finish, and return the responses."""
        for work in self.works:
            self.client.cluster.mark(f"{work} may go")
        return await asyncio.gather(*self._calls, return_exceptions=True)


TASKS: Mapping[str, Any] = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}


@asynccontextmanager
async def scene(cluster: Cluster, name: str, credentials: Any) -> AsyncIterator[Scene]:
    async with httpx.AsyncClient(timeout=LIMIT_S) as http, AsyncExitStack() as stack:
        client = Known(cluster, http)
        client.credentials = credentials
        found = Scene(client, name)
        await found.open(stack)
        try:
            yield found
        finally:
            await found.let_go()


def status_of(backends: Backends, task_id: str) -> str:
    assert backends.postgres is not None
    with connect(backends.postgres) as connection:
        query = "SELECT status FROM django_mcp_task WHERE secret = %s"
        return str(connection.execute(query, [task_id]).fetchone()[0])  # type: ignore[index]


async def until_status(backends: Backends, task_id: str, status: str) -> None:
    async with asyncio.timeout(LATE_S):
        while status_of(backends, task_id) != status:  # noqa: ASYNC110 - a row tells nobody
            await asyncio.sleep(0.05)


@pytest.mark.services
@pytest.mark.parametrize("how", ENDS)
async def test_lost_rights_end_everything_of_that_principal_in_every_process(
    backends: Backends, cluster: Cluster, people: Mapping[str, Any], how: str
) -> None:
    end, name, other = ENDS[how], NAMES[how], NAMES["somebody else"]
    assert backends.postgres is not None
    theirs = people[name][end.by]
    cookie = theirs.get("cookie", "")
    whose = (
        cookie.partition("sessionid=")[2].partition(";")[0] if "session_key" in end.sql else name
    )
    async with (
        scene(cluster, f"of others, {how}", people[other][end.by]) as stays,
        scene(cluster, name, theirs) as goes,
    ):
        with connect(backends.postgres) as connection:
            connection.execute(end.sql, [whose])
        begun_s = time.monotonic()

        async with asyncio.timeout(LATE_S):
            await goes.ended(with_task=end.ends_tasks, with_streams=end.ends_streams)
        print(f"{how}: all ended after {time.monotonic() - begun_s:.2f} s")
        if end.ends_tasks:
            await until_status(backends, goes.task_id, "cancelled")
        answers = await goes.let_go()
        assert ["Cancelled" in str(each) for each in answers] == [True] * len(answers)
        answers = await stays.let_go()
        assert ["is done" in str(each) for each in answers] == [True] * len(answers)
        await until_status(backends, stays.task_id, "completed")
