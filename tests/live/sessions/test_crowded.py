"""Many sessions of one user, opened at the same time at two processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from tests.support.backends import Backends
from tests.support.sessions.client import LIMIT_S, Client
from tests.support.sessions.cluster import serving
from tests.support.sessions.rows import Rows


async def test_concurrently_opened_sessions_respect_the_limit(
    shared: Backends, rows: Rows, tmp_path: Path
) -> None:
    """None is rejected, the limit holds for the next one, and no session of others is evicted."""
    async with httpx.AsyncClient(timeout=LIMIT_S) as http:
        with serving(shared, tmp_path, MAX_SESSIONS_PER_PRINCIPAL=5) as pair:
            other = Client(pair, http, user="fay")
            await other.open()
            greedy = [Client(pair, http, user="eve") for _ in range(40)]
            await asyncio.gather(
                *(each.open(at=at % 2, is_ready=False) for at, each in enumerate(greedy))
            )
            await greedy[0].open()

            assert rows.of("eve") == 5
            assert (await greedy[0].ask("ping"))["result"] == {}
            assert (await other.ask("ping"))["result"] == {}
            assert "Traceback" not in pair.logs()
