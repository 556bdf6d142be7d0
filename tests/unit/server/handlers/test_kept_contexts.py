"""What the log says, with DEBUG, of contexts that are used after the end of their call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import Context, MCPServer
from django_mcp.server.handlers import progress_and_logs
from django_mcp.test import MCPClient


@pytest.fixture(autouse=True)
def debug() -> Iterator[None]:
    progress_and_logs.ended.reset()
    with override_settings(DEBUG=True):
        yield
    progress_and_logs.ended.reset()


def keep(use: Callable[[Context], Any]) -> Context:
    """Return the context of a call that has used it, and has ended."""
    server, kept = MCPServer("kept", public=True), []

    @server.tool(read_only=True)
    def work(ctx: Context) -> str:
        """Work."""
        use(ctx)
        kept.append(ctx)
        return "done"

    assert MCPClient(server).call("work").text == "done"
    return kept[0]


USES: dict[str, Callable[[Context], Any]] = {
    "progress": lambda ctx: ctx.progress(1, 2),
    "log": lambda ctx: ctx.info("at work"),
}


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "after its call was answered" in each]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_message_after_the_end_of_the_call_is_told_once(
    caplog: pytest.LogCaptureFixture, use: Callable[[Context], Any]
):
    ctx = keep(use)
    assert told_of(caplog) == []

    use(ctx)
    use(ctx)

    (told,) = told_of(caplog)
    assert told.startswith("work uses its context after")


@override_settings(DEBUG=False)
def test_nothing_is_told_in_production(caplog: pytest.LogCaptureFixture):
    ctx = keep(USES["progress"])

    USES["progress"](ctx)

    assert told_of(caplog) == []
