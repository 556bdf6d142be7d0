"""A user has each limit once, for all clients and keys, and leaves room for other users."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import override_settings

import django_mcp
from django_mcp import MCPServer, ResourceLink
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.auth.principal import Principal, make_key
from django_mcp.calls import flush_calls
from django_mcp.calls.recorder import forget_calls
from django_mcp.execution.tables import Usage
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey, CallRecord, GivenLink
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.quotas import Limits, QuotaMeter, QuotaScope
from django_mcp.server.options import Options
from django_mcp.sessions.site.writer import flush_sessions
from django_mcp.test import MCPClient
from tests.support.kit import make_server as make_kit
from tests.support.server.plain import MCPServer as PlainServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import Modern
from tests.support.server.tasks import make_server as make_tasks
from tests.support.session_sites import Time, site
from tests.support.wire import V2026_07_28, WireClient
from tests.unit.server.streams.test_stream_limits import AddressedClient, Listeners

KEYS = 20
ADA, BOB = User(pk=1, username="ada"), User(pk=2, username="bob")


def key_of_user(user: User, number: int = 0) -> Principal:
    return Principal(key=make_key("api-key", user.pk, f"mcp_{number}"), user=user)


def keys_of_ada() -> list[Principal]:
    own = [key_of_user(ADA, number) for number in range(KEYS)]
    # Those that other kinds of credentials give the same user.
    return [*own, Principal(key=make_key("oauth", ADA.pk, "client"), user=ADA).for_request()]


LAYERS = ("server", "sessions", "push", "execution", "auth", "transports", "pages", "contrib.oauth")


def modules() -> Iterator[ModuleType]:
    for layer in LAYERS:
        package = __import__(f"{django_mcp.__name__}.{layer}", fromlist=["x"])
        yield package
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in found.name:
                yield __import__(found.name, fromlist=["x"])


def pairs() -> dict[str, Limits]:
    """Return each limit of one caller with that of all, by where it is."""
    options = Options(name="tests")
    found = {
        "streams": Limits(own_count=options.max_streams_per_principal, count=options.max_streams),
        "sessions": Limits(
            own_count=options.max_sessions_per_principal, count=options.max_sessions
        ),
        "tasks": Limits(own_count=options.max_tasks_per_principal, count=options.max_tasks),
        "pending": Limits(
            own_count=0,
            count=0,
            own_bytes=options.max_pending_bytes_per_principal,
            bytes=options.max_pending_bytes,
        ),
    }
    for module in modules():
        for name, value in vars(module).items():
            limits = value.limits if isinstance(value, Usage) else value
            if isinstance(limits, Limits):
                found[f"{module.__name__}.{name}"] = limits
    return found


def test_many_keys_of_a_user_leave_room_for_another_within_every_limit():
    walked = pairs()
    assert len(walked) > 12

    for name, limits in walked.items():
        meter = QuotaMeter()
        for principal in keys_of_ada():
            quota_key = Caller(principal=principal).quota_key
            meter.take(limits, quota_key, limits.own_bytes, count=limits.own_count)
        one, size = int(limits.own_count > 0), int(limits.own_bytes > 0)

        mine, theirs = (Caller(principal=key_of_user(user)).quota_key for user in (ADA, BOB))
        assert meter.find_reached(limits, mine, size, count=one) is QuotaScope.OWN, name
        assert meter.find_reached(limits, theirs, size, count=one) is None, name


def test_principals_without_a_user_are_charged_for_themselves():
    keys = [
        Caller(principal=principal).quota_key
        for principal in (
            Principal(key="oauth:client-a"),
            Principal(key="oauth:client-b"),
            Principal(key="user 1"),
            # Of no row, so it has no primary key.
            Principal(key="custom:ada", user=User(username="ada")),
            key_of_user(ADA),
        )
    ]

    assert len(set(keys)) == len(keys)
    assert Caller(principal=ADA).quota_key == keys[-1]
    assert Caller(address="192.0.2.1").quota_key != Caller(address="192.0.2.2").quota_key


@pytest.mark.http_only("a pipe has one client")
async def test_streams_of_all_keys_of_a_user_count_together():
    server = PlainServer("tests", max_streams_per_principal=2, max_streams=4)
    server.register_tool(lambda: "x", name="plain")
    listeners = Listeners()
    own = [AddressedClient(server, "192.0.2.1", each) for each in keys_of_ada()]
    other = AddressedClient(server, "192.0.2.1", key_of_user(BOB))

    assert [await listeners.status(each) for each in own] == [200, 200] + [429] * (KEYS - 1)
    assert await listeners.status(other) == 200
    for stream in listeners.opened:
        stream.leave()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("store", ["memory", "database"])
async def test_sessions_of_all_keys_of_a_user_replace_only_their_own(store: str):
    clock = Time()
    here = site(store, clock, max_sessions_per_principal=2, max_sessions=4)
    users = [await User.objects.acreate(username=name) for name in ("ada", "bob")]
    other, _ = await here.open(key_of_user(users[1]))
    own = []
    for number in range(5):
        clock.now_s += 100
        own.append((await here.open(key_of_user(users[0], number)))[0])
    await asyncio.to_thread(flush_sessions)

    assert [await here.store.find(token) is not None for token in own] == [False] * 3 + [True] * 2
    assert await here.store.find(other) is not None


async def test_tasks_of_all_keys_of_a_user_count_together():
    server, gate = make_tasks(max_tasks_per_principal=2, max_tasks=4)
    for principal in keys_of_ada()[:2]:
        await Modern(server, principal=principal).create("wait")

    for principal in keys_of_ada()[2:]:
        client = Modern(server, principal=principal)
        _, error = await client.error("tools/call", {"name": "wait", "arguments": {}})
        assert "Too many tasks" in error["message"]
    await Modern(server, principal=key_of_user(BOB)).create("wait")
    gate.may_go_on.set()


@pytest.mark.parametrize("options", [{}, {"throttle": {"principal": "2/m"}}], ids=["tool", "all"])
async def test_rates_of_all_keys_of_a_user_count_together(options: Any):
    server = PlainServer("tests", **options)
    server.clock = lambda: 120.0
    server.register_tool(lambda: "x", name="slow", throttle=None if options else "2/m")

    async def status(principal: Principal) -> int:
        client = StreamClient(server, V2026_07_28, principal=principal)
        return (await client.call_tool("slow").reply()).status

    statuses = [await status(each) for each in keys_of_ada()]
    assert statuses == [200, 200] + [429] * (KEYS - 1)
    assert await status(key_of_user(BOB)) == 200


@pytest.mark.django_db
@override_settings(
    DJANGO_MCP={"RECORD_CALLS": True, "SYNC_THREADS": 0, "RECORDED_CALLS_PER_MINUTE": 2}
)
def test_recorded_calls_of_all_keys_of_a_user_count_together():
    server = make_kit()
    users = [User.objects.create_user(name) for name in ("ada", "bob")]

    async def pour() -> None:
        for number in range(KEYS):
            await call(key_of_user(users[0], number))
        await call(key_of_user(users[1]))

    async def call(principal: Principal) -> None:
        client = WireClient(server, V2026_07_28, principal=principal)
        await client.send("tools/call", {"name": "add", "arguments": {"a": 1}})

    async_to_sync(pour)()
    flush_calls()

    assert CallRecord.objects.filter(user=users[0]).count() == 2
    assert CallRecord.objects.filter(user=users[1]).count() == 1
    forget_calls()


def _key_for(user: User, number: int) -> dict[str, str]:
    _key, text = APIKey.objects.issue(user=user, name=f"tests {number}", tools=["page"])
    return {"Authorization": f"Bearer {text}"}


@pytest.mark.django_db
def test_links_of_all_keys_of_a_user_count_together(monkeypatch: pytest.MonkeyPatch):
    from django_mcp.auth import given_links

    monkeypatch.setattr(given_links._usage, "limits", Limits(own_count=3, count=100))
    server = MCPServer("links", authenticators=[APIKeyAuthenticator(cache_s=0)])

    @server.tool
    def page(number: int) -> list[ResourceLink]:
        return [ResourceLink(f"order://{number}", name="an order")]

    @server.resource("order://{number}")
    def order(number: int) -> str:
        return f"order {number}"

    ada, bob = (User.objects.create_user(name) for name in ("ada", "bob"))
    clients = [
        MCPClient(server, headers=_key_for(user, number))
        for user, number in [(bob, 0), *((ada, number) for number in range(6))]
    ]
    for number, client in enumerate(clients):
        client.call("page", number=number)

    assert GivenLink.objects.count() == 1 + 3
    assert clients[0].read("order://0").text == "order 0"
    # Each key reads what was given to it alone.
    assert clients[6].read("order://6").text == "order 6"
    with pytest.raises(MCPError):
        clients[5].read("order://6")
