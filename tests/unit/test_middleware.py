"""MCP middleware: around each exchange, on every transport."""

from __future__ import annotations

import asyncio
import logging
import sys
import tracemalloc
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_mcp import Context
from django_mcp.extensions.tasks.core.memory import MemoryTasks
from django_mcp.inprocess import MCPError
from django_mcp.middleware import (
    AccessMiddleware,
    GetReply,
    RequestIDFilter,
    RequestIDMiddleware,
    TenantMiddleware,
    find_language,
    load_middleware,
)
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.servers import MCPServer
from django_mcp.test import MCPClient
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.legacy_sse import LegacyStreamConsumer
from tests.support.doc_blocks import ROOT, blocks_of
from tests.support.http.harness import http_scope, part, talk
from tests.support.ports import use_task_ports
from tests.support.server.tasks import Person
from tests.support.wire import V2026_07_28, headers_for, message

HERE = "tests.unit.test_middleware"
OURS = "django_mcp.middleware"


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("middleware", atomic=False)

    @server.tool(title=gettext_lazy("Not found."))
    def language() -> str:
        return translation.get_language() or ""

    @server.tool
    def which_tenant() -> str:
        return tenant.get()

    @server.tool
    def log() -> None:
        logging.getLogger("shop").warning("from a thread")

    return server


def exchange_of(method: str, params: Any = None, **headers: str) -> Exchange:
    request = message(method, params, revision=V2026_07_28)
    found = headers_for(request, V2026_07_28) | {k.replace("_", "-"): v for k, v in headers.items()}
    raw = [(key.encode(), value.encode()) for key, value in found.items()]
    return Exchange(body=encode(request), headers=Headers(raw))


async def call(server: MCPServer, tool: str, **headers: str) -> str:
    reply = await server.engine.answer(exchange_of("tools/call", {"name": tool}, **headers))
    assert reply.body is not None
    return str(decode(reply.body)["result"]["content"][0]["text"])


# -- the list


events: list[str] = []


def outer(get_reply: GetReply) -> GetReply:
    def middleware(exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        async def answer() -> Reply:
            events.append("outer in")
            reply = await get_reply(exchange)
            events.append("outer out")
            return reply

        return answer()

    return middleware


class Inner:
    def __init__(self, get_reply: GetReply) -> None:
        self.get_reply = get_reply

    async def __call__(self, exchange: Exchange) -> Reply:
        events.append("inner")
        return await self.get_reply(exchange)


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.outer", f"{HERE}.Inner"]})
async def test_the_first_middleware_in_the_list_is_outermost(server: MCPServer):
    events.clear()

    await call(server, "language")

    assert events == ["outer in", "inner", "outer out"]


async def test_a_changed_middleware_list_takes_effect(server: MCPServer):
    events.clear()

    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.Inner"]}):
        await call(server, "language")
    await call(server, "language")

    assert events == ["inner"]


def test_an_empty_middleware_list_adds_nothing():
    async def get_reply(exchange: Exchange) -> Reply:
        raise NotImplementedError

    assert load_middleware([], get_reply) is get_reply


@pytest.mark.parametrize("path", [f"{HERE}.nothing", "nowhere.at.All", f"{HERE}.HERE", "nowhere"])
def test_middleware_that_cannot_be_imported_raises(path: str):
    with pytest.raises(ImproperlyConfigured, match="MIDDLEWARE"):
        load_middleware([path], MCPServer("x").engine.answer)


def make_nothing(get_reply: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("django.middleware.locale.LocaleMiddleware", "is middleware of Django"),
        (f"{HERE}.make_nothing", "returned None in place of a function"),
    ],
)
def test_what_is_no_middleware_raises(path: str, says: str):
    with pytest.raises(ImproperlyConfigured, match=says):
        load_middleware([path], MCPServer("x").engine.answer)


def forget_return(get_reply: Any) -> Any:
    async def answer(exchange: Exchange) -> Any:
        await get_reply(exchange)

    return answer


def forget_await(get_reply: Any) -> Any:
    async def answer(exchange: Exchange) -> Any:
        return get_reply(exchange)

    return answer


@pytest.mark.parametrize("name", ["forget_return", "forget_await"])
def test_middleware_without_a_reply_is_logged_with_the_remedy(
    name: str, caplog: pytest.LogCaptureFixture
):
    with override_settings(DJANGO_MCP={"PUBLIC": True, "MIDDLEWARE": [f"{HERE}.{name}"]}):
        server = MCPServer("forgetful", public=True)
        with pytest.raises(MCPError, match="Internal error"):
            MCPClient(server).discover()

    assert "Write `return await get_reply(exchange)`." in caplog.text


# -- languages


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("fr, de;q=0.5, en;q=0.4", "de"),
        ("en;q=0.1, de;q=0.9", "de"),
        ("fr", None),
        ("*", None),
        ("*;q=0.5, de;q=0.1", None),
        ("", None),
        (";;;,,,", None),
        ("x" * 10_000, None),
    ],
)
def test_the_best_available_language_is_activated(header: str, language: str | None):
    assert find_language(header) == language


@given(st.text(max_size=200))
def test_any_accept_language_header_selects_a_language(header: str):
    assert find_language(header) in (None, "de", "en")


def test_security_long_accept_language_headers_are_not_kept():
    find_language("de" + ",en" * 20_000)
    tracemalloc.start()
    try:
        for number in range(100):
            assert find_language(f"de,en-{number}" + ",en" * 20_000) == "de"
        assert tracemalloc.get_traced_memory()[0] < 4_000_000  # Django keeps what it has read
    finally:
        tracemalloc.stop()


async def test_handlers_and_messages_use_the_callers_language(server: MCPServer):
    assert await call(server, "language") == "en"
    assert await call(server, "language", accept_language="de") == "de"
    assert await call(server, "language", accept_language="en") == "en"
    assert translation.get_language() == "en"

    reply = await server.engine.answer(exchange_of("tools/list", accept_language="de"))

    assert reply.body is not None
    assert decode(reply.body)["result"]["tools"][0]["title"] == "Nicht gefunden."


@pytest.mark.parametrize(
    ("title", "schema"),
    [
        (gettext_lazy("Not found."), {"type": "object"}),
        (None, {"type": "object", "description": gettext_lazy("Not found.")}),
    ],
)
async def test_each_caller_gets_the_lists_in_its_language(title: Any, schema: JSONObject):
    server = MCPServer("lists")
    server.register_tool(lambda arguments: "", name="t", title=title, input_schema=schema)
    texts = []
    for language in ("en", "de", "en"):
        reply = await server.engine.answer(exchange_of("tools/list", accept_language=language))
        assert reply.body is not None
        tool = decode(reply.body)["result"]["tools"][0]
        texts.append(tool["inputSchema"].get("description", tool["title"]))

    assert texts == ["Not found.", "Nicht gefunden.", "Not found."]


async def test_concurrent_exchanges_keep_their_languages(server: MCPServer):
    languages = ["de", "en"] * 10

    seen = await asyncio.gather(
        *[call(server, "language", accept_language=each) for each in languages]
    )

    assert seen == languages


@override_settings(USE_I18N=False)
async def test_without_translations_the_header_is_not_read(server: MCPServer):
    assert find_language("de") is None


async def test_an_exchange_without_headers_is_accepted(server: MCPServer):
    reply = await server.engine.answer(Exchange(body=exchange_of("tools/list").body))

    assert reply.status == 200


# -- request ids


WITH_ID = override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{OURS}.RequestIDMiddleware"]})


async def reply_to(server: MCPServer, **headers: str) -> tuple[Exchange, dict[bytes, bytes]]:
    exchange = exchange_of("tools/call", {"name": "log"}, **headers)
    reply = await server.engine.answer(exchange)
    return exchange, dict(reply.headers)


@WITH_ID
async def test_a_valid_request_id_of_the_caller_is_kept(server: MCPServer):
    exchange, headers = await reply_to(server, x_request_id="trace-1:2")

    assert exchange.request_id == "trace-1:2"
    assert headers[b"x-request-id"] == b"trace-1:2"


@WITH_ID
@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\x00b", "é"])
async def test_any_other_request_id_is_replaced(server: MCPServer, given: str):
    exchange, headers = await reply_to(server, **({"x_request_id": given} if given else {}))

    assert exchange.request_id not in (None, given)
    assert headers[b"x-request-id"].decode() == exchange.request_id


@WITH_ID
async def test_log_records_of_a_handler_contain_the_request_id(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    caplog.handler.addFilter(request_ids := RequestIDFilter())
    try:
        with caplog.at_level(logging.WARNING, "shop"):
            await reply_to(server, x_request_id="trace-1")
            logging.getLogger("shop").warning("outside")
    finally:
        caplog.handler.removeFilter(request_ids)

    found = [vars(record)["request_id"] for record in caplog.records if record.name == "shop"]
    assert found == ["trace-1", "-"]


async def test_all_else_of_a_reply_is_kept():
    """A client that lost the connection would get the response again without the id of its event."""

    async def get_reply(_exchange: Exchange) -> Reply:
        return Reply(200, b"{}", ((b"x", b"y"),), event_id="stream/7", is_dispensable=True)

    reply = await RequestIDMiddleware(get_reply)(Exchange())

    assert (reply.event_id, reply.is_dispensable) == ("stream/7", True)
    assert [name for name, _ in reply.headers] == [b"x", b"x-request-id"]


# -- tenants


tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class ByHeader(TenantMiddleware):
    def enter(self, exchange: Exchange) -> AbstractContextManager[object] | None:
        name = exchange.headers.get("x-tenant") if exchange.headers is not None else None
        return _in_force(name) if name else None


@contextmanager
def _in_force(name: str) -> Iterator[None]:
    token = tenant.set(name)
    try:
        yield
    finally:
        tenant.reset(token)


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.ByHeader"]})
async def test_a_tenant_is_active_during_the_exchange(server: MCPServer):
    names = [f"tenant-{number}" for number in range(10)]

    seen = await asyncio.gather(*[call(server, "which_tenant", x_tenant=each) for each in names])

    assert seen == names
    assert tenant.get() == "nobody"


class ByHost(TenantMiddleware):
    def enter(self, exchange: Exchange) -> AbstractContextManager[object] | None:
        name = exchange.headers.get("host") if exchange.headers is not None else None
        return _in_force(name or "")


class ByPrivateHeader(ByHeader):
    def name_tenant(self, exchange: Exchange) -> str:
        return tenant.get() if exchange.headers is None else exchange.headers.get("x-tenant") or ""


TENANTS = pytest.mark.parametrize(
    ("middleware", "header"), [("ByHost", "host"), ("ByPrivateHeader", "x_tenant")]
)
META: JSONObject = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
}


async def ask(server: MCPServer, method: str, params: JSONObject, **headers: str) -> dict[str, Any]:
    exchange = exchange_of(method, {**params, "_meta": META}, **headers)
    exchange.caller.principal = Person("user:1")
    reply = await server.engine.answer(exchange)
    assert reply.body is not None
    found: dict[str, Any] = decode(reply.body)
    return found


@TENANTS
async def test_the_state_of_a_call_counts_for_its_tenant_only(middleware: str, header: str):
    server = MCPServer("tenants that ask", atomic=False)

    @server.tool
    async def where(ctx: Context) -> str:
        async def kept() -> str:
            return tenant.get()

        name = await ctx.aonce("name", kept)
        await ctx.aelicit("Sure?", {"type": "object", "properties": {}})
        return f"{name} {tenant.get()}"

    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.{middleware}"]}):
        asked = await ask(server, "tools/call", {"name": "where"}, **{header: "one"})
        (key,) = asked["result"]["inputRequests"]
        again = {
            "name": "where",
            "requestState": asked["result"]["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {}}},
        }
        other = await ask(server, "tools/call", again, **{header: "two"})
        same = await ask(server, "tools/call", again, **{header: "one"})

    assert other["error"]["message"] == "Invalid requestState"
    assert same["result"]["content"][0]["text"] == "one one"


@TENANTS
async def test_a_task_is_unknown_to_other_tenants(middleware: str, header: str):
    server = MCPServer("tenants with tasks", atomic=False)

    @server.tool(task="required")
    async def where() -> str:
        return tenant.get()

    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.{middleware}"]}):
        use_task_ports(server, store=MemoryTasks())
        made = await ask(server, "tools/call", {"name": "where"}, **{header: "one"})
        params = {"taskId": made["result"]["taskId"]}
        name = {header: "two", "mcp_name": params["taskId"]}
        other = await ask(server, "tasks/get", params, **name)
        same = await ask(server, "tasks/get", params, **{**name, header: "one"})

    assert other["error"]["message"] == "Unknown task"
    assert same["result"]["taskId"] == params["taskId"]


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.ByHeader"]})
async def test_without_a_tenant_the_server_is_not_found(server: MCPServer):
    reply = await server.engine.answer(exchange_of("tools/list"))

    assert reply.status == 404
    assert reply.body is not None
    assert "error" in decode(reply.body)


class FromTheOffice(AccessMiddleware):
    def allows(self, exchange: Exchange) -> bool:
        return exchange.caller.address == "192.0.2.7"


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.FromTheOffice"]})
@pytest.mark.parametrize(("address", "status"), [("192.0.2.7", 200), ("192.0.2.8", 403)])
async def test_a_rule_of_the_site_refuses_exchanges(server: MCPServer, address: str, status: int):
    exchange = exchange_of("tools/list")
    exchange.caller.address = address

    reply = await server.engine.answer(exchange)

    assert reply.status == status
    assert reply.body is not None
    assert ("error" in decode(reply.body)) is (status == 403)


def user_time_zone(get_reply: GetReply) -> GetReply:
    async def answer(exchange: Exchange) -> Reply:
        user = getattr(exchange.caller.principal, "user", None)
        with timezone.override(getattr(user, "time_zone", None)):
            return await get_reply(exchange)

    return answer


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.user_time_zone"], "SESSION_STORE": "memory"})
@pytest.mark.parametrize("tool", ["in_thread", "on_loop"])
def test_arguments_are_read_in_the_time_zone_that_a_middleware_activates(tool: str):
    server = MCPServer("zones", public=True, atomic=False)

    @server.tool
    def in_thread(at: datetime) -> str:
        return f"{at.isoformat()} {timezone.get_current_timezone_name()}"

    @server.tool
    async def on_loop(at: datetime) -> str:
        return f"{at.isoformat()} {timezone.get_current_timezone_name()}"

    ann: Any = User.objects.create_user("ann")
    ann.time_zone = "Asia/Kolkata"
    told = [
        MCPClient(server, user=user).call(tool, at="2026-01-01T10:00:00").text
        for user in (ann, None)
    ]

    assert told == [
        "2026-01-01T10:00:00+05:30 Asia/Kolkata",
        f"2026-01-01T10:00:00+00:00 {timezone.get_default_timezone_name()}",
    ]


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.FromTheOffice"], "SESSION_STORE": "memory"})
@pytest.mark.parametrize(
    ("consumer", "method"),
    [
        (MCPConsumer, "POST"),
        (MCPConsumer, "GET"),
        (MCPConsumer, "DELETE"),
        (LegacyStreamConsumer, "GET"),
    ],
)
async def test_a_rule_of_the_site_holds_for_streams_and_the_end_of_sessions(
    consumer: Any, method: str
):
    public = MCPServer("rules", public=True)
    scope = http_scope(method, {"mcp-session-id": "s1", "last-event-id": "1"}, path="/sse")

    talked = await talk(consumer.as_asgi(server=public), scope, part(b"{}"))

    assert talked.status == 403
    assert b"Access denied" in talked.body


def test_a_rule_that_would_have_to_be_awaited_is_refused():
    with pytest.raises(TypeError, match="allows is asynchronous"):

        class Later(AccessMiddleware):
            async def allows(self, exchange: Exchange) -> bool:  # type: ignore[override]
                return False


class ByFunction(AccessMiddleware):
    def allows(self, exchange: Exchange) -> Any:
        return self._find()

    async def _find(self) -> bool:
        return False


@override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{HERE}.ByFunction"]})
async def test_a_coroutine_allows_nothing(server: MCPServer):
    with pytest.raises(TypeError, match="returned a coroutine"):
        await server.engine.answer(exchange_of("tools/list"))


def run_guide() -> ModuleType:
    """Return the module that the guide's example of a tenant by its host makes."""
    (block,) = [
        each
        for each in blocks_of(ROOT / "docs" / "howto" / "middleware.md")
        if "class ByHost" in each.text
    ]
    module = ModuleType("tenants_of_the_guide")
    exec(compile(block.text, str(block), "exec"), vars(module))
    return module


async def test_the_example_of_the_guide_serves_calls_without_headers(
    monkeypatch: pytest.MonkeyPatch,
):
    guide = run_guide()
    monkeypatch.setitem(sys.modules, guide.__name__, guide)
    server = MCPServer("tenants of the guide", public=True)

    @server.tool
    async def which() -> str:
        return f"at {guide.tenant.get()}"

    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{guide.__name__}.ByHost"]}):
        with guide.in_force("acme"):
            in_process = await server.acall_tool("which")
        there = await ask(server, "tools/call", {"name": "which"}, host="beta.example.com")
        nowhere = await ask(server, "tools/call", {"name": "which"}, host="localhost")

    assert in_process.text == "at acme"
    assert there["result"]["content"][0]["text"] == "at beta"
    assert nowhere["error"]["message"] == "There is no such tenant"
