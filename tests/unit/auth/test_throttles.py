"""Throttles: rates per principal, address and tool, counted for all processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode, encode
from django_mcp.registry.access import Rate, read_rate, read_rates
from django_mcp.registry.problems import RegistrationError
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.exchange import Exchange, Reply
from tests.support.ports import use_ports
from tests.support.server import plain as core
from tests.support.wire import V2026_07_28, headers_for, message

LOCMEM = "django.core.cache.backends.locmem.LocMemCache"
REDIS = "django.core.cache.backends.redis.RedisCache"


class Counted(LocMemCache):
    """Records the threads that used it."""

    uses = 0

    def add(self, *args: Any, **kwargs: Any) -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            type(self).uses += 1
            return super().add(*args, **kwargs)
        raise AssertionError("the cache was used on the event loop")


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    where = {"default": {"BACKEND": f"{__name__}.Counted", "LOCATION": "throttles"}}
    with override_settings(CACHES=where):
        caches["default"].clear()
        Counted.uses = 0
        yield


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("throttled", public=True, **options)
    use_ports(server, clock=lambda: 120.0 + server.later_s)  # type: ignore[attr-defined]
    server.later_s = 0.0  # type: ignore[attr-defined]

    @server.tool(throttle="2/m")
    async def slow() -> str:
        return "done"

    @server.tool
    async def free() -> str:
        return "done"

    return server


async def call(
    server: Any, name: str, principal: Any = ANONYMOUS, address: str | None = "192.0.2.1"
) -> Reply:
    request = message("tools/call", {"name": name}, revision=V2026_07_28)
    headers = Headers(
        [(k.encode(), v.encode()) for k, v in headers_for(request, V2026_07_28).items()]
    )
    exchange = Exchange(
        body=encode(request), headers=headers, caller=Caller(principal=principal, address=address)
    )
    return await server.engine.answer(exchange)


async def statuses(server: Any, count: int, *how: Any, **more: Any) -> list[int]:
    return [(await call(server, *how, **more)).status for _ in range(count)]


def principal(name: str) -> Principal:
    return Principal(key=name, user=User(username=name))


async def test_calls_over_the_rate_are_rejected_until_the_window_ends() -> None:
    server: Any = make_server()
    server.later_s = 17.5
    assert await statuses(server, 2, "slow") == [200, 200]

    reply = await call(server, "slow")

    assert reply.status == 429
    assert dict(reply.headers)[b"retry-after"] == b"43"
    error = decode(reply.body or b"")["error"]
    assert (error["code"], error["data"]) == (429, {"retryAfterS": 43})
    server.later_s = 59.9
    assert await statuses(server, 1, "slow") == [429]
    server.later_s = 60.0
    assert await statuses(server, 3, "slow") == [200, 200, 429]


async def test_a_tool_rate_is_counted_per_principal_and_address() -> None:
    server = make_server()
    ann, bob = principal("ann"), principal("bob")

    assert await statuses(server, 3, "slow", ann) == [200, 200, 429]
    # The same principal from elsewhere is the same.
    assert await statuses(server, 1, "slow", ann, address="192.0.2.9") == [429]
    assert await statuses(server, 3, "slow", bob) == [200, 200, 429]
    assert await statuses(server, 3, "slow") == [200, 200, 429]
    assert await statuses(server, 1, "slow", address="192.0.2.2") == [200]
    assert await statuses(server, 3, "slow", address=None) == [200, 200, 429]
    assert await statuses(server, 5, "free") == [200] * 5


async def test_ipv6_addresses_are_counted_by_network() -> None:
    server = make_server()

    assert await statuses(server, 2, "slow", address="2001:db8::1") == [200, 200]
    assert await statuses(server, 1, "slow", address="2001:db8::ffff:2") == [429]
    assert await statuses(server, 1, "slow", address="2001:db8:0:1::1") == [200]
    assert await statuses(server, 2, "slow", address="::ffff:192.0.2.7") == [200, 200]
    assert await statuses(server, 1, "slow", address="192.0.2.7") == [429]


async def test_a_server_rate_counts_all_requests() -> None:
    server = make_server(throttle={"principal": "3/m", "address": "5/h"})
    ann, bob = principal("ann"), principal("bob")

    assert await statuses(server, 4, "free", ann) == [200, 200, 200, 429]
    assert await statuses(server, 2, "free", bob) == [200, 429]
    reply = await call(server, "free", bob)
    assert dict(reply.headers)[b"retry-after"] == b"3480"
    assert await statuses(server, 1, "free", bob, address="192.0.2.2") == [429]
    assert await statuses(server, 1, "free", address="192.0.2.3") == [200]
    # For the caller and for the address.
    assert Counted.uses == 9 * 2


async def test_settings_throttle_every_server() -> None:
    rates = {"address": "1/d"}
    with override_settings(DJANGO_MCP={"THROTTLE": rates, "THROTTLE_CACHE": "default"}):
        assert await statuses(make_server(), 2, "free") == [200, 429]


async def test_without_throttles_the_cache_is_not_used() -> None:
    assert await statuses(make_server(), 3, "free") == [200] * 3
    assert Counted.uses == 0


async def test_hidden_and_unknown_tools_are_not_counted() -> None:
    server = make_server()
    server.register_tool(lambda: "", name="hidden", permission="a.b", throttle="1/d")

    for name in ("hidden", "absent"):
        replies = [await call(server, name) for _ in range(3)]
        assert b"Unknown tool" in (replies[-1].body or b"")
    assert Counted.uses == 0


async def test_concurrent_calls_do_not_exceed_the_rate() -> None:
    server = make_server()

    replies = await asyncio.gather(*(call(server, "slow") for _ in range(20)))

    assert sorted(reply.status for reply in replies) == [200] * 2 + [429] * 18


@pytest.mark.services
async def test_workers_share_their_counts_on_redis(redis_url: str) -> None:
    where = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": redis_url,
            "KEY_PREFIX": f"django-mcp-throttles-{os.getpid()}",
        }
    }
    with override_settings(CACHES=where):
        one, other = make_server(), make_server()
        assert await statuses(one, 1, "slow") == [200]
        assert await statuses(other, 2, "slow") == [200, 429]
        assert await statuses(one, 1, "slow") == [429]


async def test_a_server_without_django_counts_in_process() -> None:
    server = core.MCPServer("core", throttle={"address": "2/s"})
    use_ports(server, clock=lambda: 0.0)
    server.tool(name="free")(lambda: "done")

    assert await statuses(server, 3, "free") == [200, 200, 429]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/m", Rate(limit=10, period_s=60)),
        ("1/second", Rate(limit=1, period_s=1)),
        ("100/15min", Rate(limit=100, period_s=900)),
        ("5/2h", Rate(limit=5, period_s=7200)),
        ("7/day", Rate(limit=7, period_s=86400)),
    ],
)
def test_rates_are_read(text: str, rate: Rate) -> None:
    assert read_rate(text) == rate


@pytest.mark.parametrize(
    "wrong",
    ["", "10", "10/", "0/m", "-1/m", "1.5/m", "10/w", "10/0m", "10 / m", "１/m", 10, b"1/m"],
)
def test_an_invalid_rate_is_rejected(wrong: Any) -> None:
    with pytest.raises(RegistrationError, match="rate"):
        MCPServer("x").register_tool(lambda: "", name="x", throttle=wrong)
    with pytest.raises(ValueError):
        MCPServer("x", throttle={"principal": wrong})


def test_only_principals_and_addresses_are_rate_keys() -> None:
    with pytest.raises(ValueError, match="planet"):
        read_rates({"planet": "1/m"})


# -- failures to authenticate


class Guarded(Authenticator):
    asked = 0

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        type(self).asked += 1
        header = exchange.headers.get("authorization") if exchange.headers else None
        if header is None:
            return None
        return principal("ann") if header == "Bearer right" else Rejection(reason="Wrong")


def guarded(**options: Any) -> Any:
    server: Any = MCPServer("guarded", authenticators=[Guarded()], **options)
    server.later_s = 0.0
    use_ports(server, clock=lambda: 120.0 + server.later_s)
    return server


async def present(server: Any, token: str | None, address: str | None = "192.0.2.1") -> int:
    lines = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    reply = await server.engine.authenticate(
        Exchange(headers=Headers(lines), caller=Caller(address=address))
    )
    return 200 if reply is None else int(reply.status)


async def test_failed_authentication_is_throttled() -> None:
    server = guarded(throttle={"failures": "2/m"})
    assert [await present(server, "wrong") for _ in range(3)] == [401, 401, 429]

    # The authenticator is not called, so that no guess can succeed.
    asked = Guarded.asked
    assert await present(server, "right") == 429
    assert Guarded.asked == asked
    assert await present(server, "right", address="192.0.2.2") == 200
    # A unix socket has no peer address: clients must not share one limit.
    assert [await present(server, "wrong", address=None) for _ in range(4)] == [401] * 4
    server.later_s = 60.0
    assert await present(server, "right") == 200


async def test_other_processes_share_the_failure_count() -> None:
    here, there = (guarded(throttle={"failures": "2/m"}) for _ in range(2))
    for _ in range(3):
        await present(here, "wrong")

    assert await present(there, "wrong") == 429
    assert await present(there, "right") == 429


async def test_missing_and_valid_credentials_do_not_count_as_failures() -> None:
    server = guarded(throttle={"failures": "1/m"})

    assert [await present(server, None) for _ in range(4)] == [401] * 4
    assert [await present(server, "right") for _ in range(4)] == [200] * 4
    assert Counted.uses == 0


async def test_requests_are_rejected_while_the_cache_is_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = {"default": {"BACKEND": REDIS, "LOCATION": "redis://127.0.0.1:9/0"}}
    with override_settings(CACHES=nowhere):
        server = guarded(throttle={"failures": "1/m", "principal": "9/m"})
        assert [await present(server, "wrong") for _ in range(3)] == [503] * 3
        throttled = make_server()
        reply = await call(throttled, "slow")
        assert (await call(throttled, "free")).status == 200

    assert reply.status == 503
    assert dict(reply.headers)[b"retry-after"] == b"2"
    told = [each for each in caplog.records if "throttles" in each.message]
    assert len(told) == 1
    assert all(each.exc_info is None for each in caplog.records)


async def test_failures_are_not_counted_by_default() -> None:
    server = guarded(throttle={"principal": "1/m"})

    assert [await present(server, "wrong") for _ in range(30)] == [401] * 30
    assert Counted.uses == 0


async def test_a_server_rate_of_principals_counts_anonymous_callers_by_address() -> None:
    server = make_server(throttle={"principal": "2/m"})

    assert await statuses(server, 3, "free") == [200, 200, 429]
    assert await statuses(server, 1, "free", address="192.0.2.2") == [200]
    assert await statuses(server, 3, "free", principal("ann")) == [200, 200, 429]
