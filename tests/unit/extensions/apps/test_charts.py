"""Ready-made charts: which numbers they draw over what."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.extensions.apps import Chart
from django_mcp.test import MCPClient

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}

MONTHS = [
    {"month": "2026-01-01", "revenue": "12.50", "sold": 3, "product_id": 7},
    {"month": "2026-02-01", "revenue": None, "sold": 4, "product_id": 7},
]


def render(result: Any, chart: Chart | None = None, language: str = "en") -> str:
    server = MCPServer("charts", public=True)

    def sales() -> dict[str, Any]:
        """Tell the sales."""
        return result

    server.register_tool(
        sales, app=chart or Chart(), read_only=True, output_schema={"type": "object"}
    )
    client = MCPClient(server, capabilities=HOST, headers={"accept-language": language})
    found: str = client.call("sales").meta["django_mcp/html"]
    return found


def points_of(part: str) -> Any:
    match = re.search(r'data-mcp-points="([^"]*)"', part)
    return None if match is None else json.loads(html.unescape(match[1]))


def kind_of(part: str) -> str:
    match = re.search(r'data-mcp-chart="(\w+)"', part)
    assert match is not None
    return match[1]


def test_numbers_over_days_are_lines():
    part = render({"rows": MONTHS}, Chart(x="month", y="revenue"))

    assert kind_of(part) == "line"
    assert points_of(part) == {
        "isTime": True,
        "label": "Month",
        "labels": ["01/01/2026", "02/01/2026"],
        "x": [1767225600, 1769904000],
        "series": [{"label": "Revenue", "values": [12.5, None], "shown": ["12.50", "–"]}],
    }


def test_days_and_numbers_are_found_and_keys_are_not_drawn():
    found = points_of(render({"rows": MONTHS}))

    assert found["isTime"]
    assert [each["label"] for each in found["series"]] == ["Revenue", "Sold"]


def test_numbers_of_categories_are_bars():
    rows = [{"product": "Mug", "sold": 3}, {"product": "Teapot", "sold": 1}]

    part = render({"rows": rows})

    assert kind_of(part) == "bar"
    assert points_of(part)["labels"] == ["Mug", "Teapot"]
    assert kind_of(render({"rows": rows}, Chart(kind="line"))) == "line"


def test_values_of_a_column_can_be_series():
    rows = [
        {"month": "2026-02-01", "shop": "A", "sold": 3},
        {"month": "2026-01-01", "shop": "B", "sold": 4},
        {"month": "2026-02-01", "shop": "B", "sold": 5},
    ]

    found = points_of(render({"rows": rows}, Chart(by="shop")))

    assert found["labels"] == ["01/01/2026", "02/01/2026"]
    assert {each["label"]: each["values"] for each in found["series"]} == {
        "A": [None, 3],
        "B": [4, 5],
    }


def test_a_summary_of_a_generated_tool():
    groups = [
        {"group": {"placed_at__month": "2026-01-01"}, "count": 2, "sum": {"total": "5.00"}},
        {"group": {"placed_at__month": "2026-02-01"}, "count": 1, "sum": {"total": "7.00"}},
    ]

    part = render({"groups": groups, "total": 2})

    assert kind_of(part) == "line"
    assert [(each["label"], each["values"]) for each in points_of(part)["series"]] == [
        ("Sum of total", [5, 7])
    ]
    counts = [{name: each[name] for name in ("group", "count")} for each in groups]
    [series] = points_of(render({"groups": counts, "total": 2}))["series"]
    assert (series["label"], series["values"]) == ("Number", [2, 1])


def test_moments_are_in_the_zone_of_the_site(settings: Any):
    settings.TIME_ZONE = "Europe/Berlin"
    rows = [{"at": f"2026-05-01T{hour}:00:00Z", "n": 1} for hour in (22, 23)]

    found = points_of(render({"rows": rows}, Chart(x="at"), "de"))

    assert found["labels"] == ["02.05.2026 00:00", "02.05.2026 01:00"]
    assert found["x"][0] % 86400 == 0


def test_the_same_numbers_are_in_a_table():
    part = render({"rows": MONTHS})

    assert '<th scope="row"><time datetime="2026-01-01">01/01/2026</time></th>' in part
    assert "The chart as a table" in part


@pytest.mark.parametrize("result", [{}, {"rows": []}, {"rows": [{"a": "b"}]}, {"rows": ["a"]}])
def test_nothing_to_draw(result: Any):
    part = render(result)

    assert "There are no numbers to draw." in part
    assert "data-mcp-points" not in part


HOSTILE = "</script>\"'><img src=x onerror=a()>{{ 7 }}"


def test_hostile_values_are_text():
    rows = [{HOSTILE: HOSTILE, "sold": 1}, {HOSTILE: "b", "sold": "9" * 500}, {"sold": True}]

    part = render({"rows": rows, "note": HOSTILE})

    assert points_of(part) is None
    assert "<img" not in part
    assert "</script" not in part
    part = render({"rows": rows[:1]})
    assert points_of(part)["labels"] == [HOSTILE]
    assert "<img" not in part


def test_many_points_and_series_are_cut():
    rows = [{"name": f"n{n}", "of": f"s{n % 20}", "sold": n} for n in range(10_000)]

    part = render({"rows": rows}, Chart(by="of"))

    assert "Only the first 500 points are drawn." in part
    assert "Only 8 of the series are drawn." in part
    assert len(points_of(part)["series"]) == 8


def test_an_integer_without_a_float():
    found = points_of(render({"rows": [{"a": "x", "n": 10**400}, {"a": "y", "n": 1}]}))

    assert found["series"][0]["values"] == [None, 1]


@pytest.mark.parametrize("options", [{"kind": "pie"}, {"y": [5]}, {"x": 5}])
def test_wrong_options_are_refused(options: Any):
    with pytest.raises((TypeError, ValueError), match="write"):
        Chart(**options)


def test_only_the_page_of_charts_draws_them():
    server = MCPServer("pages", public=True)

    def tell() -> dict[str, Any]:
        """Tell."""
        return {"rows": MONTHS}

    server.register_tool(tell, name="chart", app=Chart(), read_only=True)
    server.register_tool(tell, name="table", app="table", read_only=True)
    client = MCPClient(server)

    assert "uPlot" in client.app("chart")
    assert "uPlot" not in client.app("table")
    client.assert_app("chart")
    client.assert_app("table")
