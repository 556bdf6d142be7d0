"""Chosen ids of server requests, on two processes that share a database and a Redis."""

from __future__ import annotations

import pytest

from tests.support.sessions.client import connected
from tests.support.sessions.cluster import Cluster

WRITTEN = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}}


@pytest.mark.parametrize("at", [0, 1])
async def test_a_question_is_cancelled_by_its_id_from_any_process(
    cluster: Cluster, at: int
) -> None:
    """Only in that session, although another one uses the same id."""
    async with (
        connected(cluster, user="ann") as asked,
        connected(cluster, user="bob") as other,
        asked.begin("sample_as", name="capital") as first,
        other.begin("sample_as", name="capital", at=1) as second,
    ):
        question, same = await first.message(), await second.message()
        stopped = await asked.call("stop_asking", name="capital", at=at)
        told, failed = await first.rest()
        await asked.respond(question, WRITTEN, at=1)
        await other.respond(same, WRITTEN, at=0)
        *_, last = await second.rest()

    assert question["id"] == same["id"] == "capital"
    assert stopped == "true"
    assert told["method"] == "notifications/cancelled"
    assert told["params"] == {"requestId": "capital", "reason": "Enough"}
    assert "cancelled before it answered" in failed["result"]["content"][0]["text"]
    assert last["result"]["content"][0]["text"] == "Paris"


async def test_a_request_id_cannot_be_used_twice_concurrently(cluster: Cluster) -> None:
    async with connected(cluster) as client, client.begin("sample_as", name="capital") as first:
        question = await first.message()
        again = await client.call("sample_as", name="capital", at=1)
        await client.respond(question, WRITTEN, at=1)
        *_, last = await first.rest()

    assert "under this id already" in again
    assert last["result"]["content"][0]["text"] == "Paris"
