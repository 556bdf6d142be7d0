"""What the doctor reports of tools that it calls: results that clients do not show whole."""

from __future__ import annotations

import json
from typing import Any

from django_mcp.management.doctor.examination import Finding
from django_mcp.management.doctor.results import examine_results
from tests.support.fake_mcp import fake_mcp

READS = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}}
TOOLS = [
    {"name": "small", **READS},
    {"name": "large", **READS},
    {"name": "broken", **READS},
    {"name": "asks", **READS},
    {"name": "elsewhere", **READS},
    {"name": "writes", "inputSchema": {"type": "object"}},
    {"name": "wants", **READS, "inputSchema": {"type": "object", "required": ["sku"]}},
]
RESULTS: dict[str, Any] = {
    "small": {"result": {"content": [{"type": "text", "text": "x" * 150_000}]}},
    "large": {"result": {"content": [{"type": "text", "text": "x" * 150_001}]}},
    "broken": {"result": {"content": [{"type": "text", "text": "No stock"}], "isError": True}},
    "asks": {"result": {"resultType": "input_required", "inputRequests": {}}},
    "elsewhere": {"error": {"code": -32602, "message": "Unknown tool"}},
}


def look(*, as_stream: bool = False) -> tuple[list[Finding], list[str]]:
    """Return what is found, and the tools that were called."""
    called: list[str] = []

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        params = message["params"]
        if message["method"] == "tools/list":
            # Two pages.
            is_first = "cursor" not in params
            part = TOOLS[:3] if is_first else TOOLS[3:]
            return {"result": {"tools": part, **({"nextCursor": "3"} if is_first else {})}}
        called.append(params["name"])
        return RESULTS[params["name"]]

    with fake_mcp(answer, as_stream=as_stream) as url:
        return list(examine_results(url)), called


def test_only_tools_that_read_and_need_no_arguments_are_called():
    findings, called = look()

    assert called == ["small", "large", "broken", "asks", "elsewhere"]
    assert findings[-1].ok
    assert findings[-1].text.startswith("Of 5 tools")
    assert ", 1 return" in findings[-1].text


def test_a_tool_that_asks_something_is_a_note():
    noted = [each.text for each in look()[0][:-1] if each.ok]

    assert noted == ["The tool asks asks something first, or becomes a task"]


def test_results_that_a_client_would_not_show_are_faults():
    for as_stream in (False, True):
        faults = [each.text for each in look(as_stream=as_stream)[0] if not each.ok]

        assert [text.partition(" without")[0] for text in faults] == [
            "The tool large returns 150001 characters",
            "The tool broken fails",
            "The tool elsewhere is refused with 200: Unknown tool",
        ]


def test_an_answer_too_large_to_be_read_is_a_fault():
    huge = {"result": {"content": [{"type": "text", "text": "x" * 2_000_000}]}}
    listing = {"result": {"tools": TOOLS[:1]}}

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        return listing if message["method"] == "tools/list" else huge

    with fake_mcp(answer) as url:
        (fault, _) = examine_results(url)

    assert not fault.ok
    assert fault.text.startswith("The tool small returns")
    assert json.dumps(huge)[:10] not in fault.text
