"""Ready-made tables: what they show of a result, and what they can do with it."""

from __future__ import annotations

import html
import json
import re
import tracemalloc
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from django_mcp import MCPServer
from django_mcp.extensions.apps import Card, Table
from django_mcp.registry.big_integers import BigInt
from django_mcp.test import MCPClient

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}

ROW = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "title": "number"},
        "total": {"type": "number"},
        "price": {"type": "string", "format": "decimal"},
        "placed_at": {"type": "string", "format": "date-time"},
        "paid": {"type": "boolean"},
        "customer": {"type": "object"},
        "lines": {"type": "array"},
        "note": {"type": ["string", "null"]},
    },
}
OUTPUT = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": ROW}, "next_cursor": {"type": "string"}},
}
INPUT = {
    "type": "object",
    "properties": {
        "search": {"type": "string"},
        "ordering": {"type": "string", "enum": ["number", "-number"]},
        "cursor": {"type": "string"},
        "status": {"type": "string"},
    },
}
ORDER = {
    "number": "A1",
    "total": 1234.5,
    "price": "12.50",
    "placed_at": "2026-05-01T10:00:00Z",
    "paid": True,
    "customer": {"pk": 1, "text": "Ada"},
    "lines": [{"product": {"name": "Mug"}, "quantity": 2}, "b", "c", "d", "e"],
    "note": None,
}


def make_server(result: Any, table: Any = None, **options: Any) -> MCPServer:
    server = MCPServer("tables", public=True)

    def find_orders(arguments: dict[str, Any]) -> dict[str, Any]:
        """Find orders."""
        return {**result, "asked": arguments} if "asked" in result else result

    given = {"input_schema": INPUT, "output_schema": OUTPUT, **options}
    server.register_tool(find_orders, app=table or Table(), read_only=True, **given)
    return server


def render(server: MCPServer, language: str = "en", user: Any = None, **arguments: Any) -> str:
    client = MCPClient(server, capabilities=HOST, user=user, headers={"accept-language": language})
    found: str = client.call("find_orders", **arguments).meta["django_mcp/html"]
    return found


def cells_of(part: str) -> list[str]:
    body = part.partition("<tbody>")[2].partition("</tbody>")[0]
    texts = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", body, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)) for text in texts]


def calls_of(part: str) -> dict[str, Any]:
    """Return the arguments of the buttons by their ids."""
    found = re.findall(r'id="([\w.-]+)" data-mcp-call="\w+" data-mcp-args="([^"]*)"', part)
    return {name: json.loads(html.unescape(text)) for name, text in found}


def test_values_are_shown_as_people_read_them():
    server = make_server({"results": [ORDER]})

    shown = cells_of(render(server))

    assert shown == [
        "A1", "1234.5", "12.50", "05/01/2026 10 a.m.", "Yes", "Ada", "Mug · 2, b, c +2", "–"
    ]  # fmt: skip


def test_values_are_shown_in_the_language_of_the_request():
    server = make_server({"results": [ORDER]})

    shown = cells_of(render(server, "de"))

    assert shown[1:5] == ["1234,5", "12,50", "01.05.2026 10:00", "Ja"]


def test_numbers_are_at_the_end():
    part = render(make_server({"results": [ORDER]}))

    assert '<td class="mcp-number">1234.5</td>' in part
    assert '<th scope="col" class="mcp-number">Total</th>' in part


def test_columns_can_be_chosen():
    table = Table(columns=["customer.text", "number"])

    part = render(make_server({"results": [ORDER]}, table))

    assert cells_of(part) == ["Ada", "A1"]


def test_without_a_schema_the_rows_tell_the_columns():
    rows = [{"day": "2026-05-01", "sold": 3}, {"day": "2026-05-02", "sold": 4, "more": "<b>"}]
    server = make_server({"rows": rows}, output_schema={"type": "object"})

    part = render(server, "de")

    assert cells_of(part) == ["01.05.2026", "3", "–", "02.05.2026", "4", "<b>"]


def test_rows_that_are_no_objects():
    server = make_server({"names": ["one", "two"]}, output_schema={"type": "object"})

    assert cells_of(render(server)) == ["one", "two"]


HOSTILE = "</script><script>alert(1)</script>{{ 7 }}{% now 'Y' %}\"'&<img src=x onerror=a()>"


def test_hostile_values_and_names_are_text():
    row = {**ORDER, "number": HOSTILE, "customer": {HOSTILE: HOSTILE}, HOSTILE: 1}
    table = Table(columns=["number", "customer", HOSTILE], title=HOSTILE)

    part = render(make_server({"results": [row], "note": HOSTILE}, table))

    assert HOSTILE in cells_of(part)
    assert "<script" not in part
    assert "<img" not in part
    assert "{{ 7 }}" in part


def test_sorting_calls_the_tool_again_with_the_other_arguments():
    server = make_server({"results": [ORDER]})

    calls = calls_of(render(server, search="a", cursor="c"))
    assert calls["mcp-sort-number"] == {"search": "a", "ordering": "number"}
    assert "mcp-sort-total" not in calls

    part = render(server, ordering="number")
    assert 'aria-sort="ascending"' in part
    assert calls_of(part)["mcp-sort-number"] == {"ordering": "-number"}
    assert 'aria-sort="descending"' in render(server, ordering="-number")


def test_searching_keeps_filters_and_order_but_not_the_page():
    part = render(
        make_server({"results": []}), search="tea<", status="new", ordering="number", cursor="c"
    )

    assert calls_of(part)["mcp-go"] == {"ordering": "number"}
    assert 'name="search" value="tea&lt;"' in part
    assert 'name="status" value="new"' in part
    assert "There is nothing to show." in part


def test_pages_by_cursor():
    server = make_server({"results": [ORDER], "next_cursor": "next"})

    first = render(server, search="a")
    calls = calls_of(first)
    assert calls["mcp-after"] == {"search": "a", "cursor": "next"}
    assert "mcp-before" not in calls
    assert "1 on this page. There are more." in first

    second = render(server, search="a", cursor="c")
    assert calls_of(second)["mcp-before"] == {"search": "a"}
    assert "First page" in second


@pytest.mark.parametrize(
    ("given", "result", "after", "before"),
    [
        ({}, {"count": 3}, {"page": 2}, None),
        ({"page": 2}, {"count": 2}, None, {"page": 1}),
        ({"page": 2}, {"has_more": True}, {"page": 3}, {"page": 1}),
        ({}, {"next": {"page": 2}, "previous": None}, {"page": 2}, None),
        ({"page": 2}, {"next": None, "previous": {"page": 1}}, None, {"page": 1}),
        ({}, {}, None, None),
    ],
)
def test_pages_by_number(given: Any, result: Any, after: Any, before: Any):
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
    server = make_server({"results": [ORDER], **result}, input_schema=schema)

    calls = calls_of(render(server, **given))

    assert calls.get("mcp-after") == after
    assert calls.get("mcp-before") == before


@pytest.mark.parametrize(
    ("given", "after", "before"),
    [
        ({"limit": 1}, {"limit": 1, "offset": 1}, None),
        ({"limit": 1, "offset": 2}, None, {"limit": 1, "offset": 1}),
    ],
)
def test_pages_by_offset(given: Any, after: Any, before: Any):
    names = {"limit": {"type": "integer"}, "offset": {"type": "integer"}}
    schema = {"type": "object", "properties": names}
    server = make_server({"results": [ORDER], "count": 3}, input_schema=schema)

    calls = calls_of(render(server, **given))

    assert calls.get("mcp-after") == after
    assert calls.get("mcp-before") == before


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({}, "2 in all."),
        ({"count": 5}, "2 of 5."),
        ({"count": 5, "is_count_capped": True}, "2 of more than 5."),
        ({"total": 5}, "2 of 5."),
        ({"note": "You may not search in x."}, "You may not search in x."),
    ],
)
def test_the_number_of_rows_is_told(result: Any, told: str):
    assert told in render(make_server({"results": [ORDER, ORDER], **result}))


def test_no_more_than_500_rows_are_shown():
    part = render(make_server({"results": [{"number": str(n)} for n in range(10_000)]}))

    assert part.count("<tr>") == 501
    assert "Only the first 500 rows are shown." in part


def test_long_values_are_cut():
    [shown, *_] = cells_of(render(make_server({"results": [{"number": "x" * 10_000}]})))

    assert shown == "x" * 199 + "…"


def add_actions(server: MCPServer) -> None:
    def get_order(number: str) -> dict[str, Any]:
        """Get one."""
        return {"number": number}

    def cancel(number: str) -> dict[str, Any]:
        """Cancel one."""
        return {}

    server.register_tool(get_order, read_only=True)
    server.register_tool(cancel, permission="auth.change_user", destructive=False)


def test_rows_have_buttons_for_what_the_user_may_do(django_user_model: type[User], db: None):
    table = Table(key="number", actions=["get_order", "cancel", "unknown"])
    server = make_server({"results": [{"number": "A<1"}]}, table)
    add_actions(server)

    part = render(server)
    assert (
        'data-mcp-call="get_order" data-mcp-args="{&quot;number&quot;:&quot;A&lt;1&quot;}"' in part
    )
    assert 'data-mcp-call="cancel"' not in part

    root = django_user_model.objects.create_superuser("root")
    assert 'data-mcp-call="cancel"' in render(server, user=root)


def test_an_argument_does_not_make_a_tool_one_that_asks_itself():
    """A slip on a row would do what such a tool does, so its button is on the card, behind a question."""
    acts: dict[str, Any] = {"key": "id", "actions": ["burn", "burn_slowly"]}

    def burn(id: str, confirmation: str = "") -> str:
        """Burn."""
        return id

    def burn_slowly(id: str) -> str:
        """Burn, when the user has agreed."""
        return id

    parts = []
    for app in (Table(**acts), Card(**acts)):
        result: Any = {"id": "7"} if isinstance(app, Card) else {"results": [{"id": "7"}]}
        server = make_server(result, app)
        server.register_tool(burn, destructive=True)
        server.register_tool(burn_slowly, destructive=True, confirm="app")
        parts.append(render(server))
    table, card = parts

    assert 'data-mcp-call="burn_slowly"' in table
    assert 'data-mcp-call="burn"' not in table
    asked = card.partition('<details class="mcp-ask">')[2].partition("</details>")[0]
    assert 'data-mcp-call="burn"' in asked
    assert 'data-mcp-call="burn_slowly"' not in asked
    assert 'data-mcp-call="burn_slowly"' in card


@pytest.mark.parametrize("app", [Table, Card])
def test_a_key_that_the_page_would_round_is_sent_as_digits_or_not_at_all(app: Any):
    def burn(id: int) -> str:
        """Burn."""
        return str(id)

    def keep(id: BigInt) -> str:
        """Keep."""
        return str(id)

    def find_calls(key: int) -> str:
        row: dict[str, Any] = {"id": key}
        result = row if app is Card else {"results": [row]}
        server = make_server(result, app(key="id", actions=["burn", "keep"]))
        server.register_tool(burn, destructive=False)
        server.register_tool(keep, destructive=False)
        return html.unescape(render(server))

    exact, rounded = find_calls(2**53 - 1), find_calls(2**53 + 1)

    assert 'data-mcp-call="burn" data-mcp-args="{"id":9007199254740991}"' in exact
    assert 'data-mcp-call="keep" data-mcp-args="{"id":9007199254740991}"' in exact
    assert 'data-mcp-call="burn"' not in rounded
    assert 'data-mcp-call="keep" data-mcp-args="{"id":"9007199254740993"}"' in rounded


def test_a_number_of_the_call_that_the_page_would_round_gives_no_button():
    def burn(id: str, ledger: int) -> str:
        """Burn."""
        return id

    inputs = {"type": "object", "properties": {"ledger": {"type": "integer"}}}
    table = Table(key="id", actions=["burn"])
    server = make_server({"results": [{"id": "7"}]}, table, input_schema=inputs)
    server.register_tool(burn, destructive=False)

    assert 'data-mcp-call="burn"' in render(server, ledger=7)
    assert 'data-mcp-call="burn"' not in render(server, ledger=2**53 + 1)


def test_a_row_without_a_key_has_no_buttons():
    server = make_server({"results": [{"total": 1}]}, Table(key="number", actions=["get_order"]))
    add_actions(server)

    assert 'data-mcp-call="get_order"' not in render(server)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rows": 5}, "rows is 5"),
        ({"columns": "number"}, "write a list"),
        ({"columns": [1]}, "write a list"),
        ({"actions": "get"}, "write a list"),
        ({"key": ""}, "key is ''"),
    ],
)
def test_wrong_options_are_refused(options: Any, told: str):
    with pytest.raises(TypeError, match=told):
        Table(**options)


def test_all_texts_are_translated():
    part = render(make_server({"results": [ORDER], "next_cursor": "n"}), "de")

    with translation.override("de"):
        for text in ("Search", "Next page", "Refresh", "There are more."):
            assert translation.gettext(text) != text
            assert translation.gettext(text) in part


@pytest.mark.parametrize("row", [{}, {"truncated": ["lines"]}, [], None, {"a.b": 1, "": 2}])
def test_rows_of_another_shape_are_shown(row: Any):
    part = render(make_server({"rows": [row]}, output_schema={"type": "object"}))

    assert "mcp-title" in part
    if row and "a.b" in row:
        assert cells_of(part) == ["1", "2"]


@pytest.mark.parametrize(
    ("given", "count"), [({"search": '"' * 400_000}, 1), ({"shop": '"' * 9_000}, 500)]
)
def test_a_table_does_not_repeat_long_arguments(given: dict[str, str], count: int):
    server = MCPServer("tables-arguments", public=True)
    names = [f"c{number}" for number in range(30)]

    @server.tool(read_only=True, app=Table(key="pk", actions=["take"]))
    def list_rows(
        shop: str = "",
        search: str = "",
        ordering: Literal[tuple(names)] = "c0",  # type: ignore[valid-type]
    ) -> dict[str, Any]:
        """List them."""
        return {"results": [{"pk": number, **dict.fromkeys(names, 0)} for number in range(count)]}

    @server.tool(read_only=True)
    def take(shop: str, pk: int) -> str:
        """Take one."""
        return f"{shop} {pk}"

    client = MCPClient(server, capabilities=HOST)
    client.call("list_rows")
    tracemalloc.start()
    try:
        client.call("list_rows", **given)
        _kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 25_000_000


FILTERS = {
    "status": {"type": "string", "enum": ["placed", "sent"], "title": "status"},
    "paid": {"type": ["boolean", "null"]},
    "customer": {"type": "string", "maxLength": 40},
    "day__gte": {"type": "string", "format": "date", "title": "day", "description": "not before"},
    "shop": {"type": "string"},
    "total": {"type": "number"},
    "limit": {"type": "integer"},
    "count": {"type": "boolean"},
}


def filters_of(part: str) -> dict[str, str]:
    """Return the inputs of the filters by the arguments that they are for."""
    pattern = r"<select[^>]* data-mcp-filter>.*?</select>|<input[^>]* data-mcp-filter[^>]*>"
    found = re.findall(pattern, part, re.DOTALL)
    return {re.findall(r'name="([^"]+)"', each)[0]: each for each in found}


def test_simple_filters_have_inputs_that_keep_their_values():
    schema = {
        **INPUT,
        "properties": {"search": {"type": "string"}, **FILTERS},
        "required": ["shop"],
    }
    server = make_server({"results": [ORDER]}, input_schema=schema)
    given: dict[str, Any] = {
        "shop": "7",
        "status": "sent",
        "paid": False,
        "customer": '"><b>',
        "limit": 5,
    }

    part = render(server, **given)

    filters = filters_of(part)
    assert list(filters) == ["status", "paid", "customer", "day__gte"]
    assert '<option value="&quot;sent&quot;" selected>sent</option>' in filters["status"]
    assert '<option value="false" selected>No</option>' in filters["paid"]
    assert 'type="date"' in filters["day__gte"]
    assert 'value="&quot;&gt;&lt;b&gt;"' in filters["customer"]
    assert ">Day, not before</label>" in part
    # What the inputs have is added by the page, and what was emptied is left out.
    assert calls_of(part)["mcp-go"] == {"shop": "7", "limit": 5}
    assert calls_of(part)["mcp-again"] == given


def test_a_table_of_a_tool_without_filters_has_no_inputs():
    server = make_server({"results": [ORDER]}, input_schema={"type": "object", "properties": {}})

    assert "mcp-search" not in render(server)
