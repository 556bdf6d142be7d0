"""Several processes that serve one site on separate ports, so that a test picks the process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import sites
from tests.support.backends import Backends
from tests.support.site.sessions import marks

SITE = "tests.support.site.sessions"


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
        """Kill a process without notice."""
        os.killpg(self.workers[at].process.pid, signal.SIGKILL)
        self.workers[at].process.wait()

    def mark(self, name: str) -> None:
        marks.mark(name, self.folder / "marks")

    async def marked(self, name: str) -> None:
        await marks.amarked(name, self.folder / "marks")

    def logs(self) -> str:
        return "\n".join(worker.log.read_text(errors="replace") for worker in self.workers)


def environment(backends: Backends, folder: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a process of the site, with a folder for marks."""
    marks_folder = folder / "marks"
    marks_folder.mkdir(exist_ok=True)
    return {
        **backends.environment(),
        "SITE_MARKS": str(marks_folder),
        "SITE_OPTIONS": json.dumps(options),
    }


@contextmanager
def serving(
    backends: Backends,
    folder: Path,
    *,
    site: str = SITE,
    server: str = "uvicorn",
    count: int = 2,
    **options: Any,
) -> Iterator[Cluster]:
    """Serve a site in so many processes while the block runs; `options` are of `DJANGO_MCP`."""
    extra = environment(backends, folder, options)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                sites.running(site, server, log=folder / f"worker{number}.log", extra=extra)
            )
            for number in range(count)
        ]
        yield Cluster(workers=workers, folder=folder)
