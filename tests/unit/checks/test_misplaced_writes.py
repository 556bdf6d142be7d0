"""What `manage.py check` reports of functions that write before an error without a transaction, or to read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.db import transaction
from django.db.models import F

from django_mcp import ToolError
from django_mcp.servers import MCPServer
from tests.support.library.models import Book, Tag

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


async def saved(name: str) -> None:
    group = Group(name=name)
    await group.asave()
    raise ToolError("No.")


async def created_under_a_condition(name: str) -> None:
    group = await Group.objects.acreate(name=name)
    for each in name:
        if each == group.name:
            raise ToolError("No.")


async def updated_in_one_way(name: str) -> None:
    if name:
        await Group.objects.filter(name=name).aupdate(name="other")
    else:
        print()
    raise ToolError("No.")


async def raised_first(name: str) -> None:
    if not name:
        raise ToolError("No.")
    await Group.objects.acreate(name=name)


async def raised_in_another_way(name: str) -> None:
    if name:
        await Group.objects.acreate(name=name)
        return
    raise ToolError("No.")


async def raised_because_of_it(name: str) -> None:
    try:
        await Group.objects.acreate(name=name)
    except ValueError as error:
        raise ToolError("No.") from error


async def written_by_others(name: str) -> None:
    names = {name}
    names.add(name)
    raise ToolError("No.")


def synchronous(name: str) -> None:
    Group.objects.create(name=name)
    raise ToolError("No.")


def resource() -> str:
    group = Group.objects.get(pk=1)
    group.save()
    raise ToolError("No.")


def atomic_resource() -> str:
    with transaction.atomic():
        Group.objects.create(name="x")
        raise ToolError("No.")


async def twice(name: str) -> None:
    group = await Group.objects.acreate(name=name)
    await group.permissions.aclear()
    group.name = "other"
    await group.asave()


async def in_a_loop(names: list[str]) -> None:
    for name in names:
        await Group.objects.acreate(name=name)


async def in_either_way(name: str) -> None:
    if name:
        await Group.objects.acreate(name=name)
    else:
        await Group.objects.acreate(name="other")


def synchronous_loop(names: list[str]) -> None:
    for name in names:
        Group.objects.create(name=name)


def test_functions_that_write_twice_without_a_transaction_are_told():
    server = MCPServer("twice")
    told = [twice, in_a_loop]
    others: list[Any] = [in_either_way, synchronous_loop]
    for each in (*told, *others):
        server.tool(each)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I016"
    ]

    ours = [each for each in messages if f"{__name__}." in each and ", and again in " in each]
    assert [each.split(" ")[0] for each in ours] == [f"{__name__}.{each.__name__}" for each in told]
    assert " writes with Group.objects.acreate(), and again in line " in ours[0]


def dict_of_a_view(name: str) -> dict[str, Any]:
    group = Group.objects.create(name=name)
    if group.pk > 7:
        return {"error": f"There are {group.pk} groups."}
    return {"id": group.pk}


def inside_of_a_transaction(name: str) -> dict[str, Any]:
    with transaction.atomic():
        Group.objects.create(name=name)
        if not name:
            return {"success": False, "message": "A name is missing."}
    return {"success": True}


def text_of_an_error(name: str) -> str:
    Group.objects.filter(name=name).update(name="x")
    return f"Error: no {name}"


def with_a_status(name: str) -> Any:
    Group.objects.filter(name=name).delete()
    return {"detail": "gone"}, 404


def before_it_writes(name: str) -> dict[str, Any]:
    if not name:
        return {"error": "A name is missing."}
    Group.objects.create(name=name)
    return {"error": None, "status": "created", "errors": []}


def a_few_of_many(names: list[str]) -> dict[str, Any]:
    errors: list[str] = []
    for name in names:
        Group.objects.create(name=name)
    return {"made": len(names), "errors": errors}


def without_writing(name: str) -> dict[str, Any]:
    return {"error": "Nothing.", "count": Group.objects.count()}


def test_functions_that_write_and_return_an_error_as_their_result_are_told():
    server = MCPServer("returning")
    told: list[Any] = [dict_of_a_view, inside_of_a_transaction, text_of_an_error, with_a_status]
    for each in (*told, before_it_writes, a_few_of_many, without_writing):
        server.tool(each)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I020"
    ]

    ours = [each for each in messages if each.startswith(f"{__name__}.")]
    assert [each.split(" ")[0] for each in ours] == [f"{__name__}.{each.__name__}" for each in told]
    assert " writes with Group.objects.create(), and may return an error as its result " in ours[0]


def test_functions_that_write_without_a_transaction_and_raise_after_it_are_told():
    server = MCPServer("halfway")
    told = [saved, created_under_a_condition, updated_in_one_way]
    others: list[Any] = [
        raised_first,
        raised_in_another_way,
        raised_because_of_it,
        written_by_others,
        synchronous,
    ]
    for each in (*told, *others):
        server.tool(each)
    server.resource("halfway://one")(resource)
    server.resource("halfway://other")(atomic_resource)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I016"]

    ours = [
        each.msg
        for each in messages
        if f"{__name__}." in each.msg and " may raise an error after it " in each.msg
    ]
    names = [each.__name__ for each in (*told, resource)]
    assert [each.split(" ")[0] for each in ours] == [f"{__name__}.{name}" for name in names]
    assert " writes with group.asave(), and may raise an error after it in line " in ours[0]


def test_writes_of_what_says_that_it_only_reads_are_told():
    server = MCPServer("reading")

    @server.tool(read_only=True)
    async def list_groups() -> int:
        await Group.objects.aget_or_create(name="seen")
        return await Group.objects.acount()

    @server.resource("reading://it")
    def seen() -> str:
        group = Group.objects.get(pk=1)
        group.save()
        return group.name

    @server.tool(read_only=True)
    def count_groups() -> int:
        counts = {"groups": Group.objects.count()}
        counts.update(other=1)
        return counts["groups"]

    @server.tool
    def add_group(name: str) -> None:
        Group.objects.create(name=name)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W055"
    ]

    ours = [each for each in messages if f"{__name__}.test_writes_of" in each]
    assert [each.partition("<locals>.")[2].split(" ")[0] for each in ours] == [
        "list_groups",
        "seen",
    ]
    assert " has read_only=True, and writes with Group.objects.aget_or_create() in line " in ours[0]
    assert " is there to be read, and writes with group.save() in line " in ours[1]


def keep(name: str) -> None:
    Tag.objects.create(name=name)


def keep_twice(name: str) -> None:
    keep(name)


def keep_again(name: str, depth: int) -> None:
    keep_again(name, depth - 1)


def test_writes_in_functions_that_are_called_are_told():
    server = MCPServer("reading-by-others")

    @server.tool(read_only=True)
    def by_model() -> str:
        tag = Tag.objects.get(name="a")
        tag.rename("b")
        return str(tag)

    @server.tool(read_only=True)
    def by_manager() -> int:
        return Book.objects.remove()

    @server.tool(read_only=True)
    def by_function() -> None:
        keep_twice("a")

    @server.tool(read_only=True)
    def by_nothing() -> int:
        keep_again("a", 3)
        return Book.objects.number()

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W055"
    ]

    ours = [each for each in messages if f"{__name__}.test_writes_in_functions" in each]
    assert [
        (
            each.partition("<locals>.")[2].split(" ")[0],
            each.partition(" writes with ")[2].split(" ")[0],
        )
        for each in ours
    ] == [
        ("by_model", "tag.rename()"),
        ("by_manager", "Book.objects.remove()"),
        ("by_function", "keep_twice()"),
    ]


def hinted(server: MCPServer) -> list[str]:
    """Return what W058 says of the functions of a test."""
    messages = run_checks(tags=["django_mcp"])
    sources = tuple(tool.source for tool in server.registry.tools.values())
    return [
        each.msg.replace("<locals>.", "").removeprefix(f"{__name__}.")
        for each in messages
        if each.id == "django_mcp.W058" and each.msg.startswith(sources)
    ]


def test_a_tool_that_deletes_and_says_otherwise_is_told():
    server = MCPServer("hinting")

    @server.tool(destructive=False)
    def deletes(name: str) -> None:
        Tag.objects.filter(name=name).delete()

    @server.tool(destructive=True)
    def deletes_and_says_so(name: str) -> None:
        Tag.objects.filter(name=name).delete()

    @server.tool(destructive=False)
    def adds(name: str) -> None:
        Tag.objects.create(name=name)

    (message,) = hinted(server)
    assert ".deletes " in message
    assert (
        " has destructive=False, and deletes with Tag.objects.filter(name=name).delete() in "
        in message
    )


def test_a_tool_that_adds_with_each_call_and_says_otherwise_is_told():
    server = MCPServer("repeating")
    for function in (
        adds_again,
        adds_again_in_a_loop,
        counts_up,
        sets,
        looks_first,
        returns_first,
        gets_or_adds,
    ):
        server.tool(idempotent=True)(function)

    ours = hinted(server)
    assert [each.split(" ")[0] for each in ours] == [
        "adds_again",
        "adds_again_in_a_loop",
        "counts_up",
    ]
    assert " has idempotent=True, and Tag.objects.create() in line " in ours[0]


def adds_again(name: str) -> None:
    Tag.objects.create(name=name)


async def adds_again_in_a_loop(names: list[str]) -> None:
    for each in names:
        await Tag.objects.acreate(name=each)


def counts_up(isbn: str) -> None:
    Book.objects.filter(isbn=isbn).update(place=F("place") + 1)


def sets(isbn: str) -> None:
    Book.objects.filter(isbn=isbn).update(place=F("shelf_id"), title="a")


def looks_first(name: str) -> None:
    if not Tag.objects.filter(name=name).exists():
        Tag.objects.create(name=name)


def returns_first(name: str) -> None:
    if Tag.objects.filter(name=name).exists():
        return
    Tag.objects.create(name=name)


def gets_or_adds(name: str) -> None:
    Tag.objects.get_or_create(name=name)
