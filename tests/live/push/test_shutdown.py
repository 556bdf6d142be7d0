"""Shutdown of a process with many streams."""

from __future__ import annotations

import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.push.clients import listening, open_session, standalone
from tests.support.sites import running

SITE = "tests.support.site.push"
STREAMS = 250
LIMIT_S = 5.0


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
async def test_streams_are_closed_cleanly_within_five_seconds(server: str, tmp_path: Path):
    """Each session's stream gets a retry delay, each listener gets its result."""
    extra = {"TEST_SESSION_STORE": "memory"}
    with running(SITE, server, log=tmp_path / "log", extra=extra) as site:
        async with AsyncExitStack() as stack:
            session = await open_session(site)
            listeners = [
                await stack.enter_async_context(listening(site, "stock://1"))
                for _ in range(STREAMS)
            ]
            standers = [
                await stack.enter_async_context(standalone(site, session)) for _ in range(STREAMS)
            ]
            begun = time.monotonic()
            site.process.send_signal(signal.SIGTERM)

            for listener in listeners:
                result = await listener.next()
                assert result is not None
                assert result["id"] == "listen"
            for stander in standers:
                assert await stander.next() is None
                assert stander.retry_ms == 1000
            # Raises if it takes longer.
            status = site.process.wait(begun + LIMIT_S - time.monotonic())
    assert status in (0, -signal.SIGTERM)
