from __future__ import annotations

from typing import Any

import pytest

from django_mcp.protocol.results import CacheHint
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import Requirements, VisibleEntries
from django_mcp.server.memory import OpenAccess
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
every_list = pytest.mark.parametrize(("method", "key"), LISTS.items())


def fill(server: MCPServer, count: int = 5) -> MCPServer:
    for n in range(count):
        server.register_tool(
            name=f"t{n}",
            permission=f"t{n}",
            description="d",
            input_schema={"type": "object"},
            handler=lambda arguments: "",
        )
        server.resource(f"x://{n}", name=f"r{n}", permission=f"r{n}")(lambda: "")
        server.resource(f"x://{n}/{{id}}", name=f"m{n}", permission=f"m{n}")(lambda id: "")
        server.prompt(name=f"p{n}", description="d", permission=f"p{n}")(lambda: "")
    return server


@every_list
async def test_a_list_is_complete_and_in_registration_order(
    server: MCPServer, client: WireClient, method: str, key: str
) -> None:
    fill(server)

    result = await client.result(method)

    assert [item["name"][1:] for item in result[key]] == ["0", "1", "2", "3", "4"]
    assert "nextCursor" not in result
    assert await client.result(method) == result


@every_list
async def test_pages_follow_by_cursor(method: str, key: str) -> None:
    server = fill(MCPServer("paged", page_size=2))
    names: list[str] = []
    params: dict[str, Any] = {}
    for _ in range(3):
        # A client of its own for each page: nothing but the cursor leads on.
        result = await WireClient(server, V2026_07_28).result(method, params)
        names += [item["name"][1:] for item in result[key]]
        params = {"cursor": result.get("nextCursor")}

    assert names == ["0", "1", "2", "3", "4"]
    assert params == {"cursor": None}


@every_list
async def test_a_forged_cursor_is_rejected(method: str, key: str) -> None:
    server = fill(MCPServer("paged", page_size=2))
    client = WireClient(server, V2026_07_28)
    good = (await client.result(method))["nextCursor"]
    other = next(each for each in LISTS if each != method)
    foreign = (await client.result(other))["nextCursor"]
    flipped = good[:-1] + ("A" if good[-1] != "A" else "B")

    cursor: Any
    for cursor in ("", "junk", "é", good + "x", flipped, foreign, "x" * 10_000, 5, [], {}):
        status, error = await client.error(method, {"cursor": cursor})
        assert (status, error["code"]) == (200, -32602), cursor


async def test_a_cursor_of_a_removed_entry_starts_over() -> None:
    server = fill(MCPServer("paged", page_size=2))
    client = WireClient(server, V2026_07_28)
    cursor = (await client.result("tools/list"))["nextCursor"]

    server.remove_tool("t1")

    assert (await client.error("tools/list", {"cursor": cursor}))[1]["code"] == -32602


async def test_a_list_reflects_registration_immediately(
    server: MCPServer, newest: WireClient
) -> None:
    fill(server, 1)
    assert len((await newest.result("tools/list"))["tools"]) == 1

    server.register_tool(name="late", input_schema={"type": "object"}, handler=lambda arguments: "")
    assert len((await newest.result("tools/list"))["tools"]) == 2

    assert server.remove_tool("late") is True
    assert server.remove_tool("late") is False
    assert len((await newest.result("tools/list"))["tools"]) == 1


@every_list
async def test_caching_hints_are_sent_in_revisions_that_have_them(
    server: MCPServer, client: WireClient, method: str, key: str
) -> None:
    fill(server)

    result = await client.result(method)

    hints = {name: result[name] for name in ("ttlMs", "cacheScope") if name in result}
    assert hints == (
        {"ttlMs": 0, "cacheScope": "private"} if client.revision is V2026_07_28 else {}
    )


async def test_caching_hints_can_be_set_and_are_equal_on_all_pages() -> None:
    server = fill(MCPServer("paged", page_size=2))
    server.set_list_cache_hint("tools/list", CacheHint(ttl_ms=5000, scope="public"))
    client = WireClient(server, V2026_07_28)

    first = await client.result("tools/list")
    second = await client.result("tools/list", {"cursor": first["nextCursor"]})

    for page in (first, second):
        assert (page["ttlMs"], page["cacheScope"]) == (5000, "public")
    with pytest.raises(ValueError, match="tools/lost"):
        server.set_list_cache_hint("tools/lost", CacheHint())


class Partial(OpenAccess):
    """Shows each principal the entries whose permissions they hold."""

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        return VisibleEntries(requirements, frozenset(exchange.caller.principal))


async def test_invisible_entries_are_treated_as_missing(server: MCPServer) -> None:
    fill(server)
    use_ports(server, access=Partial())
    server.set_list_cache_hint("tools/list", CacheHint(ttl_ms=5, scope="public"))
    one = WireClient(server, V2026_07_28, principal=("t1", "r1", "m1", "p1"))
    none = WireClient(server, V2026_07_28, principal=())

    for method, key in LISTS.items():
        assert len((await one.result(method))[key]) == 1
        assert (await none.result(method))[key] == []
    assert (await one.result("tools/list"))["cacheScope"] == "private"
    for method, known, unknown in (
        ("tools/call", {"name": "t1"}, {"name": "zz"}),
        ("resources/read", {"uri": "x://1"}, {"uri": "x://zz"}),
        ("resources/read", {"uri": "x://1/5"}, {"uri": "x://zz/5"}),
        ("prompts/get", {"name": "p1"}, {"name": "zz"}),
    ):
        assert "result" in (await one.send(method, known))[1]
        forbidden = (await none.error(method, known))[1]
        absent = (await none.error(method, unknown))[1]
        name, other = next(iter(known.values())), next(iter(unknown.values()))
        assert repr(forbidden).replace(name, other) == repr(absent)
