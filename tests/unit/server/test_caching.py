"""Caching hints for results, and their safe defaults."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils.translation import get_language, gettext_lazy, override

from django_mcp.protocol.content import TextContents
from django_mcp.protocol.results import CacheHint, ReadResult
from django_mcp.server.engine import Engine
from django_mcp.server.extension import Extension
from django_mcp.server.handlers.context import Context
from django_mcp.server.setting import LIST_METHODS
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import HANDSHAKE, V2026_07_28, WireClient

SHARED = CacheHint(ttl_ms=5, scope="public")
META: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


async def scope_of(server: MCPServer, uri: str) -> tuple[int, str]:
    result = await WireClient(server, V2026_07_28).result("resources/read", {"uri": uri})
    return result["ttlMs"], result["cacheScope"]


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.resource("x://plain", cache=SHARED)
    def plain() -> str:
        return "the same for all"

    @server.resource("x://template/{pk}", cache=SHARED)
    def template(pk: int) -> str:
        return f"the same for all {pk}"

    @server.resource("x://context", cache=SHARED)
    def context(ctx: Context[Any]) -> str:
        return f"for {ctx.principal}"

    @server.resource("x://knowing")
    def knowing(ctx: Context[Any]) -> ReadResult:
        return ReadResult([TextContents("x://knowing", "logged, no more")], cache=SHARED)

    for option in ({"permission": "a.b"}, {"scopes": "s"}, {"check": lambda user: True}):
        uri = f"x://{next(iter(option))}"
        server.register_resource(uri, lambda: "guarded", name=uri[4:], cache=SHARED, **option)

    return server


@pytest.mark.parametrize(
    ("uri", "scope"),
    [
        ("x://plain", "public"),
        ("x://template/5", "public"),
        ("x://context", "private"),
        ("x://knowing", "public"),
        ("x://permission", "private"),
        ("x://scopes", "private"),
        ("x://check", "private"),
    ],
)
async def test_a_resource_is_publicly_cacheable_only_if_equal_for_all_users(
    server: MCPServer, uri: str, scope: str
):
    assert await scope_of(server, uri) == (5, scope)


async def test_a_server_with_restricted_access_marks_nothing_as_public(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Engine, "is_public", False)
    server = MCPServer("tests")
    server.register_resource("x://plain", lambda: "x", name="plain", cache=SHARED)
    for method in (*LIST_METHODS, "server/discover"):
        server.set_list_cache_hint(method, SHARED)
    client = WireClient(server, V2026_07_28)

    assert await scope_of(server, "x://plain") == (5, "private")
    for method in ("resources/list", "server/discover"):
        assert (await client.result(method))["cacheScope"] == "private"


async def test_a_result_that_depends_on_user_input_is_not_cacheable(server: MCPServer):
    @server.resource("x://asks")
    def asks(ctx: Context[Any]) -> ReadResult:
        answer = ctx.elicit("?", {"type": "object"})
        return ReadResult([TextContents("x://asks", answer.action)], cache=SHARED)

    client = WireClient(server, V2026_07_28)
    params: dict[str, Any] = {"uri": "x://asks", "_meta": META}
    first = await client.result("resources/read", params)
    assert "ttlMs" not in first

    last = await client.result(
        "resources/read",
        {
            **params,
            "requestState": first["requestState"],
            "inputResponses": {"question-1": {"action": "decline"}},
        },
    )

    assert (last["ttlMs"], last["cacheScope"]) == (0, "private")


async def test_lists_with_translated_texts_are_not_publicly_cacheable(server: MCPServer):
    """They are in the language of who asks."""
    for method in (*LIST_METHODS, "server/discover"):
        server.set_list_cache_hint(method, SHARED)
    client = WireClient(server, V2026_07_28)
    assert (await client.result("resources/list"))["cacheScope"] == "public"

    server.register_prompt(lambda: "x", name="p", title=gettext_lazy("Delete"))

    for method in (*LIST_METHODS, "server/discover"):
        if method != "tools/list":
            found = await client.result(method)
            assert (found["ttlMs"], found["cacheScope"]) == (5, "private")


@pytest.mark.http_only("a pipe has one language")
@pytest.mark.parametrize(
    "options",
    [
        {"title": gettext_lazy("Delete")},
        {"description": gettext_lazy("Delete")},
        {"meta": {"example.com/labels": [{"short": gettext_lazy("Delete")}]}},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_list_with_translated_texts_is_kept_for_each_language(options: Any):
    server = MCPServer("tests")
    server.register_prompt(lambda: "x", name="p", **options)
    use_ports(server, find_language=get_language)
    client = WireClient(server, V2026_07_28)

    for language in ("en", "de", "en"):
        with override(language):
            await client.result("prompts/list")

    assert len(server.engine.derived.lists) == 2


async def test_texts_of_extensions_count_as_translated():
    class Named(Extension):
        identifier = "com.example/named"
        settings = {"label": gettext_lazy("Delete")}

    server = MCPServer("tests", extensions=[Named])

    assert server.engine.derived.has_lazy_texts


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_older_clients_get_no_caching_hints(server: MCPServer, revision: Any):
    client = WireClient(server, revision)

    read = await client.result("resources/read", {"uri": "x://plain"})

    assert not {"ttlMs", "cacheScope"} & {*read, *await client.result("resources/list")}
