"""The site of tests.support.site.tasks: a real Celery worker, and web processes whose tasks it runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.backends import Backends, own_postgres
from tests.support.push.clients import ask
from tests.support.sites import ROOT, Running, environment, running, tail
from tests.support.wire import META, V2026_07_28, message

SITE = "tests.support.site.tasks"
EXTENSION = "io.modelcontextprotocol/tasks"
LIMIT_S = 40.0
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}


@dataclass(frozen=True, kw_only=True)
class Site:
    """A worker, and the environment of a web process that uses it."""

    worker: subprocess.Popen[bytes]
    folder: Path
    extra: dict[str, str]

    @contextmanager
    def web(self) -> Iterator[Running]:
        log = self.folder / f"web-{time.monotonic_ns()}.log"
        with running(SITE, "uvicorn", log=log, extra=self.extra) as web:
            yield web

    def mark(self, name: str) -> Path:
        return self.folder / name

    async def until_marked(self, name: str) -> None:
        await until(lambda: self.mark(name).exists(), name)


async def until(is_so: Any, what: str) -> None:
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < LIMIT_S, f"waited in vain: {what}"
        await asyncio.sleep(0.02)


@contextmanager
def working(folder: Path, redis_url: str, **more: str) -> Iterator[Site]:
    """Run a worker, with a database and a queue of its own, until the block ends."""
    own = f"django-mcp-tests-{os.getpid()}-{folder.name}"
    with own_postgres("celery", SITE) as name:
        shared = Backends(postgres=name, redis=f"{redis_url}/0 {own}")
        extra = {
            **shared.environment(),
            "TASKS_BROKER": f"{redis_url}/0",
            "TASKS_QUEUE": own,
            "TASKS_FOLDER": str(folder),
            **more,
        }
        log = folder / "worker.log"
        with log.open("wb") as output:
            worker = subprocess.Popen(
                [
                    *(sys.executable, "-m", "celery", "-A", f"{SITE}.celery_app", "worker"),
                    *("--concurrency", "2", "--loglevel", "info", "--hostname", f"{own}@%h"),
                    *("--without-gossip", "--without-mingle"),
                ],
                cwd=ROOT,
                env=environment(SITE, extra),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + LIMIT_S
            while b" ready." not in log.read_bytes():
                assert worker.poll() is None, tail(log)
                assert time.monotonic() < deadline, tail(log)
                time.sleep(0.05)
            yield Site(worker=worker, folder=folder, extra=extra)
            # As an operator would: it finishes its tasks, and exits.
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(LIMIT_S) == 0, tail(log)
            assert "Traceback" not in log.read_text()
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


async def request(web: Running, method: str, **params: Any) -> dict[str, Any]:
    """Return the result of a request, whose client has `CAPABILITIES` unless its `_meta` says otherwise."""
    meta = {META + "clientCapabilities": CAPABILITIES}
    answer = await ask(web, message(method, {"_meta": meta, **params}, revision=V2026_07_28))
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.json["result"]
    return result


async def create(web: Running, name: str, /, **arguments: Any) -> str:
    made = await request(web, "tools/call", name=name, arguments=arguments)
    assert (made["resultType"], made["status"]) == ("task", "working")
    return str(made["taskId"])


async def until_it_is(web: Running, task_id: str, status: str) -> dict[str, Any]:
    begun = time.monotonic()
    while True:
        task = await request(web, "tasks/get", taskId=task_id)
        if task["status"] == status:
            return task
        assert task["status"] in ("working", "input_required"), task
        assert time.monotonic() - begun < LIMIT_S, task
        await asyncio.sleep(0.05)
