"""What `manage.py check` reports of functions that call those of entries with a permission."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import run_checks

from django_mcp import signed_in
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def delete_note(id: int) -> None: ...


@counted
def delete_page(id: int) -> None: ...


def open_tool() -> None: ...


async def delete_all() -> None:
    delete_note(1)


def delete_pages() -> None:
    for each in range(3):
        delete_page(each)


def delete_with_permission() -> None:
    delete_note(1)


def is_mine(user: Any, id: int) -> bool:
    return False


def delete_mine(id: int) -> None: ...


def delete_anything() -> None:
    delete_mine(1)


def calls_an_open_one() -> None:
    open_tool()


def calls_a_parameter(delete_note: str) -> str:
    return delete_note.strip()


def test_functions_that_call_that_of_an_entry_with_a_permission_are_told():
    server = MCPServer("direct calls", public=True)
    for guarded in (delete_note, delete_page):
        server.tool(permission=signed_in)(guarded)
    server.tool(permission=signed_in)(delete_with_permission)
    server.tool(check=is_mine)(delete_mine)
    told: list[Any] = [delete_all, delete_pages, delete_anything]
    for each in (open_tool, calls_an_open_one, calls_a_parameter, *told):
        server.tool(each)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I017"]

    ours = [each.msg for each in messages if f"{__name__}." in each.msg]
    assert [each.split(" ")[0] for each in ours] == [f"{__name__}.{each.__name__}" for each in told]
    assert " calls the function of the tool delete_note in line " in ours[0]
