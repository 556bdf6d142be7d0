"""Calls that a model repeats with other arguments: which ones it changed is recorded, and no value."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import override_settings

from django_mcp.calls import flush_calls
from django_mcp.calls.recorder import MAX_COMPARED_BODY_BYTES, forget_calls
from django_mcp.calls.repeats import KEPT_S, MAX_COMPARED, PERIOD_S, old_last_calls
from django_mcp.calls.rows import find_prunes
from django_mcp.models import CallRecord, LastCall
from django_mcp.servers import MCPServer
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "the secret of Ann"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with override_settings(DJANGO_MCP={"RECORD_CALLS": True, "SYNC_THREADS": 0, "PUBLIC": True}):
        yield
        forget_calls()


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("calls", unknown_arguments="drop")

    @server.tool
    def find(text: str = "", page: int = 1) -> str:
        return text * page

    @server.tool
    def other(text: str = "") -> str:
        return text

    return server


def caller(key: str) -> Any:
    return SimpleNamespace(key=key, user=None, is_authenticated=True)


def client_of(server: MCPServer, key: str = "test:ann") -> WireClient:
    return WireClient(server, V2026_07_28, principal=caller(key))


def call(client: WireClient, *given: dict[str, Any] | None, name: str = "find") -> None:
    async def send() -> None:
        for arguments in given:
            more = {} if arguments is None else {"arguments": arguments}
            await client.send("tools/call", {"name": name, **more})

    async_to_sync(send)()


def varied() -> list[str]:
    """Return what is recorded of the calls, the oldest first."""
    flush_calls()
    return list(CallRecord.objects.order_by("started_at", "pk").values_list("varied", flat=True))


@pytest.mark.parametrize(
    ("first", "second", "changed"),
    [
        ({"text": "a", "page": 1}, {"text": "b", "page": 1}, "text"),
        ({"text": "a", "page": 1}, {"text": "b", "page": 2}, "text, page"),
        ({"text": "a"}, {"text": "a", "page": 2}, "page"),
        ({"text": "a", "page": 2}, {"text": "a"}, "page"),
        ({"text": "a"}, {"text": "a", "secret": "x"}, "?"),
        ({"text": "a", "secret": "y"}, {"text": "a", "secret": "x"}, "?"),
        # Refused, and then corrected by the model.
        ({"text": ["a"]}, {"text": "a"}, "text"),
        ({"text": "a", "page": 1}, {"page": 1, "text": "a"}, ""),
        ({}, {}, ""),
    ],
)
@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_repeated_call_names_the_arguments_that_changed(
    server: MCPServer, first: Any, second: Any, changed: str, is_at_once: bool
):
    client = client_of(server)
    call(client, first)
    if not is_at_once:
        # Another process may write the second one.
        flush_calls()
    call(client, second)

    assert varied() == ["", changed]


def test_each_call_is_compared_with_the_one_before(server: MCPServer):
    call(client_of(server), {"text": "a"}, {"text": "b"}, {"text": "b"}, {"text": "a"})

    assert varied() == ["", "text", "", "text"]


def test_other_callers_and_tools_are_no_repetition(server: MCPServer):
    call(client_of(server, "test:ann"), {"text": "a"})
    call(client_of(server, "test:bob"), {"text": "b"})
    call(client_of(server, "test:ann"), {"text": "c"}, name="other")

    assert varied() == [""] * 3


def test_two_sessions_of_a_user_are_two_callers(server: MCPServer):
    first, second = (
        WireClient(server, V2025_11_25, principal=caller("test:ann")) for _ in range(2)
    )
    for client, text in ((first, "a"), (second, "b"), (second, "c")):
        async_to_sync(client.open)()
        call(client, {"text": text})

    assert varied() == ["", "", "text"]


def test_callers_that_are_not_known_are_not_compared(server: MCPServer):
    call(WireClient(server, V2026_07_28), {"text": "a"}, {"text": "b"})

    assert varied() == ["", ""]
    assert LastCall.objects.count() == 0


def test_a_call_after_more_than_a_minute_is_no_repetition(server: MCPServer):
    client = client_of(server)
    call(client, {"text": "a"})
    flush_calls()
    last = LastCall.objects.get()
    LastCall.objects.update(started_s=last.started_s - PERIOD_S - 1)
    call(client, {"text": "b"})

    assert varied() == ["", ""]


def test_last_calls_are_deleted_soon(server: MCPServer):
    call(client_of(server, "test:ann"), {"text": "a"})
    flush_calls()
    LastCall.objects.update(started_s=1e9)
    call(client_of(server, "test:bob"), {"text": "a"})
    flush_calls()
    for prune in find_prunes():
        prune()

    [left] = LastCall.objects.all()
    assert list(old_last_calls(left.started_s + KEPT_S + 1)) == [left]
    assert CallRecord.objects.count() == 2


def test_no_value_of_an_argument_is_kept(server: MCPServer):
    client = client_of(server)
    call(client, {"text": SECRET, SECRET: SECRET}, {"text": f"{SECRET}!", SECRET: 1})
    assert varied() == ["", "text, ?"]

    with connection.cursor() as cursor:
        for model in (CallRecord, LastCall):
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            assert SECRET not in repr(cursor.fetchall())


def test_digests_are_those_of_one_site_server_caller_tool_and_argument(server: MCPServer):
    second = MCPServer("second", public=True)

    @second.tool
    def find(text: str = "", page: str = "") -> str:
        return text + page

    def digests(asked: MCPServer, key: str, name: str, arguments: dict[str, str]) -> list[str]:
        LastCall.objects.all().delete()
        call(client_of(asked, key), arguments, name=name)
        flush_calls()
        last = LastCall.objects.get()
        return [last.digest, *(last.arguments[at : at + 8] for at in range(0, 16, 8))]

    same = {"text": "7", "page": "7"}
    [row, text, page] = digests(server, "test:ann", "find", same)
    assert digests(server, "test:ann", "find", same) == [row, text, page]
    others = [
        digests(second, "test:ann", "find", same),
        digests(server, "test:bob", "find", same),
        digests(server, "test:ann", "other", same),
    ]
    with override_settings(SECRET_KEY="another"):
        others.append(digests(server, "test:ann", "find", same))

    assert text != page
    assert len({row, *(other[0] for other in others)}) == 5
    assert len({text, *(other[1] for other in others)}) == 5


def test_large_and_many_arguments_are_bounded(server: MCPServer):
    many = [f"a{at}" for at in range(2 * MAX_COMPARED)]

    def wide(**given: int) -> str:
        return "done"

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=int) for name in many]
    wide.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    wide.__annotations__ = {**dict.fromkeys(many, int), "return": str}
    server.tool(wide)

    client = client_of(server)
    large = "x" * MAX_COMPARED_BODY_BYTES
    call(client, {"text": large}, {"text": f"{large}y"})
    assert LastCall.objects.count() == 0
    call(client, dict.fromkeys(many, 1), dict.fromkeys(many, 2), name="wide")
    found = varied()

    assert found[:2] == ["", ""]
    assert found[3].startswith("a0, a1, ")
    assert len(found[3]) <= 200
    field: Any = LastCall._meta.get_field("arguments")
    assert len(LastCall.objects.get().arguments) == 8 * (MAX_COMPARED + 1) <= field.max_length


def test_calls_that_are_not_recorded_are_not_compared(server: MCPServer):
    with override_settings(
        DJANGO_MCP={"RECORD_CALLS": True, "SYNC_THREADS": 0, "RECORDED_CALLS_PER_MINUTE": 1}
    ):
        call(client_of(server), {"text": "a"}, {"text": "b"})
        assert varied() == [""]
    [last] = LastCall.objects.all()
    started_s = CallRecord.objects.get().started_at.timestamp()
    assert last.started_s == pytest.approx(started_s, abs=1e-5)
