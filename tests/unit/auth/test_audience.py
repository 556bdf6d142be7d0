"""Resource updates and subscriptions require read access, whatever denies it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.auth.principal import AuthInfo, Principal
from tests.support.server.streams import Open, StreamClient
from tests.support.wire import V2025_11_25, V2026_07_28

GUARDED = ["checked://1", "waiting://1", "scoped://1"]
revisions = pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])


def person(name: str, *scopes: str) -> Principal:
    info = AuthInfo(subject=name, authenticator="oauth", scopes=frozenset(scopes))
    return Principal(key=f"token:{name}", user=User(username=name), auth=info)


@pytest.fixture
def owners() -> set[str]:
    return {"ann"}


@pytest.fixture
def server(owners: set[str]) -> MCPServer:
    server = MCPServer("heard", public=True)

    def check(user: Any) -> bool:
        return user.get_username() in owners

    async def acheck(user: Any) -> bool:
        return check(user)

    @server.resource("waiting://{n}", check=acheck)
    async def waiting(n: int) -> str:
        return str(n)

    server.resource("checked://{n}", name="checked", check=check)(lambda n: n)
    server.resource("scoped://{n}", name="scoped", scopes=["write"])(lambda n: n)
    server.resource("free://{n}", name="free")(lambda n: n)
    return server


@asynccontextmanager
async def subscribed(
    server: MCPServer, who: Principal, revision: Any, *uris: str
) -> AsyncIterator[Open]:
    """Subscribe a client to resources, if it may."""
    client = StreamClient(server, revision, principal=who)
    if revision is V2026_07_28:
        stream = client.begin(
            "subscriptions/listen", {"notifications": {"resourceSubscriptions": [*uris]}}
        )
        acknowledged = (await stream.sink.message())["params"]["notifications"]
        assert acknowledged == {"resourceSubscriptions": [*uris]}
        yield stream
        stream.leave()
        return
    await client.open()
    for uri in uris:
        await client.send("resources/subscribe", {"uri": uri})
    async with client.standalone() as stream:
        yield stream


@revisions
@pytest.mark.parametrize("uri", GUARDED)
async def test_updates_reach_only_principals_that_may_read_the_resource(
    server: MCPServer, uri: str, revision: Any
) -> None:
    async with AsyncExitStack() as stack:
        ann, bob = [
            await stack.enter_async_context(subscribed(server, who, revision, uri, "free://1"))
            for who in (person("ann", "write"), person("bob", "read"))
        ]
        server.notify_resource_updated(uri)
        assert (await ann.sink.message())["params"]["uri"] == uri
        # An unrestricted resource needs no check.
        assert server.notify_resource_updated("free://1") == 2

        assert (await bob.sink.message())["params"]["uri"] == "free://1"


@revisions
async def test_read_access_is_checked_when_an_update_is_sent(
    server: MCPServer, owners: set[str], revision: Any
) -> None:
    uris = ("checked://1", "free://1")
    owners.add("bob")
    async with AsyncExitStack() as stack:
        ann, bob = [
            await stack.enter_async_context(subscribed(server, person(who), revision, *uris))
            for who in ("ann", "bob")
        ]
        owners.remove("ann")
        server.notify_resource_updated("checked://1")
        assert (await bob.sink.message())["params"]["uri"] == "checked://1"
        server.notify_resource_updated("free://1")

        assert (await ann.sink.message())["params"]["uri"] == "free://1"


async def test_many_updates_at_once_are_checked_together(server: MCPServer) -> None:
    asked: list[int] = []
    may_answer, is_asked = threading.Event(), threading.Event()

    def check(user: Any, n: int) -> bool:
        asked.append(n)
        is_asked.set()
        return may_answer.wait(10)

    server.resource("slow://{n}", name="slow", check=check)(lambda n: n)
    async with subscribed(server, person("ann"), V2026_07_28, "slow://1", "free://1") as stream:
        for _ in range(50):
            server.notify_resource_updated("slow://1")
            server.notify_resource_updated("free://1")
            assert (await stream.sink.message())["params"]["uri"] == "free://1"
        may_answer.set()
        for _ in range(2 if is_asked.is_set() else 1):
            assert (await stream.sink.message())["params"]["uri"] == "slow://1"

    assert len(asked) <= 2


@pytest.mark.parametrize("uri", [*GUARDED, "waiting://x", "free://1", "unknown://1"])
async def test_an_unreadable_resource_cannot_be_subscribed_to(server: MCPServer, uri: str) -> None:
    client = StreamClient(server, V2025_11_25, principal=person("bob", "read"))
    await client.open()

    read, subscribed = [
        await client.send(f"resources/{verb}", {"uri": uri}) for verb in ("read", "subscribe")
    ]

    if "result" in read[1]:
        assert subscribed[1]["result"] == {}
    else:
        assert subscribed == (read[0], {**read[1], "id": subscribed[1]["id"]})
    assert ("result" in subscribed[1]) == (uri == "free://1")
