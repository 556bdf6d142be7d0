"""Two users at once on two processes: nothing reaches the wrong one."""

from __future__ import annotations

from tests.support.sessions import canary
from tests.support.sessions.cluster import Cluster


async def test_not_a_byte_reaches_anybody_else(cluster: Cluster) -> None:
    """Answers, progress, log messages, questions and pushes."""
    found = await canary.run(cluster, clients=8, rounds=3)

    assert found.strays == []
    assert found.messages >= 8 * 3 * 6
    assert found.pushed >= 8 * 3
