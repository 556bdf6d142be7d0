"""Extensions and experimental capabilities of both sides."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.server.handlers.context import Context
from django_mcp.server.server import BaseServer
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28, WireClient

OPEN = {"clientInfo": {"name": "c", "version": "1"}, "capabilities": {}}


async def capabilities_at(server: BaseServer, revision: Any) -> dict[str, Any]:
    client = WireClient(server, revision)
    if revision is V2026_07_28:
        return (await client.result("server/discover"))["capabilities"]
    opening = {**OPEN, "protocolVersion": revision.name}
    return (await client.result("initialize", opening))["capabilities"]


@pytest.mark.parametrize("revision", [*HANDSHAKE, V2026_07_28])
async def test_extensions_are_advertised_in_revisions_that_support_them(
    server: BaseServer, revision: Any
):
    server.advertise_extension("com.example/receipts", {"kinds": ["pdf"]})
    server.advertise_extension("com.example/plain")
    server.advertise_experimental("haste", {"level": 3})

    found = await capabilities_at(server, revision)

    assert found["experimental"]["haste"] == {"level": 3}
    expected = {"com.example/receipts": {"kinds": ["pdf"]}, "com.example/plain": {}}
    assert found.get("extensions") == (expected if revision in (V2025_11_25, V2026_07_28) else None)


@pytest.mark.parametrize("revision", [*HANDSHAKE, V2026_07_28])
async def test_nothing_is_advertised_by_default(server: BaseServer, revision: Any):
    assert not {"extensions", "experimental"} & set(await capabilities_at(server, revision))


@pytest.mark.parametrize(
    "identifier", ["receipts", "/receipts", "com.example/", "-x/y", "com..example/x", "a b/c", ""]
)
def test_an_extension_id_follows_the_grammar(server: BaseServer, identifier: str):
    with pytest.raises(ValueError, match="com"):
        server.advertise_extension(identifier)


def test_extension_settings_must_be_json_serializable(server: BaseServer):
    with pytest.raises(ValueError, match="JSON"):
        server.advertise_extension("com.example/x", {"a": object()})
    with pytest.raises(ValueError, match="name"):
        server.advertise_experimental("")


async def test_advertised_settings_are_copied(server: BaseServer):
    settings = {"kinds": ["pdf"]}
    server.advertise_extension("com.example/x", settings)
    settings["kinds"].append("late")

    found = await capabilities_at(server, V2026_07_28)

    assert found["extensions"]["com.example/x"] == {"kinds": ["pdf"]}


@pytest.mark.parametrize(
    ("declared", "seen"),
    [
        ({}, {}),
        ({"extensions": {"com.example/x": {"a": 1}, "odd": 5}}, {"com.example/x": {"a": 1}}),
        ({"extensions": []}, {}),
        ({"extensions": None}, {}),
    ],
)
async def test_a_handler_sees_the_clients_extensions(
    server: BaseServer, declared: dict[str, Any], seen: dict[str, Any]
):
    @server.tool
    async def look(ctx: Context[Any]) -> str:
        supports = ctx.client_supports("extensions", "com.example/x")
        assert supports is bool(ctx.client_extensions)
        return str(dict(ctx.client_extensions))

    meta = {"io.modelcontextprotocol/clientCapabilities": declared}
    client = WireClient(server, V2026_07_28)
    result = await client.result("tools/call", {"name": "look", "_meta": meta})

    assert result["content"][0]["text"] == str(seen)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("elicitaton",), "Did you mean 'elicitation'?"),
        (("tools",), "There are elicitation, experimental"),
        (("elicitation.url",), "Write client_supports('elicitation', 'url')."),
        (("elicitation", "link"), "It has form, url."),
        (
            ("io.modelcontextprotocol/ui",),
            "client_supports('extensions', 'io.modelcontextprotocol/ui')",
        ),
    ],
)
async def test_a_capability_that_no_client_declares_is_an_error(
    server: BaseServer, caplog: pytest.LogCaptureFixture, path: tuple[str, ...], told: str
):
    """The handler would take every client for one that lacks it."""

    @server.tool
    def look(ctx: Context) -> bool:
        return ctx.client_supports(*path)

    result = await WireClient(server, V2026_07_28).call("look")

    assert result["isError"] is True
    assert told in caplog.text


@pytest.mark.parametrize(
    "path",
    [
        ("elicitation",),
        ("elicitation", "url"),
        ("sampling", "tools"),
        ("roots", "listChanged"),
        ("extensions", "com.example/x"),
        ("experimental", "logLevel"),
    ],
)
async def test_a_capability_that_this_client_lacks_is_no_error(
    server: BaseServer, path: tuple[str, ...]
):
    @server.tool
    def look(ctx: Context) -> bool:
        return ctx.client_supports(*path)

    result = await WireClient(server, V2026_07_28).call("look")

    assert result["structuredContent"] is False
