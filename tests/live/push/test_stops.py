"""What becomes of streams and of queued writes when a process is to end, on each server."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends, require
from tests.support.push.clients import Listener, listening
from tests.support.sites import Running, running
from tests.support.wire import V2026_07_28, headers_for, message

SITE = "tests.support.site.stopping"
CALLS = 10
LIMIT_S = 60.0
"""Of what takes a second on an idle machine."""


class Site:
    """A site on one server, with a folder in which its tools and the test tell each other something."""

    def __init__(self, process: Running, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.client = httpx.AsyncClient(timeout=LIMIT_S)

    def stop(self) -> None:
        self.process.process.send_signal(signal.SIGTERM)

    async def until_ended(self) -> int:
        return await asyncio.to_thread(self.process.process.wait, LIMIT_S)

    async def until(self, *names: str) -> None:
        """Wait until these files are there."""
        async with asyncio.timeout(LIMIT_S):
            while not all((self.folder / name).exists() for name in names):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool; return its result as structured content."""
        params = {"name": name, "arguments": arguments}
        request = message("tools/call", params, revision=V2026_07_28)
        accept = {"Accept": "application/json", "Connection": "close"}
        headers = {**headers_for(request, V2026_07_28), **accept}
        answer = await self.client.post(self.process.url, json=request, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]["structuredContent"]

    def read(self) -> dict[str, Any]:
        """Return what is in the tables, and what receivers of the signal were told, of the tool `last`."""
        called = self.folder / "called"
        lines = called.read_text().splitlines() if called.exists() else []
        calls = "SELECT outcome FROM django_mcp_callrecord WHERE name = 'last'"
        return {
            "calls": [outcome for (outcome,) in self._select(calls)],
            "workers": self._select("SELECT COUNT(*) FROM django_mcp_worker")[0][0],
            "streams": self._select("SELECT COUNT(*) FROM django_mcp_stream")[0][0],
            "called": [line for line in lines if line.startswith("last ")],
        }

    def _select(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "site.sqlite3")) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the tables of the site."""
    file = tmp_path_factory.mktemp("tables") / "site.sqlite3"
    Backends(sqlite=file).manage(SITE, "migrate", "-v", "0")
    return file


@contextmanager
def serving(
    folder: Path, tables: Path, server: str, *options: str, workers: int = 1
) -> Iterator[Site]:
    file = Path(shutil.copy(tables, folder / "site.sqlite3"))
    extra = Backends(sqlite=file, more={"SITE_FOLDER": str(folder)}).environment()
    log = folder / "log"
    with running(SITE, server, log=log, extra=extra, workers=workers, options=options) as process:
        # Some servers listen before they have loaded the site.
        assert httpx.get(f"{process.url}/health", timeout=LIMIT_S).status_code == 200
        yield Site(process, folder)


async def has_ended_cleanly(listener: Listener) -> bool:
    """Wait for the end of a listening stream; return whether it had its result."""
    result = await listener.next(4 * LIMIT_S)
    return result is not None and result["id"] == "listen"


@pytest.mark.parametrize(
    ("server", "workers"),
    [
        ("uvicorn", 1),
        ("uvicorn", 2),
        ("gunicorn", 2),
        ("granian", 1),
        ("hypercorn", 1),
        ("wsgi", 2),
    ],
)
async def test_calls_that_finish_after_the_signal_are_recorded(
    server: str, workers: int, tables: Path, tmp_path: Path
):
    """Streams end at once, calls when they are done, and nothing of the process is left."""
    if server in ("granian", "hypercorn"):
        require(find_spec(server), f"there is no {server}")
    options = ("--graceful-timeout", "100") if server in ("gunicorn", "hypercorn", "wsgi") else ()
    async with AsyncExitStack() as stack:
        site = stack.enter_context(serving(tmp_path, tables, server, *options, workers=workers))
        listener = None
        if server != "wsgi":
            listener = await stack.enter_async_context(listening(site.process))
        asked = [asyncio.ensure_future(site.call("last", number=each)) for each in range(CALLS)]
        await site.until(*(f"running-{each}" for each in range(CALLS)))
        site.stop()

        assert listener is None or await has_ended_cleanly(listener)
        (tmp_path / "go").touch()
        assert await asyncio.gather(*asked) == list(range(CALLS))
        await site.until_ended()

    assert site.read() == {
        "calls": ["done"] * CALLS,
        "workers": 0,
        "streams": 0,
        "called": ["last done"] * CALLS,
    }


async def test_mcp_serve_records_the_calls_of_its_last_second(tables: Path, tmp_path: Path):
    (tmp_path / "go").touch()
    with serving(tmp_path, tables, "mcp_serve") as site:
        for each in range(CALLS):
            await site.call("last", number=each)
        site.stop()
        await site.until_ended()

    assert site.read()["calls"] == ["done"] * CALLS


async def test_daphne_records_the_calls_that_it_cuts(tables: Path, tmp_path: Path):
    async with AsyncExitStack() as stack:
        site = stack.enter_context(serving(tmp_path, tables, "daphne"))
        listener = await stack.enter_async_context(listening(site.process))
        asked = [asyncio.ensure_future(site.call("last", number=each)) for each in range(CALLS)]
        await site.until(*(f"running-{each}" for each in range(CALLS)))
        site.stop()

        assert await has_ended_cleanly(listener)
        await asyncio.wait(asked)
        (tmp_path / "go").touch()
        await site.until_ended()

    assert site.read() == {
        "calls": ["cancelled"] * CALLS,
        "workers": 0,
        "streams": 0,
        "called": ["last cancelled"] * CALLS,
    }


async def test_a_process_that_is_replaced_leaves_though_a_client_listens(
    tables: Path, tmp_path: Path
):
    limit = ("--limit-max-requests", "40")
    async with AsyncExitStack() as stack:
        site = stack.enter_context(serving(tmp_path, tables, "uvicorn", *limit))
        # `listening` keeps its connection open whatever the server does.
        listener = await stack.enter_async_context(listening(site.process))
        ended = asyncio.ensure_future(has_ended_cleanly(listener))
        calls = 0
        while not ended.done():
            try:
                await site.call("process")
            except httpx.TransportError:
                # No connection is accepted any more.
                break
            calls += 1

        assert await ended
        await site.until_ended()

    assert calls >= 30
    assert site.read()["workers"] == 0


async def test_workers_of_gunicorn_are_replaced_while_many_listen(tables: Path, tmp_path: Path):
    """Each of the streams ends with its result, and calls are answered by one new worker after the other."""
    options = ("--max-requests", "150")
    async with AsyncExitStack() as stack:
        site = stack.enter_context(serving(tmp_path, tables, "gunicorn", *options, workers=2))
        processes: set[int] = set()
        ends: list[bool] = []
        is_over = False

        async def listen() -> None:
            while not is_over:
                async with AsyncExitStack() as own:
                    try:
                        listener = await own.enter_async_context(listening(site.process))
                    except (AssertionError, EOFError, OSError, ValueError):
                        # Closed or refused before the stream was open.
                        await asyncio.sleep(0.05)
                        continue
                    ends.append(await has_ended_cleanly(listener))

        listeners = [asyncio.ensure_future(listen()) for _ in range(40)]
        async with asyncio.timeout(4 * LIMIT_S):
            while len(processes) < 5:
                try:
                    processes.add(await site.call("process"))
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        is_over = True
        site.stop()
        await asyncio.gather(*listeners)

    assert len(ends) >= 80
    assert all(ends)
