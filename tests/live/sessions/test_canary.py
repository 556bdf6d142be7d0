"""Two users at once on two processes: no data reaches the wrong user."""

from __future__ import annotations

from tests.support.sessions import canary
from tests.support.sessions.cluster import Cluster


async def test_no_data_leaks_to_another_user(cluster: Cluster) -> None:
    """Answers, progress, log messages, questions and pushes."""
    found = await canary.run(cluster, clients=8, rounds=3)

    assert found.strays == []
    assert found.messages >= 8 * 3 * 6
    assert found.pushed >= 8 * 3
