"""Instructions that name today's date and the time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone, translation

from django_mcp.execution.moments import find_today
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import Revision
from django_mcp.server.memory import find_today as find_today_here
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import HANDSHAKE, V2026_07_28, WireClient

NOON = datetime.fromisoformat("2026-11-29T12:00:00Z").timestamp()
TODAY = "Today is Sunday, 2026-11-29, in the time zone UTC."


def make_server(now_s: float = NOON, **options: Any) -> MCPServer:
    server = MCPServer("tests", **options)
    use_ports(server, find_today=find_today, clock=lambda: now_s)
    server.set_list_cache_hint("server/discover", CacheHint(ttl_ms=10**9, scope="public"))
    return server


async def discover(server: MCPServer) -> Any:
    return await WireClient(server, V2026_07_28).result("server/discover")


async def test_instructions_name_no_date_unless_a_setting_says_so():
    assert "instructions" not in await discover(make_server())
    found = await discover(make_server(instructions="Be kind."))

    assert found["instructions"] == "Be kind."
    assert (found["ttlMs"], found["cacheScope"]) == (10**9, "public")


async def test_the_date_stands_below_the_instructions_of_the_site():
    assert (await discover(make_server(date_in_instructions=True)))["instructions"] == TODAY
    server = make_server(date_in_instructions=True, instructions="Be kind.")

    assert (await discover(server))["instructions"] == f"Be kind.\n\n{TODAY}"


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_handshake_names_the_date(revision: Revision):
    client = WireClient(make_server(date_in_instructions=True), revision)
    introduction = {
        "protocolVersion": revision.name,
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    }

    answer = await client.result("initialize", introduction)
    assert answer.get("instructions") == TODAY


@pytest.mark.http_only("a pipe has one time zone")
async def test_date_and_zone_are_those_of_the_caller():
    server = make_server(NOON, date_in_instructions=True)

    for zone, day in (("Pacific/Auckland", "Monday, 2026-11-30"), ("UTC", "Sunday, 2026-11-29")):
        with timezone.override(zone):
            found = await discover(server)
        assert found["instructions"] == f"Today is {day}, in the time zone {zone}."
        assert found["cacheScope"] == "private"
    with translation.override("de"):
        found = await discover(server)
    assert found["instructions"] == "Heute ist Sonntag, der 2026-11-29, in der Zeitzone UTC."


@pytest.mark.http_only("a pipe has one time zone")
@pytest.mark.parametrize(
    ("now", "zone", "hours"),
    [
        ("2026-11-29T12:00:00Z", "UTC", 12),
        ("2026-11-29T12:00:00Z", "Pacific/Auckland", 23),
        ("2026-10-24T22:00:00Z", "Europe/Berlin", 25),
        ("2026-09-06T03:00:00Z", "America/Santiago", 1),
    ],
)
async def test_clients_keep_the_date_until_midnight(now: str, zone: str, hours: int):
    server = make_server(datetime.fromisoformat(now).timestamp(), date_in_instructions=True)

    with timezone.override(zone):
        assert (await discover(server))["ttlMs"] == hours * 3_600_000


async def test_a_shorter_time_stays():
    server = make_server(date_in_instructions=True)
    server.set_list_cache_hint("server/discover", CacheHint(ttl_ms=5))

    assert (await discover(server))["ttlMs"] == 5


def test_a_server_without_a_site_has_the_day_of_its_computer():
    today = find_today_here(NOON)

    assert today.text.startswith("Today is ")
    assert 0 < today.ends_in_s <= 25 * 3600
