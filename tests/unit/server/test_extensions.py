"""An extension of a third party: all that it can add to a server, and what a server without it does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp.protocol.errors import ProtocolError, Refusal, ToolError
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.decorators import Registration
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import Allowed, Requirements, VisibleEntries
from django_mcp.server.extension import Extension, ExtensionMethod, Listening, NextCall
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory import OpenAccess
from django_mcp.server.streams.stream import PushStream
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import Modern
from tests.support.wire import HANDSHAKE, META, V2025_06_18, V2025_11_25, V2026_07_28, WireClient

RECEIPTS = "com.example/receipts"
DECLARED: dict[str, Any] = {"_meta": {META + "clientCapabilities": {"extensions": {RECEIPTS: {}}}}}


class Receipts(Extension):
    """Adds a receipt to the results of some tools, and keeps receipts."""

    identifier = RECEIPTS
    settings = {"kinds": ["pdf"]}
    listen_keys = ("receipts",)
    call_params = ("receipt",)
    describes = True

    def __init__(self) -> None:
        self.received: list[JSONObject] = []
        self.ticks = 0
        self.has_ticked = asyncio.Event()
        self.has_shut_down = False

    def is_offered(self, registry: Registry) -> bool:
        return "closed" not in registry.tools

    def find_settings(
        self, revision: str, client_info: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        name = (client_info or {}).get("name")
        return None if name == "old" else {**self.settings, "at": revision}

    @classmethod
    def register(cls, entries: Registration) -> None:
        @entries.tool(name="last_receipt", extensions={RECEIPTS: "last"})
        async def last_receipt(ctx: Context[Any]) -> str:
            return str(ctx.extensions[RECEIPTS])

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {
            "receipts/get": ExtensionMethod(answer=self.get, mirrored_param="number"),
            "receipts/count": ExtensionMethod(
                answer=self.count, revisions=[V2025_06_18.name], needs_declaration=False
            ),
        }

    async def get(self, call: Any) -> Mapping[str, Any]:
        if call.params.get("number") != "1":
            raise ProtocolError("There is no such receipt", code=404)
        return {"total": 5, "method": call.context.method}

    async def count(self, _call: Any) -> Mapping[str, Any]:
        return {"count": 1}

    @classmethod
    def read_option(cls, value: Any) -> Any:
        if value not in ("all", "last"):
            raise ValueError("it is neither 'all' nor 'last'")
        return {"kept": value}

    def wraps(self, tool: ToolEntry) -> bool:
        return self.option_of(tool) is not None

    async def call_tool(
        self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
    ) -> Mapping[str, Any] | Refusal:
        result = await call_next.result()
        if isinstance(result, Refusal):
            return result
        return {**result, "_meta": {RECEIPTS: [tool.name, arguments]}}

    def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
        return {"_meta": {RECEIPTS: self.option_of(entry)}}

    async def listen(self, call: Any, key: str, wanted: Any) -> Listening | Refusal:
        if type(wanted) is not str:
            raise ProtocolError("receipts must be a string", code=1)

        async def watch(stream: PushStream) -> None:
            stream.offer(stream.encode("notifications/receipts", {"of": wanted}))

        return Listening(acknowledged=wanted, watch=watch)

    def receive(self, server: Any, data: JSONObject) -> None:
        self.received.append({**data, "server": server.name})

    async def tick(self, server: Any) -> None:
        self.ticks += 1
        self.has_ticked.set()

    async def shutdown(self, server: Any) -> None:
        self.has_shut_down = True

    def make_context(self, call: Any) -> str:
        return f"receipts of {call.method}"


class Other(Extension):
    identifier = "com.example/other"

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {"receipts/get": ExtensionMethod(answer=self.methods)}  # type: ignore[arg-type]


class Greedy(Extension):
    identifier = "com.example/greedy"

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {"tools/list": ExtensionMethod(answer=self.methods)}  # type: ignore[arg-type]


class Listing(Extension):
    identifier = "com.example/listing"
    listen_keys = ("toolsListChanged",)


class Naming(Extension):
    identifier = "com.example/naming"
    call_params = ("name",)


class Denying(Extension):
    """Refuses each call of a tool, as one that asks for a payment may."""

    identifier = "com.example/denying"

    def wraps(self, tool: ToolEntry) -> bool:
        return True

    async def call_tool(
        self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
    ) -> Mapping[str, Any]:
        raise ProtocolError("denied", code=9)


class Faulty(Extension):
    """Fails wherever a request passes."""

    identifier = "com.example/faulty"
    describes = True

    def find_settings(self, revision: str, client_info: Mapping[str, Any] | None) -> None:
        raise ZeroDivisionError

    def is_active(self, call: Any) -> bool:
        return True

    def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
        raise ZeroDivisionError

    def tick(self, server: Any) -> None:
        raise ZeroDivisionError


def make_server(*extensions: Any) -> MCPServer:
    server = MCPServer("shop", extensions=extensions or (Receipts,))

    @server.tool(extensions={} if extensions else {RECEIPTS: "all"}, meta={"example.com/a": 1})
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    @server.tool
    async def look() -> str:
        return "nothing"

    return server


@pytest.fixture
async def server() -> MCPServer:
    return make_server()


@pytest.fixture
def client(server: MCPServer) -> WireClient:
    return WireClient(server, V2026_07_28)


def receipts_of(server: MCPServer) -> Receipts:
    found = server.engine.extensions[RECEIPTS]
    assert isinstance(found, Receipts)
    return found


@pytest.mark.parametrize("revision", [*HANDSHAKE, V2026_07_28], ids=lambda each: each.name)
async def test_its_settings_depend_on_the_revision_and_the_client(server: MCPServer, revision: Any):
    def told(name: str) -> Any:
        found = server.engine.capabilities_for(
            revision, Exchange(channel=Channel(can_stream=True)), {"name": name}
        )
        return found.get("extensions", {}).get(RECEIPTS)

    has_extensions = revision in (V2025_11_25, V2026_07_28)
    expected = {"kinds": ["pdf"], "at": revision.name} if has_extensions else None
    assert (told("new"), told("old")) == (expected, None)


async def test_its_method_answers_clients_that_declared_it(client: WireClient):
    _, body = await client.send("receipts/get", {"number": "1", **DECLARED}, mcp_name="1")
    _, undeclared = await client.error("receipts/get", {"number": "1"}, mcp_name="1")
    _, missing = await client.error("receipts/get", {"number": "2", **DECLARED}, mcp_name="2")

    result = body["result"]
    assert (result["total"], result["method"]) == (5, "receipts/get")
    assert result["resultType"] == "complete"
    assert undeclared["data"] == {"requiredCapabilities": {"extensions": {RECEIPTS: {}}}}
    assert (missing["code"], missing["message"]) == (404, "There is no such receipt")


async def test_its_method_exists_at_its_revisions_only(server: MCPServer):
    _, counted = await WireClient(server, V2025_06_18).send("receipts/count")
    _, newer = await WireClient(server, V2026_07_28).error("receipts/count")
    _, older = await WireClient(server, V2025_06_18).error("receipts/get", {"number": "1"})

    assert counted["result"] == {"count": 1}

    assert newer["message"] == "Unknown method: receipts/count"
    assert older["message"] == "Unknown method: receipts/get"


@pytest.mark.http_only("a pipe has no headers")
async def test_a_mirrored_param_must_agree_with_its_header(client: WireClient):
    _, error = await client.error("receipts/get", {"number": "1", **DECLARED}, mcp_name="2")

    assert "Mcp-Name" in error["message"]


async def test_it_wraps_the_tools_with_its_option(client: WireClient):
    paid = await client.result("tools/call", {"name": "pay", "arguments": {"amount": 5}})
    looked = await client.result("tools/call", {"name": "look"})

    assert paid["content"][0]["text"] == "paid 5"
    assert paid["_meta"][RECEIPTS] == ["pay", {"amount": 5}]
    assert RECEIPTS not in looked["_meta"]


async def test_it_wraps_a_call_with_its_param(client: WireClient):
    looked = await client.result("tools/call", {"name": "look", "receipt": True, **DECLARED})
    undeclared = await client.result("tools/call", {"name": "look", "receipt": True})

    assert looked["_meta"][RECEIPTS] == ["look", {}]
    assert RECEIPTS not in undeclared["_meta"]


async def test_a_wrapped_call_is_checked_first(client: WireClient):
    result = await client.result("tools/call", {"name": "pay", "arguments": {"amount": "x"}})

    assert result["isError"] is True
    assert RECEIPTS not in result["_meta"]


async def test_its_tools_are_listed_and_have_its_object(client: WireClient):
    listed = await client.result("tools/list")
    called = await client.result("tools/call", {"name": "last_receipt"})

    assert [each["name"] for each in listed["tools"]] == ["pay", "look", "last_receipt"]
    assert called["content"][0]["text"] == "receipts of tools/call"


async def test_it_describes_entries_to_clients_that_declared_it(client: WireClient):
    told = (await client.result("tools/list", DECLARED))["tools"]
    others = (await client.result("tools/list"))["tools"]

    assert told[0]["_meta"] == {"example.com/a": 1, RECEIPTS: {"kept": "all"}}
    assert told[1]["_meta"] == {RECEIPTS: None}
    assert others[0]["_meta"] == {"example.com/a": 1}
    assert "_meta" not in others[1]


async def test_its_fields_are_in_the_language_of_each_caller():
    language = "en"

    class Translated(Extension):
        identifier = "com.example/translated"
        describes = True

        def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
            return {"_meta": {self.identifier: language}}

    server = make_server(Translated)
    use_ports(server, find_language=lambda: language)
    meta: dict[str, Any] = {
        META + "clientCapabilities": {"extensions": {Translated.identifier: {}}}
    }
    found = []
    for language in ("en", "de", "en"):  # noqa: B007 - the extension reads it
        listed = await WireClient(server, V2026_07_28).result("tools/list", {"_meta": meta})
        found.append(listed["tools"][0]["_meta"][Translated.identifier])

    assert found == ["en", "de", "en"]


async def test_a_stream_listens_to_its_key(server: MCPServer):
    client = StreamClient(server, V2026_07_28)
    params = {"notifications": {"receipts": "all"}, **DECLARED}
    stream = client.begin("subscriptions/listen", params)
    acknowledged, noticed = await stream.sink.message(), await stream.sink.message()
    stream.leave()

    assert acknowledged["params"]["notifications"] == {"receipts": "all"}
    assert (noticed["method"], noticed["params"]["of"]) == ("notifications/receipts", "all")


async def test_a_wrong_key_of_a_stream_is_refused(client: WireClient):
    _, error = await client.error(
        "subscriptions/listen", {"notifications": {"receipts": 1}, **DECLARED}
    )

    assert error["message"] == "receipts must be a string"


async def test_it_receives_what_another_process_sent(server: MCPServer):
    sent: list[JSONObject] = []
    hub = server.engine.join_hub()
    hub.bus.send_now = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]
    await asyncio.to_thread(_tell, server, {"paid": 1})

    for wire in sent:
        hub.receive(wire)
    hub.receive({**sent[0], "extension": "com.example/unknown"})

    assert receipts_of(server).received == [{"paid": 1, "server": "shop"}]


def _tell(server: MCPServer, data: JSONObject) -> None:
    async def tell() -> None:
        server.engine.tell(RECEIPTS, data)

    asyncio.run(tell())


async def test_it_works_with_the_hub(server: MCPServer):
    hub = server.engine.join_hub()
    for function in hub.on_tick:
        found = function(hub)
        if asyncio.iscoroutine(found):
            await found
    async with asyncio.timeout(10):
        await receipts_of(server).has_ticked.wait()
    await hub.prepare_to_stop()

    assert (receipts_of(server).ticks, receipts_of(server).has_shut_down) == (1, True)


async def test_its_entries_are_registered_once_when_settings_change(server: MCPServer):
    before = list(server.registry.tools)
    server.forget_settings()

    assert list(server.registry.tools) == before == ["pay", "look", "last_receipt"]


async def test_what_is_not_offered_is_unknown(server: MCPServer, client: WireClient):
    @server.tool
    async def closed() -> str:
        return ""

    assert RECEIPTS not in (await client.result("server/discover"))["capabilities"].get(
        "extensions", {}
    )
    _, error = await client.error("receipts/get", {"number": "1", **DECLARED}, mcp_name="1")
    assert error["message"] == "Unknown method: receipts/get"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({RECEIPTS: "some"}, "neither 'all' nor 'last'"),
        ({"com.example/none": 1}, "the server has no such extension"),
        ({1: 2}, "a dict from identifiers"),
    ],
)
async def test_a_wrong_option_is_refused_at_registration(
    server: MCPServer, options: Any, message: str
):
    with pytest.raises(RegistrationError, match=message):
        server.register_tool(lambda: "", name="x", extensions=options)


@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        ((Receipts, Other), "have the same method 'receipts/get'"),
        ((Greedy,), "'tools/list', which is one of the protocol"),
        ((Listing,), "'toolsListChanged', which is one of the protocol"),
        ((Naming,), "'name', which is one of the protocol"),
        ((Receipts, Receipts), "two extensions 'com.example/receipts'"),
    ],
)
async def test_extensions_that_collide_are_refused(extensions: Any, message: str):
    with pytest.raises(ValueError, match=message):
        _ = make_server(*extensions).engine


def test_an_identifier_has_a_prefix():
    with pytest.raises(TypeError, match="no name for an extension"):
        type("Bad", (Extension,), {"identifier": "receipts"})


@dataclass
class Sure:
    sure: bool


async def test_a_question_of_a_wrapped_tool_stays_a_question(server: MCPServer, client: WireClient):
    @server.tool(extensions={RECEIPTS: "all"})
    async def ask(ctx: Context[Any]) -> str:
        return f"{(await ctx.aelicit('Sure?', Sure)).action}"

    meta: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
    asked = await client.result("tools/call", {"name": "ask", "_meta": meta})
    key, answer = next(iter(asked["inputRequests"])), {"action": "decline"}
    ended = await client.result(
        "tools/call",
        {
            "name": "ask",
            "inputResponses": {key: answer},
            "requestState": asked["requestState"],
            "_meta": meta,
        },
    )

    assert asked["resultType"] == "input_required"
    assert ended["content"][0]["text"] == "decline"


@pytest.mark.parametrize("task", ["allowed", "auto"])
async def test_what_wraps_a_tool_wraps_the_run_of_its_task(task: str):
    server = MCPServer("shop", extensions=[Denying])
    runs: list[int] = []

    @server.tool(task=task)
    async def spend() -> str:
        runs.append(1)
        return "spent"

    client = Modern(server)
    _, body = await client.send("tools/call", {"name": "spend", "arguments": {}})
    while body.get("result", {}).get("status") == "working":
        await asyncio.sleep(0)
        _, body = await client.send("tasks/get", {"taskId": body["result"]["taskId"]})

    error = body["error"] if "error" in body else body["result"]["error"]
    assert (error["code"], runs) == (9, [])


async def test_a_call_goes_on_once():
    class Twice(Denying):
        identifier = "com.example/twice"

        async def call_tool(
            self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
        ) -> Any:
            await call_next()
            return await call_next()

    runs: list[int] = []
    server = MCPServer("shop", extensions=[Twice])

    @server.tool
    async def spend() -> str:
        runs.append(1)
        return "spent"

    _, error = await WireClient(server, V2026_07_28).error("tools/call", {"name": "spend"})

    assert (error["message"], runs) == ("Internal error", [1])


async def test_one_that_fails_is_left_out_and_logged(caplog: pytest.LogCaptureFixture):
    server = MCPServer("shop", extensions=[Faulty])

    @server.tool
    async def look() -> str:
        return "nothing"

    client = WireClient(server, V2026_07_28)
    told = (await client.result("server/discover"))["capabilities"]
    listed = (await client.result("tools/list"))["tools"]
    for function in server.engine.join_hub().on_tick:
        found = function(server.engine.hub)
        if asyncio.iscoroutine(found):
            await found

    assert (told.get("extensions"), [each["name"] for each in listed]) == (None, ["look"])
    for name in ("find_capabilities()", "describe()", "regular work"):
        assert any(name in each and Faulty.identifier in each for each in caplog.messages), name


async def test_its_methods_and_keys_need_the_permission_of_the_server():
    server = MCPServer("shop", extensions=[Receipts], permission="shop.see")

    class Nobody(OpenAccess):
        def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
            return VisibleEntries(requirements)

    use_ports(server, access=Nobody())
    client = WireClient(server, V2026_07_28)
    _, hidden = await client.error("receipts/get", {"number": "1", **DECLARED}, mcp_name="1")
    _, unknown = await client.error("receipts/put", {"number": "1", **DECLARED}, mcp_name="1")
    stream = StreamClient(server, V2026_07_28).begin(
        "subscriptions/listen", {"notifications": {"receipts": "all"}, **DECLARED}
    )
    acknowledged = await stream.sink.message()
    stream.leave()

    assert {**hidden, "message": ""} == {**unknown, "message": ""}
    assert hidden["message"] == unknown["message"].replace("put", "get")
    assert acknowledged["params"]["notifications"] == {}


async def test_restricted_credentials_do_not_use_its_methods():
    server = make_server()

    class Restricted(OpenAccess):
        def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
            return VisibleEntries(requirements, allowed=Allowed(tools=frozenset({"pay"})))

    use_ports(server, access=Restricted())
    client = WireClient(server, V2026_07_28)
    _, hidden = await client.error("receipts/get", {"number": "1", **DECLARED}, mcp_name="1")

    assert hidden["message"] == "Unknown method: receipts/get"


async def test_what_only_some_clients_are_told_is_not_public():
    class Describing(Extension):
        identifier = "com.example/describing"
        describes = True

    class Telling(Describing):
        identifier = "com.example/telling"

        def find_settings(self, revision: str, client_info: Any) -> Mapping[str, Any]:
            return client_info or {}

    async def scope_of(extension: type[Extension], method: str, *, is_declared: bool) -> str:
        server = make_server(extension)
        server.set_list_cache_hint(method, CacheHint(ttl_ms=1000, scope="public"))
        declared: dict[str, Any] = {extension.identifier: {}} if is_declared else {}
        meta = {META + "clientCapabilities": {"extensions": declared}}
        result = await WireClient(server, V2026_07_28).result(method, {"_meta": meta})
        return str(result["cacheScope"])

    assert await scope_of(Describing, "tools/list", is_declared=False) == "public"
    assert await scope_of(Describing, "tools/list", is_declared=True) == "private"
    assert await scope_of(Telling, "server/discover", is_declared=False) == "private"


@pytest.mark.http_only("a failure beside a stream")
async def test_a_stream_ends_when_what_runs_beside_it_fails(caplog: pytest.LogCaptureFixture):
    class Failing(Receipts):
        identifier = "com.example/failing"
        listen_keys = ("failing",)

        @classmethod
        def register(cls, entries: Registration) -> None:
            """It has no entries."""

        async def listen(self, call: Any, key: str, wanted: Any) -> Listening:
            async def watch(_stream: PushStream) -> None:
                raise ZeroDivisionError

            return Listening(acknowledged=True, watch=watch)

        def is_active(self, call: Any) -> bool:
            return True

    client = StreamClient(MCPServer("shop", extensions=[Failing]), V2026_07_28)
    stream = client.begin("subscriptions/listen", {"notifications": {"failing": True}})
    await stream.reply()

    assert "An extension failed beside a listening stream" in caplog.text


@pytest.mark.parametrize("data", [{"a": "x" * 5000}, {"a": object()}])
async def test_what_other_processes_cannot_be_told_is_refused(server: MCPServer, data: Any):
    with pytest.raises(ValueError, match=RECEIPTS):
        server.engine.tell(RECEIPTS, data)


async def test_data_is_told_from_a_thread_without_an_event_loop(server: MCPServer):
    sent: list[JSONObject] = []
    hub = server.engine.join_hub()
    hub.bus.send_now = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]

    await asyncio.to_thread(server.engine.tell, RECEIPTS, {"paid": 1})

    assert [each["data"] for each in sent] == [{"paid": 1}]


async def test_a_tool_error_of_a_wrapper_is_that_of_the_tool():
    class Selling(Denying):
        identifier = "com.example/selling"

        async def call_tool(
            self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
        ) -> Any:
            raise ToolError("Buy a ticket first")

    client = WireClient(make_server(Selling), V2026_07_28)

    result = await client.result("tools/call", {"name": "look"})

    assert result["isError"] is True
    assert result["content"][0]["text"] == "Buy a ticket first"


@pytest.mark.parametrize(
    ("name", "is_error", "expected"),
    [("look", True, "TOOL_ERROR"), ("fail", False, None), ("fail", True, "FAULT")],
)
async def test_observers_see_whether_the_result_of_a_wrapper_is_an_error(
    name: str, *, is_error: bool, expected: str | None
):
    class Judging(Denying):
        identifier = "com.example/judging"

        async def call_tool(
            self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
        ) -> Any:
            result: Any = await call_next.result()
            return {**result, "isError": is_error}

    kinds: list[str | None] = []
    server = make_server(Judging)

    @server.tool
    async def fail() -> str:
        raise ZeroDivisionError

    def observe(call: Call, answer: Any, duration_s: float) -> None:
        kinds.append(call.failure.kind.name if call.failure is not None else None)

    use_ports(server, find_observer=lambda: observe)

    result = await WireClient(server, V2026_07_28).result("tools/call", {"name": name})

    assert result["isError"] is is_error
    assert kinds == [expected]


@pytest.mark.parametrize("name", ["wraps", "receive", "describe", "is_offered", "make_context"])
def test_an_asynchronous_method_that_nobody_awaits_is_refused(name: str):
    async def method(self: Any, *_given: Any) -> None: ...

    with pytest.raises(TypeError, match=f"Wrong.{name} is asynchronous"):
        type("Wrong", (Extension,), {"identifier": "com.example/wrong", name: method})


@pytest.mark.parametrize("name", ["register", "read_option"])
def test_a_method_of_objects_in_place_of_one_of_the_class_is_refused(name: str):
    def method(self: Any, _given: Any) -> None: ...

    with pytest.raises(TypeError, match=f"Wrong.{name} is no class method"):
        type("Wrong", (Extension,), {"identifier": "com.example/wrong", name: method})


@pytest.mark.parametrize(("size", "is_refused"), [(16 * 1024 - 2, False), (16 * 1024 - 1, True)])
async def test_the_value_of_a_listening_key_has_a_limit(
    server: MCPServer, size: int, *, is_refused: bool
):
    client = StreamClient(server, V2026_07_28)
    params = {"notifications": {"receipts": "x" * size}, **DECLARED}
    stream = client.begin("subscriptions/listen", params)
    first = await (stream.reply() if is_refused else stream.sink.message())
    stream.leave()

    assert ("16384 bytes" in str(getattr(first, "body", first))) is is_refused
