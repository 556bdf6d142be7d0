"""Several processes that serve one site, each on a port of its own, so that a test picks who answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import sites
from tests.sessions.site import marks

SITE = "tests.sessions.site"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backends:
    """What the processes of a site share.

    Attributes:
        postgres: the name of a database; None: an SQLite file.
        redis: the URL of a Redis and a prefix; None: they have none.
        options: more of `DJANGO_MCP`.
        more: more of the environment.
    """

    postgres: str | None = None
    redis: str | None = None
    options: dict[str, Any] | None = None
    more: dict[str, str] | None = None

    def environment(self, folder: Path) -> dict[str, str]:
        marks_folder = folder / "marks"
        marks_folder.mkdir(exist_ok=True)
        found = {
            "SITE_MARKS": str(marks_folder),
            "SITE_SQLITE": str(folder / "site.sqlite3"),
            "SITE_OPTIONS": json.dumps(self.options or {}),
        }
        if self.postgres is not None:
            found["SITE_POSTGRES"] = self.postgres
        if self.redis is not None:
            found["SITE_REDIS"] = self.redis
        return {**found, **(self.more or {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """The processes, by number."""

    workers: list[sites.Running]
    folder: Path

    def url(self, at: int = 0) -> str:
        return self.workers[at % len(self.workers)].url

    def ports(self) -> list[int]:
        return [worker.port for worker in self.workers]

    def kill(self, at: int) -> None:
        """End a process as a machine's end would: it sees nothing of it."""
        os.killpg(self.workers[at].process.pid, signal.SIGKILL)
        self.workers[at].process.wait()

    def mark(self, name: str) -> None:
        marks.mark(name, self.folder / "marks")

    async def marked(self, name: str) -> None:
        await marks.amarked(name, self.folder / "marks")

    def logs(self) -> str:
        return "\n".join(worker.log.read_text(errors="replace") for worker in self.workers)


@contextmanager
def serving(
    backends: Backends, folder: Path, *, server: str = "uvicorn", count: int = 2
) -> Iterator[Cluster]:
    """Serve the site in so many processes while the block runs."""
    extra = backends.environment(folder)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                sites.running(SITE, server, log=folder / f"worker{number}.log", extra=extra)
            )
            for number in range(count)
        ]
        yield Cluster(workers=workers, folder=folder)


def manage(backends: Backends, folder: Path, *arguments: str) -> str:
    """Run a management command of the site, and return what it prints."""
    environment = sites.environment(SITE, backends.environment(folder))
    command = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=sites.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
