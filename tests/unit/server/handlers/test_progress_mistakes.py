"""Progress that a handler tells wrongly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from django_mcp import Context, MCPServer
from django_mcp.test import AsyncMCPClient, MCPClient


def make_server(*told: Any) -> MCPServer:
    server = MCPServer("progress", public=True)

    @server.tool(read_only=True, atomic=False)
    def work(ctx: Context) -> str:
        """Work."""
        try:
            for each in told:
                ctx.progress(*each)
        except TypeError as error:
            return str(error)
        return "done"

    @server.tool(read_only=True)
    async def awork(ctx: Context) -> str:
        """Work."""
        try:
            for each in told:
                await ctx.aprogress(*each)
        except TypeError as error:
            return str(error)
        return "done"

    return server


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("half",), "progress"),
        (("half", 2), "progress"),
        ((1, "two"), "total"),
        ((True, 2), "progress"),
        ((None,), "progress"),
    ],
)
async def test_what_is_no_number_raises_an_error_with_a_remedy(wrong: tuple[Any, ...], named: str):
    client = AsyncMCPClient(make_server(wrong))

    for tool in ("work", "awork"):
        text = (await client.call(tool)).text
        assert f"The {named} of ctx.progress() is a number, not " in text
        assert "ctx.progress(3, 10, 'message')" in text


def test_it_is_raised_in_a_call_in_process_too_to_which_nobody_listens():
    server = make_server(("half",))

    assert "is a number" in server.call_tool("work").text


def test_progress_above_its_total_is_logged_once_for_a_call(caplog: pytest.LogCaptureFixture):
    client = MCPClient(make_server((1, 3), (5, 3), (6, 3)))

    assert client.call("work").text == "done"
    told = [each for each in caplog.messages if "tells progress" in each]
    assert len(told) == 1
    assert told[0].startswith("work tells progress 5 of 3")


def test_numbers_of_other_types_are_sent_as_numbers(caplog: pytest.LogCaptureFixture):
    client = MCPClient(make_server((Decimal("0.5"), 2), (Fraction(3, 2), Decimal(2)), (2, 2.0)))

    assert client.call("work").text == "done"
    assert [(each.progress, each.total) for each in client.progress] == [
        (0.5, 2),
        (1.5, 2.0),
        (2, 2.0),
    ]
    assert "tells progress" not in caplog.text
