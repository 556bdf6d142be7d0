"""The sizes of results in the record of calls, and the check that names tools with large ones."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import CheckMessage, Tags, run_checks
from django.test import override_settings

from django_mcp.calls import flush_calls
from django_mcp.contrib.models import ModelTools
from django_mcp.models import CallRecord
from django_mcp.protocol.content import EmbeddedResource, Image, TextContents
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.results import ToolResult
from django_mcp.servers import MCPServer
from example_project.shop.models import Product
from tests.unit.admin.test_reports import record_calls
from tests.unit.calls.test_calls import RECORDING, call

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG" + b"x" * 5000


def _rows(count: int) -> list[dict[str, int]]:
    return [{"number": number} for number in range(count)]


def _fail(count: int) -> str:
    raise ToolError("x" * count)


def _embed(count: int) -> ToolResult:
    resource = EmbeddedResource(TextContents("note://1", "x" * count))
    return ToolResult([resource, Image(PNG, mime_type="image/png"), "yes"])


def _only_data(count: int) -> ToolResult:
    return ToolResult([], structured={"text": "x" * count})


RESULTS: list[tuple[Any, int]] = [
    (lambda count: "ü" * count, 30),
    (_fail, 30),
    (_embed, 33),
    (lambda count: "", 0),
]


@override_settings(DJANGO_MCP=RECORDING)
@pytest.mark.parametrize(("function", "chars"), RESULTS)
def test_the_record_has_the_characters_that_a_model_reads(function: Any, chars: int):
    server = MCPServer("sized", public=True)

    @server.tool(name="answer")
    def answer(count: int) -> Any:
        return function(count)

    call(server, "answer", {"count": 30})
    flush_calls()

    assert CallRecord.objects.get().result_chars == chars


@override_settings(DJANGO_MCP=RECORDING)
def test_data_counts_by_its_text_and_once():
    server = MCPServer("sized", public=True)
    server.tool(name="rows")(_rows)
    server.tool(name="data")(_only_data)

    call(server, "rows", {"count": 1000})
    call(server, "data", {"count": 1000})
    flush_calls()

    found = dict(CallRecord.objects.values_list("name", "result_chars"))
    assert 14_000 < found["rows"] < 18_000
    assert 1000 < found["data"] < 1300


def find(databases: list[str] | None = None) -> list[CheckMessage]:
    found = run_checks(tags=[Tags.database], databases=databases)
    return [each for each in found if each.id == "django_mcp.W036"]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> MCPServer:
    # Those of earlier tests may still exist.
    server = MCPServer(f"sized-{request.node.name}")

    @server.tool
    def report() -> str:
        return ""

    @server.tool
    def page() -> str:
        return ""

    @server.tool(meta={"ui": {"visibility": ["app"], "resourceUri": "ui://page"}})
    def for_page() -> str:
        return ""

    return server


def test_a_tool_with_a_large_result_is_a_warning(server: MCPServer):
    for chars in (200_000, 480_000, 90_000):
        record_calls(server, 1, "report", result_chars=chars)
    record_calls(server, 1, "page", result_chars=100_000)
    record_calls(server, 1, "for_page", result_chars=200_000)
    record_calls(server, 1, "gone", result_chars=200_000)

    [warning] = find(["default"])

    assert warning.msg == (
        f"A result of the tool 'report' of the server {server.name!r} had about 120,000 tokens, the largest in the newest "
        "20,000 recorded calls."
    )
    assert "limit and cursor" in str(warning.hint)
    assert find([]) == []


@pytest.mark.parametrize(("later", "count"), [(19_999, 1), (20_000, 0)])
def test_only_the_newest_calls_count(server: MCPServer, later: int, count: int):
    record_calls(server, 1, "report", result_chars=200_000)
    newest = CallRecord.objects.get()
    newest.pk += later
    newest.result_chars = 1
    newest.save(force_insert=True)

    assert len(find(["default"])) == count


class Names(ModelTools):
    model = Product
    fields = ("sku", "name")
    everyone = True


@override_settings(DJANGO_MCP=RECORDING)
def test_the_record_tells_of_results_that_were_cut():
    server = MCPServer("sized", public=True, max_result_tokens=200)
    Names.register(server=server)
    Product.objects.bulk_create(
        Product(sku=f"s{at}", name="x" * 50, price=1, stock=1) for at in range(40)
    )

    for limit in (1, 40):
        call(server, "search_products", {"limit": limit})
    flush_calls()

    assert list(CallRecord.objects.order_by("pk").values_list("is_cut", flat=True)) == [False, True]
