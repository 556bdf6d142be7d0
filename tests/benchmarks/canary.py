"""Look for secrets of one user in all that another is sent: many clients, two users, several processes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.support import backends
from tests.support.sessions import canary
from tests.support.sessions.cluster import SITE, serving


def run(server: str, *, workers: int, clients: int, rounds: int, steps: int) -> int:
    """Return how many messages reached the wrong client, after printing the counts."""
    if missing := backends.missing_services():
        raise RuntimeError(f"several processes need a database and a layer: {'; '.join(missing)}")
    host, port = backends.redis_address()
    with (
        backends.own_postgres("canary", SITE) as name,
        tempfile.TemporaryDirectory(prefix="canary-") as folder,
    ):
        shared = backends.Backends(postgres=name, redis=f"redis://{host}:{port}/0 {name}")
        with serving(
            shared, Path(folder), server=server, count=workers, PROGRESS_RATE=0
        ) as cluster:
            begun_s = time.monotonic()
            found = asyncio.run(canary.run(cluster, clients=clients, rounds=rounds, steps=steps))
            took_s = time.monotonic() - begun_s
    print(
        f"{clients} clients of two users on {workers} processes of {server}: {found.messages} "
        f"messages in {took_s:.0f} s, {found.pushed} of them pushed; {len(found.strays)} astray"
    )
    for stray in found.strays[:20]:
        print(stray, file=sys.stderr)
    return len(found.strays)
