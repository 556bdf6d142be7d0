"""What `manage.py check` reports of tools that take answers to questions which they never ask."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
from django.core.checks import run_checks

from django_mcp import Context, InputRequired, ask_form
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

FORM: dict[str, Any] = {"type": "object", "properties": {}}


def without_context(number: str) -> str:
    return number


def reports(ctx: Context, number: str) -> str:
    ctx.info("begun")

    def log() -> None:
        ctx.info("done")

    log()
    return str(ctx.user)


async def asks_for_text_alone(ctx: Context) -> str:
    """Sampling asks the client's model, and takes no answers of the argument."""
    return str((await ctx.asample("Hello", max_tokens=10)).text)


def asks(ctx: Context) -> str:
    return ctx.elicit("Sure?", FORM).action


def asks_inside(ctx: Context) -> str:
    def sure() -> str:
        return ctx.elicit("Sure?", FORM).action

    return sure()


def passes_it_on(ctx: Context) -> str:
    return asks(ctx)


def passes_it_on_if_there(ctx: Context | None) -> str:
    return asks(ctx) if ctx else ""


def keeps_it(ctx: Context) -> str:
    other = ctx
    return other.elicit("Sure?", FORM).action


def asks_by_result() -> InputRequired | str:
    return InputRequired({"sure": ask_form("Sure?", FORM)})


@wraps(without_context)
def wrapped(*given: Any, **named: Any) -> str:
    return without_context(*given, **named)


def test_tools_that_take_answers_and_never_ask_are_told():
    server = MCPServer("unasked")
    silent = [without_context, reports, asks_for_text_alone]
    others: list[Any] = [
        asks,
        asks_inside,
        passes_it_on,
        passes_it_on_if_there,
        keeps_it,
        asks_by_result,
        wrapped,
    ]
    for each in [*silent, *others]:
        server.tool(ask_by_argument=True, name=f"tool_{each.__name__}_{id(each)}")(each)
    server.tool(without_context)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W051"]

    texts = [each.msg for each in messages]
    assert [each.split(" ")[0].rpartition(".")[2] for each in texts] == [
        each.__name__ for each in silent
    ]
    assert texts[0].endswith("has ask_by_argument=True, and never asks: nothing reads `answers`.")
    assert messages[0].hint == (
        "Ask with ctx.elicit(...), of a parameter ctx: Context, or leave ask_by_argument out."
    )
