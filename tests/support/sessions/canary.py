"""Two users with many concurrent clients, equal request ids, and a secret in each message.

Whatever a client is sent is looked through for secrets of the other user, and of other clients.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from dataclasses import dataclass, field

from tests.support.sessions.client import Client, Stream, connected
from tests.support.sessions.cluster import Cluster

USERS = ("ann", "bob")
PUSHED = "notifications/canary"
_SECRET = re.compile(r"canary-(\w+)-(\d+)-\d+")


@dataclass(kw_only=True, slots=True)
class Findings:
    """The result of a run.

    Attributes:
        messages: how many came in all.
        pushed: how many of them on standalone streams.
        strays: messages with somebody else's secret.
    """

    messages: int = 0
    pushed: int = 0
    strays: list[str] = field(default_factory=list)

    def take(self, data: str, user: str, number: int) -> None:
        self.messages += 1
        if any(found != (user, str(number)) for found in _SECRET.findall(data)):
            self.strays.append(data)


async def run(cluster: Cluster, *, clients: int, rounds: int, steps: int = 2) -> Findings:
    """Run the clients of both users concurrently, with requests alternating between processes.

    Args:
        cluster: the processes.
        clients: how many there are of both users together.
        rounds: calls of each client that say its secret in every way.
        steps: progress messages of each of these calls.
    """
    findings = Findings()
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            user = USERS[number % len(USERS)]
            group.create_task(_visit(cluster, user, number, rounds, steps, findings))
    return findings


async def _visit(
    cluster: Cluster, user: str, number: int, rounds: int, steps: int, findings: Findings
) -> None:
    async with connected(cluster, user=user, at=number) as client:
        client.ids = itertools.count(1)  # the same ids for all clients
        await client.ask("resources/subscribe", {"uri": "counter://all"})
        await client.ask("resources/subscribe", {"uri": f"secret://canary-ann-{number}-0"})
        async with client.listen(at=number) as standalone:
            await standalone.event()
            heard = asyncio.Event()
            listening = asyncio.create_task(
                _listen(standalone, user, number, rounds, findings, heard)
            )
            try:
                for turn in range(rounds):
                    await _talk(client, user, number, turn, steps, findings)
                async with asyncio.timeout(60):
                    await heard.wait()
            finally:
                listening.cancel()


async def _talk(
    client: Client, user: str, number: int, turn: int, steps: int, findings: Findings
) -> None:
    secret, at = f"canary-{user}-{number}-{turn}", number + turn
    meta = {"progressToken": 1}
    kinds = []
    async with client.begin("canary", at=at, meta=meta, secret=secret, steps=steps) as stream:
        while True:
            try:
                event = await stream.event()
            except EOFError:
                break
            if not event.data:
                continue
            findings.take(event.data, user, number)
            message = json.loads(event.data)
            kinds.append(message.get("method"))
            if message.get("method") == "elicitation/create":
                content = {"name": secret}
                await client.respond(message, {"action": "accept", "content": content}, at=at + 1)
    assert kinds.count("elicitation/create") == 1, kinds
    assert kinds.count("notifications/progress") == steps
    assert kinds[-1] is None
    params = {"secret": secret}
    await client.call("tell_mine", at=at + 1, method=PUSHED, params=params)
    await client.call("update", at=at, uri="counter://all")
    await client.call("update", at=at, uri=f"secret://canary-ann-{number}-0")


async def _listen(
    stream: Stream,
    user: str,
    number: int,
    rounds: int,
    findings: Findings,
    heard: asyncio.Event,
) -> None:
    own = 0
    while True:
        event = await stream.event()
        if not event.data:
            continue
        findings.take(event.data, user, number)
        findings.pushed += 1
        own += json.loads(event.data).get("method") == PUSHED
        if own == rounds:
            heard.set()
