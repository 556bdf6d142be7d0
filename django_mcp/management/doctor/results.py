"""The sizes of real results: tools are called, so only with the consent of who runs the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_mcp.directories.rules import MAX_RESULT_BYTES
from django_mcp.management.doctor.examination import Finding, bad, good, note, send
from django_mcp.management.doctor.http import MAX_BYTES, Unreachable
from django_mcp.protocol.headers import encode_value


def examine_results(url: str, token: str = "") -> Iterator[Finding]:
    """Call each tool that only reads and needs no arguments, and yield what clients would not show.

    Args:
        url: of the endpoint.
        token: credentials, if the server requires some.
    """
    fitting = 0
    tools = [tool for tool in _list_tools(url, token) if _is_callable(tool)]
    for tool in tools:
        fault = _call(url, token, tool["name"])
        if fault is None:
            fitting += 1
        else:
            yield fault
    yield good(
        f"Of {len(tools)} tools that only read and need no arguments, {fitting} return results that "
        "clients show whole; others were not called"
    )


def _is_callable(tool: dict[str, Any]) -> bool:
    annotations, schema = tool.get("annotations") or {}, tool.get("inputSchema") or {}
    return annotations.get("readOnlyHint") is True and not schema.get("required")


def _list_tools(url: str, token: str) -> Iterator[dict[str, Any]]:
    cursor: dict[str, Any] | None = {}
    while cursor is not None:
        page = send(url, token, "tools/list", cursor).message().get("result") or {}
        yield from page.get("tools", ())
        following = page.get("nextCursor")
        cursor = {"cursor": following} if following else None


def _call(url: str, token: str, name: str) -> Finding | None:
    """Return what is wrong with the result of a tool, or that it gave none; None if clients show it whole."""
    try:
        answer = send(
            url,
            token,
            "tools/call",
            {"name": name, "arguments": {}},
            {"Mcp-Name": encode_value(name)},
        )
    except Unreachable as error:
        return bad(f"The tool {name} gives no result: {error}", "See the site's log.")
    message = answer.message()
    result = message.get("result")
    size = len(answer.body)
    if isinstance(result, dict):
        if result.get("resultType", "complete") != "complete":
            return note(
                f"The tool {name} asks something first, or becomes a task", "Call it by hand."
            )
        blocks = result.get("content") or ()
        size = sum(len(block.get("text", "")) for block in blocks)
        if result.get("isError"):
            text = blocks[0].get("text", "") if blocks else ""
            return bad(f"The tool {name} fails without arguments: {text[:300]}", "See the text.")
    elif size < MAX_BYTES:
        text = str((message.get("error") or {}).get("message", ""))[:300]
        return bad(f"The tool {name} is refused with {answer.status}: {text}", "See the text.")
    if size <= MAX_RESULT_BYTES:
        return None
    return bad(
        f"The tool {name} returns {size} characters without arguments, and Claude replaces more than about "
        f"{MAX_RESULT_BYTES} by a note",
        "Return less, or pages.",
    )
